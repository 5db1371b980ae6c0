"""torchrun looks for the other nodes more often, unless its torch is not the one that this is known of."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import pytest

from muster.launch import warm


class Delays:
    """What `_delay` was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def known(self, seconds: Any) -> None:
        self.asked.append(seconds)

    def other(self, seconds: Any, jitter: float = 0.1) -> None:
        self.asked.append(seconds)


def rendezvous(monkeypatch: pytest.MonkeyPatch, delay: Any, cache_s: Any) -> Any:
    """Return a module in the place of torch's, whose holder keeps its state for `cache_s`."""
    module = types.ModuleType(warm.RENDEZVOUS)
    if cache_s is not None:

        class Holder:
            def __init__(self, backend: Any, settings: Any, cache_duration: Any = cache_s) -> None:
                self.cache_s = cache_duration

        vars(module)["_BackendRendezvousStateHolder"] = Holder
    if delay is not None:
        vars(module)["_delay"] = delay
    monkeypatch.setitem(sys.modules, warm.RENDEZVOUS, module)
    return module


def test_torchrun_waits_shortly_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = Delays()
    module = rendezvous(monkeypatch, delays.known, 1)
    warm._meet_quickly()
    module._delay(seconds=1)
    module._delay(seconds=(0, 0.3))
    assert delays.asked == [warm.LOOK_S, warm.LOOK_S]
    assert module._BackendRendezvousStateHolder(None, None).cache_s == 0


@pytest.mark.parametrize(
    ("has_delay", "is_known", "cache_s"),
    [(False, True, 1), (True, False, 1), (True, True, None), (True, True, 2)],
)
def test_another_torch_keeps_its_own_pace(
    monkeypatch: pytest.MonkeyPatch, has_delay: bool, is_known: bool, cache_s: Any
) -> None:
    delays = Delays()
    delay = (delays.known if is_known else delays.other) if has_delay else None
    module = rendezvous(monkeypatch, delay, cache_s)
    warm._meet_quickly()
    if has_delay:
        module._delay(seconds=1)
        assert delays.asked == [1]
    if cache_s is not None:
        assert module._BackendRendezvousStateHolder(None, None).cache_s == cache_s


def test_a_torch_without_the_module_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, warm.RENDEZVOUS, None)
    warm._meet_quickly()


@pytest.mark.torch
def test_the_tested_torch_is_one_that_can_be_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(warm.RENDEZVOUS)
    start = module._BackendRendezvousStateHolder.__init__
    monkeypatch.setattr(start, "__defaults__", start.__defaults__)
    monkeypatch.setattr(module, "_delay", module._delay)
    warm._meet_quickly()
    assert module._BackendRendezvousStateHolder(None, None)._cache_duration == 0
