"""Judging the model: the validation samples while training, the test samples once at the end."""

from __future__ import annotations

import torch
from torch import Tensor

from muster.document.train_config import TrainConfig
from muster.measure import agreement
from muster.sdk.run import Run
from muster.training import state
from muster.training.data import Split
from muster.training.tasks import Task


def validate(
    run: Run, training: state.TrainState, task: Task, config: TrainConfig
) -> dict[str, float]:
    """Return the task's metrics over the validation samples, named `val/…`. Every rank must call
    it; all get the same answer and rank 0 reports it."""
    values = _named("val", task.metrics(total(training, task, "val")))
    if run.info.rank == 0:
        counts = training.strategy.counts()
        run.log(
            {**values, **counts, **_length(training, config)},
            step=training.step,
            epoch=training.epoch,
        )
    return values


def _length(training: state.TrainState, config: TrainConfig) -> dict[str, float]:
    """Return how far training has come, in samples or seconds, if the search counts in that unit;
    else {}."""
    far: dict[str, float] = {}
    if config.max_samples is not None:
        far["progress/samples"] = training.trained("samples")
    if config.max_s is not None:
        far["progress/seconds"] = training.seconds
    return far


def test(run: Run, training: state.TrainState, task: Task, *, best: bool) -> dict[str, float]:
    """Return the task's metrics over the test samples, named `test/…`, and its report. Every rank
    must call it; rank 0 reports.

    best: judge the best checkpoint rather than the model as it is. When its files cannot be read,
        the model as it is.
    """
    step = (training.watch.best_step if best else 0) or training.step
    if step != training.step and not state.load_best(run, training):
        run.message(
            f"the checkpoint of step {step}, the best one, cannot be read; the test samples are "
            "judged with the last one",
            "warning",
        )
        step = training.step
    sums = total(training, task, "test")
    values = _named("test", task.metrics(sums))
    if run.info.rank == 0:
        run.log(values, step=training.step, epoch=training.epoch)
        classes, confusion = task.confusion(sums)
        run.report_evaluation(
            "test", step=step, metrics=values, classes=classes, confusion=confusion
        )
    return values


def total(training: state.TrainState, task: Task, split: Split) -> Tensor:
    """Return the task's sums over all samples of `split`, each rank taking its share; the same on
    every rank."""
    strategy = training.strategy
    device = strategy.place.device
    shares = {"rank": strategy.data_rank, "world_size": strategy.data_world_size}
    pieces = list(task.held_out(split, **shares))
    # Ranks that share parameters must call predict equally often: who has no piece left repeats
    # its last one, and the answer is not counted.
    num_pieces = agreement.agree_max(len(pieces))
    found = []
    with strategy.evaluating():
        for i in range(num_pieces):
            x, y = pieces[min(i, len(pieces) - 1)]
            outputs = strategy.predict(x.to(device))
            if outputs is not None:
                sums = task.sums(outputs, y.to(device))
                counts = strategy.speaks and i < len(pieces)
                found.append(sums if counts else torch.zeros_like(sums))
    return agreement.add_up(torch.stack(found).sum(0) if found else None)


def _named(group: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{group}/{name}": value for name, value in values.items()}
