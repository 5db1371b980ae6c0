"""Functions that a script calls as `muster.log(...)`: methods of the process's one Run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from muster.sdk.run import init
from muster.sdk.stops import StopNotice


def log(metrics: Mapping[str, Any], *, step: int | None = None, epoch: float | None = None) -> None:
    """Report values at a step; see `Run.log`."""
    init().log(metrics, step=step, epoch=epoch)


def checkpoint(
    *, step: int, epoch: float | None = None, metrics: Mapping[str, Any] | None = None
) -> contextlib.AbstractContextManager[Path]:
    """Write a checkpoint atomically and register it; see `Run.checkpoint`."""
    return init().checkpoint(step=step, epoch=epoch, metrics=metrics)


def resume_from() -> Path | None:
    """Return the checkpoint folder to continue from, or None for a fresh start."""
    return init().resume_from


def weights_from() -> Path | None:
    """Return the checkpoint folder whose weights to begin with, at step 0; or None."""
    return init().weights_from


def should_stop(*, agree: bool = False) -> StopNotice | None:
    """Return whether, why and by when to finish the step, save a checkpoint and exit 0; see
    `Run.should_stop`."""
    return init().should_stop(agree=agree)


def hparams() -> dict[str, Any]:
    """Return this trial's hyperparameters, over the defaults given to `init`."""
    return init().hparams


def config() -> dict[str, Any]:
    """Return the resolved experiment document; empty without Muster."""
    return init().config


def report_group(
    name: str, ranks: Sequence[int], kind: str = "custom", *, backend: str = ""
) -> None:
    """Tell Muster about a process group by its global ranks, in group-rank order."""
    init().report_group(name, ranks, kind, backend=backend)


def report_evaluation(
    name: str,
    *,
    step: int,
    metrics: Mapping[str, Any] | None = None,
    classes: Sequence[str] = (),
    confusion: Sequence[Sequence[int]] = (),
) -> None:
    """Report how good the model is; see `Run.report_evaluation`."""
    init().report_evaluation(name, step=step, metrics=metrics, classes=classes, confusion=confusion)


def message(text: str, level: Literal["info", "warning", "error"] = "info") -> None:
    """Add a message to the trial's events."""
    init().message(text, level)
