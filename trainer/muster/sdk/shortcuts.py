"""Functions that a script calls as `muster.log(...)`: methods of the process's one Run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from muster.sdk.run import Run, process_run

P = ParamSpec("P")
T = TypeVar("T")


def _of_process(method: Callable[Concatenate[Run, P], T]) -> Callable[P, T]:
    """Return the function that calls `method` of the process's Run, with its documentation."""
    signature = inspect.signature(method)
    _, *parameters = signature.parameters.values()

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return method(process_run(), *args, **kwargs)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def log(metrics: Mapping[str, Any], *, step: int | None = None, epoch: float | None = None) -> None:
    """Report values at a step; see `Run.log`."""
    process_run().log(metrics, step=step, epoch=epoch)


checkpoint = _of_process(Run.checkpoint)
resume_folder = resume_from = _of_process(Run.resume_folder)
weights_folder = weights_from = _of_process(Run.weights_folder)
should_stop = _of_process(Run.should_stop)
get_hparams = hparams = _of_process(Run.get_hparams)
get_config = config = _of_process(Run.get_config)
report_group = _of_process(Run.report_group)
report_evaluation = _of_process(Run.report_evaluation)
message = _of_process(Run.message)
log_image = _of_process(Run.log_image)
log_figure = _of_process(Run.log_figure)
log_histogram = _of_process(Run.log_histogram)
log_text = _of_process(Run.log_text)
log_table = _of_process(Run.log_table)
log_audio = _of_process(Run.log_audio)
log_video = _of_process(Run.log_video)
log_pr_curve = _of_process(Run.log_pr_curve)
log_confusion_matrix = _of_process(Run.log_confusion_matrix)
