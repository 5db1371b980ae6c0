"""Weights & Biases: what `wandb.log` gets, at wandb's own steps or those of the metric that
`define_metric` names; nested values under dotted names.

A script without a key would stop at `wandb.init`. It runs offline instead, and what wandb writes stays
among the trial's outputs, from where `wandb sync` can send it. A key, a login or a mode of the user's
is left alone.
"""

from __future__ import annotations

import netrc
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from muster.capture.reporting import before, guarded, report
from muster.series_rules import finite

ROUTE = "wandb"
MAX_DEPTH = 5
"""Depth to which nested values are taken."""


@dataclass
class _Axes:
    """Metrics that a run has for the steps of others."""

    rules: dict[str, str] = field(default_factory=dict)
    """Name, or its beginning and `*` → name of the metric along its x axis."""
    latest: dict[str, float] = field(default_factory=dict)
    """Latest value of each such metric."""

    def of(self, name: str) -> str:
        """Return the metric along the x axis of another; "" for wandb's own step."""
        if name in self.rules:
            return self.rules[name]
        found = [r for r in self.rules if r.endswith("*") and name.startswith(r[:-1])]
        axis = self.rules[max(found, key=len)] if found else ""
        return "" if axis == name else axis


_axes: WeakKeyDictionary[Any, _Axes] = WeakKeyDictionary()


def hook(module: ModuleType) -> None:
    before(module.Run, "log", _log)
    if hasattr(module.Run, "define_metric"):
        before(module.Run, "define_metric", _define_metric)
    if not {"WANDB_MODE", "WANDB_API_KEY"} & os.environ.keys() and not _is_logged_in():
        os.environ["WANDB_MODE"] = "offline"


@guarded(ROUTE)
def _define_metric(run: Any, name: Any, step_metric: Any = None, *_: Any, **__: Any) -> None:
    axis = getattr(step_metric, "name", step_metric)
    if isinstance(name, str) and isinstance(axis, str):
        _axes.setdefault(run, _Axes()).rules[name] = axis


@guarded(ROUTE)
def _log(run: Any, data: Any, step: int | None = None, *_: Any, **__: Any) -> None:
    # Not `run.step`, for which newer versions ask another process. Older ones count in `_step`.
    at = run._local_step if hasattr(run, "_local_step") else run._step
    if not isinstance(data, Mapping) or (step is not None and step < at):
        return  # wandb refuses the one and drops the other
    values = dict(_flat(data, "", MAX_DEPTH))
    key = str(getattr(run, "id", ""))
    axes = _axes.get(run)
    along = {name: axes.of(name) for name in values} if axes else {}
    if axes:
        for axis in set(axes.rules.values()) & values.keys():
            found = finite(values[axis])
            if found is not None:
                axes.latest[axis] = found
    rest = dict(values)
    for axis in sorted(set(along.values()) - {""}):
        place = axes.latest.get(axis) if axes else None
        if place is None or not place.is_integer():
            continue  # Steps are whole: such values stay at wandb's own.
        mine = {name: rest.pop(name) for name, of in along.items() if of == axis}
        epoch = place if axis.rpartition("/")[2] == "epoch" else None
        report(ROUTE, mine, step=int(place), run=key, epoch=epoch, axis=axis)
    epoch = finite(values.get("epoch"))
    report(ROUTE, rest, step=at if step is None else step, run=key, epoch=epoch)


def _flat(data: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and depth:
            yield from _flat(value, f"{prefix}{name}.", depth - 1)
        else:
            yield f"{prefix}{name}", value


def _is_logged_in() -> bool:
    """Return whether `wandb login` has left a key on this machine."""
    try:
        hosts = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        return False
    return any("wandb" in host for host in hosts)
