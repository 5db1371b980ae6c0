"""Checks of the built-in trainer's settings that need more than one of them.

A setting that is also a hyperparameter takes the trial's value, so what it combines with is checked
when the trial starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster_server.domain.saying import say
from muster_server.domain.search import sampling
from muster_server.errors import FieldProblem
from muster_server.schemas.document import Trainer

_KNOWN_GOALS = frozenset({"loss", "perplexity", "error", "accuracy", "f1", "precision", "recall"})
_TEXTS = frozenset({"shakespeare"})


def check_trainer(trainer: Trainer, parameters: list[sampling.Parameter]) -> Iterator[FieldProblem]:
    """What cannot be combined within `trainer`."""
    open_ = {p.path[-1] for p in parameters}
    if not open_ & {"model", "data"}:
        yield from _model_and_data(trainer)
    if not open_ & {"model", "width", "heads"}:
        yield from _heads(trainer)
    if trainer.warmup_epochs is not None and trainer.warmup_steps:
        yield FieldProblem(
            "trainer.warmup_epochs",
            say("field.beside", "stands beside warmup_steps"),
            "keep one of them",
        )
    stopping = trainer.early_stopping
    if stopping is not None and stopping.goal is None and not _has_known_goal(stopping.metric):
        yield FieldProblem(
            "trainer.early_stopping.goal",
            say(
                "field.needed",
                f"is needed: nothing says whether less or more {stopping.metric} is better",
            ),
            "write `goal: min` or `goal: max`",
        )
    if trainer.nesterov and not open_ & {"optimizer", "momentum"}:
        yield from _nesterov(trainer)


def has_own_functions(trainer: Trainer) -> bool:
    """Whether it uses something of the user's code."""
    return ":" in trainer.model or ":" in trainer.data


def _model_and_data(trainer: Trainer) -> Iterator[FieldProblem]:
    if has_own_functions(trainer):
        return  # known when it runs
    has_text = trainer.data in _TEXTS
    if trainer.model == "gpt" and not has_text:
        yield FieldProblem(
            "trainer.data",
            f"gpt reads texts, and {trainer.data} holds images",
            "use data: shakespeare, or model: cnn",
        )
    if trainer.model != "gpt" and has_text:
        yield FieldProblem(
            "trainer.model",
            f"{trainer.model} reads images, and {trainer.data} is a text",
            "use model: gpt, or data: digits",
        )
    if trainer.augment and has_text:
        yield FieldProblem(
            "trainer.augment", f"shifts images, and {trainer.data} is a text", "leave it out"
        )


def _has_known_goal(metric: str) -> bool:
    return metric.rpartition("/")[2].rpartition("_")[2] in _KNOWN_GOALS


def _nesterov(trainer: Trainer) -> Iterator[FieldProblem]:
    if trainer.optimizer != "sgd":
        yield FieldProblem(
            "trainer.nesterov",
            say("field.no_effect", f"has no effect with {trainer.optimizer}"),
            "use optimizer: sgd",
        )
    elif trainer.momentum == 0:
        yield FieldProblem("trainer.nesterov", "needs a momentum, which is 0", "use momentum: 0.9")


def _heads(trainer: Trainer) -> Iterator[FieldProblem]:
    if trainer.model in ("gpt", "vit") and trainer.width % trainer.heads:
        near = max(trainer.width // trainer.heads, 1) * trainer.heads
        yield FieldProblem(
            "trainer.width",
            f"{trainer.width} cannot be divided evenly among {trainer.heads} heads",
            f"use {near} or {near + trainer.heads}",
        )
