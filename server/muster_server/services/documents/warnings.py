"""What a valid document may still come to regret. Each names the path to change."""

from __future__ import annotations

from collections.abc import Iterator

from muster_server.domain.saying import say
from muster_server.domain.search import sampling
from muster_server.errors import FieldProblem
from muster_server.schemas.document import Document

PLAIN_OPTIMIZERS = frozenset({"sgd"})
"""Their updates are as small as the gradient is. All others normalize the gradient first."""


def warn(document: Document, parameters: list[sampling.Parameter]) -> list[FieldProblem]:
    """Every warning about a document in which `checks.check` finds nothing."""
    return [*_asynchronous(document, parameters)]


def _asynchronous(
    document: Document, parameters: list[sampling.Parameter]
) -> Iterator[FieldProblem]:
    """Several updates per step, each as large as a whole one."""
    trainer, strategy = document.trainer, document.strategy
    if trainer is None:
        return
    if strategy.kind == "pp" and strategy.schedule == "async":
        path, what = "strategy.schedule", "async updates a stage after each micro-batch"
        instead = "schedule: 1f1b"
    elif strategy.kind == "ps" and strategy.staleness != 0:
        path, what = "strategy.staleness", "The server updates with each gradient as it comes"
        instead = "staleness: 0"
    else:
        return
    searched = [p for p in parameters if p.path[-1] == "optimizer"]
    choices = {str(value) for p in searched for value in p.values}
    adaptive = sorted((choices or {trainer.optimizer}) - PLAIN_OPTIMIZERS)
    if not adaptive:
        return
    named = " and ".join(adaptive)
    yield FieldProblem(
        path,
        say(
            "warning.async_adaptive",
            f"{what}, and {named} makes each of these updates as large as a whole step: expect a "
            "curve unlike that of one process",
            optimizer=named,
        ),
        f"use optimizer: sgd, a lower learning rate, or {instead}",
    )
