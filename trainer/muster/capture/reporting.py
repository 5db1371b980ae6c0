"""How an adapter reports what it has captured."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, ParamSpec

from muster.capture.libraries import LIBRARIES
from muster.sdk.reporter import current, warn_once

P = ParamSpec("P")

_given_up: set[str] = set()
_local = threading.local()


def report(
    route: str,
    values: Mapping[str, Any],
    *,
    step: int | None,
    run: Hashable = "",
    axis: str = "",
    epoch: float | None = None,
    num_steps_planned: int | None = None,
    is_explicit: bool = False,
) -> None:
    """Report those of the values that are numbers, unless a library is speaking that has reported them
    already.

    step: as the library counts; None: one more than at the last report of this run.
    run: tells the runs of the library in this process apart, where it knows them.
    axis: what the steps count, where that is not what the library's other steps count.
    is_explicit: a class of muster.integrations reports, which no document switches off.
    """
    if values and not is_speaking() and route not in _given_up:
        current().log_captured(
            values,
            route=route,
            library=LIBRARIES[route],
            step=step,
            run=run,
            axis=axis,
            epoch=epoch,
            num_steps_planned=num_steps_planned,
            is_explicit=is_explicit,
        )


def give_up(route: str, error: Exception) -> None:
    """Capture nothing more of a library, and say why."""
    _given_up.add(route)
    warn_once(
        f"values that the script logs with {LIBRARIES[route]} are not captured: "
        f"{type(error).__name__}: {error}"
    )


@contextlib.contextmanager
def speaking() -> Iterator[None]:
    """Report nothing in this thread while the block runs: what it logs has been reported."""
    _local.depth = getattr(_local, "depth", 0) + 1
    try:
        yield
    finally:
        _local.depth -= 1


def is_speaking() -> bool:
    return getattr(_local, "depth", 0) > 0


def guarded(route: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator: errors of the function end the capturing of the route."""

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            if route in _given_up:
                return
            try:
                function(*args, **kwargs)
            except Exception as error:
                give_up(route, error)

        return call

    return decorate


def before(owner: Any, name: str, look: Callable[..., None]) -> None:
    """Have `look` called with the arguments of each call of a method, before it runs. What the method
    logs elsewhere is not captured again."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def seen(*args: Any, **kwargs: Any) -> Any:
        look(*args, **kwargs)
        with speaking():
            return original(*args, **kwargs)

    setattr(owner, name, seen)
