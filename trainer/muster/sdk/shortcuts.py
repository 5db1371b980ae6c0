"""Functions that a script calls as `muster.log(...)`: methods of the process's one Run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from muster.sdk.run import process_run
from muster.sdk.stops import StopNotice


def log(metrics: Mapping[str, Any], *, step: int | None = None, epoch: float | None = None) -> None:
    """Report values at a step; see `Run.log`."""
    process_run().log(metrics, step=step, epoch=epoch)


def checkpoint(
    *, step: int, epoch: float | None = None, metrics: Mapping[str, Any] | None = None
) -> contextlib.AbstractContextManager[Path]:
    """Write a checkpoint atomically and register it; see `Run.checkpoint`."""
    return process_run().checkpoint(step=step, epoch=epoch, metrics=metrics)


def resume_folder() -> Path | None:
    """Return the checkpoint folder to continue from, or None for a fresh start; see
    `Run.resume_folder`."""
    return process_run().resume_folder()


def weights_folder() -> Path | None:
    """Return the checkpoint folder whose weights to begin with, at step 0; or None; see
    `Run.weights_folder`."""
    return process_run().weights_folder()


def resume_from() -> Path | None:
    """`resume_folder`, for scripts written before it."""
    return resume_folder()


def weights_from() -> Path | None:
    """`weights_folder`, for scripts written before it."""
    return weights_folder()


def should_stop(*, agree: bool = False) -> StopNotice | None:
    """Return whether, why and by when to finish the step, save a checkpoint and exit 0; see
    `Run.should_stop`."""
    return process_run().should_stop(agree=agree)


def get_hparams() -> dict[str, Any]:
    """Return this trial's hyperparameters, over the defaults given to `init`; see
    `Run.get_hparams`."""
    return process_run().get_hparams()


def get_config() -> dict[str, Any]:
    """Return the resolved experiment document; empty without Muster; see `Run.get_config`."""
    return process_run().get_config()


def hparams() -> dict[str, Any]:
    """`get_hparams`, for scripts written before it."""
    return get_hparams()


def config() -> dict[str, Any]:
    """`get_config`, for scripts written before it."""
    return get_config()


def report_group(
    name: str, ranks: Sequence[int], kind: str = "custom", *, backend: str = ""
) -> None:
    """Tell Muster about a process group by its global ranks, in group-rank order."""
    process_run().report_group(name, ranks, kind, backend=backend)


def report_evaluation(
    name: str,
    *,
    step: int,
    metrics: Mapping[str, Any] | None = None,
    classes: Sequence[str] = (),
    confusion: Sequence[Sequence[int]] = (),
) -> None:
    """Report how good the model is; see `Run.report_evaluation`."""
    process_run().report_evaluation(
        name, step=step, metrics=metrics, classes=classes, confusion=confusion
    )


def message(text: str, level: Literal["info", "warning", "error"] = "info") -> None:
    """Add a message to the trial's events."""
    process_run().message(text, level)


def log_image(name: str, image: Any, *, step: int | None = None, caption: str = "") -> None:
    """Log an image; see `Run.log_image`."""
    process_run().log_image(name, image, step=step, caption=caption)


def log_figure(name: str, figure: Any, *, step: int | None = None, caption: str = "") -> None:
    """Log a figure of matplotlib or plotly; see `Run.log_figure`."""
    process_run().log_figure(name, figure, step=step, caption=caption)


def log_histogram(
    name: str,
    values: Any = None,
    *,
    bins: int = 64,
    counts: Sequence[float] | None = None,
    edges: Sequence[float] | None = None,
    step: int | None = None,
    caption: str = "",
) -> None:
    """Log a distribution of values; see `Run.log_histogram`."""
    process_run().log_histogram(
        name, values, bins=bins, counts=counts, edges=edges, step=step, caption=caption
    )


def log_text(
    name: str, text: str, *, markdown: bool = False, step: int | None = None, caption: str = ""
) -> None:
    """Log text; see `Run.log_text`."""
    process_run().log_text(name, text, markdown=markdown, step=step, caption=caption)


def log_table(
    name: str,
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    step: int | None = None,
    caption: str = "",
) -> None:
    """Log a table; see `Run.log_table`."""
    process_run().log_table(name, data, columns=columns, step=step, caption=caption)


def log_audio(
    name: str,
    audio: Any,
    *,
    sample_rate: int | None = None,
    step: int | None = None,
    caption: str = "",
) -> None:
    """Log a sound; see `Run.log_audio`."""
    process_run().log_audio(name, audio, sample_rate=sample_rate, step=step, caption=caption)


def log_video(
    name: str, video: Any, *, fps: float = 8.0, step: int | None = None, caption: str = ""
) -> None:
    """Log a video; see `Run.log_video`."""
    process_run().log_video(name, video, fps=fps, step=step, caption=caption)


def log_pr_curve(
    name: str, labels: Any, scores: Any, *, step: int | None = None, caption: str = ""
) -> None:
    """Log a precision-recall curve; see `Run.log_pr_curve`."""
    process_run().log_pr_curve(name, labels, scores, step=step, caption=caption)


def log_confusion_matrix(
    name: str,
    counts: Any,
    *,
    classes: Sequence[Any] = (),
    step: int | None = None,
    caption: str = "",
) -> None:
    """Log a confusion matrix; see `Run.log_confusion_matrix`."""
    process_run().log_confusion_matrix(name, counts, classes=classes, step=step, caption=caption)
