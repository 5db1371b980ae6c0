"""Weights & Biases: what `wandb.log` gets, at wandb's own steps; nested values under dotted names.

A script without a key would stop at `wandb.init`. It runs offline instead, and what wandb writes stays
among the trial's outputs, from where `wandb sync` can send it. A key, a login or a mode of the user's
is left alone.
"""

from __future__ import annotations

import netrc
import os
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from muster.capture.reporting import before, guarded, report

ROUTE = "wandb"
MAX_DEPTH = 5
"""Depth to which nested values are taken."""


def hook(module: ModuleType) -> None:
    before(module.Run, "log", _log)
    if not {"WANDB_MODE", "WANDB_API_KEY"} & os.environ.keys() and not _is_logged_in():
        os.environ["WANDB_MODE"] = "offline"


@guarded(ROUTE)
def _log(run: Any, data: Any, step: int | None = None, *_: Any, **__: Any) -> None:
    # Not `run.step`, for which newer versions ask another process. Older ones count in `_step`.
    at = run._local_step if hasattr(run, "_local_step") else run._step
    if not isinstance(data, Mapping) or (step is not None and step < at):
        return  # wandb refuses the one and drops the other
    report(ROUTE, dict(_flat(data, "", MAX_DEPTH)), step=at if step is None else step)


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
