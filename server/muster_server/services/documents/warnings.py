"""What a valid document may still come to regret. Each names the path to change."""

from __future__ import annotations

from collections.abc import Iterator

from muster.document.experiment import ExperimentConfig
from muster.launch import commands
from muster.launch.variables import is_replaced, not_replaced
from muster_server.domain.messages import Message
from muster_server.domain.search import sampling
from muster_server.domain.search.constraints import Constraint
from muster_server.domain.search.methods import method_of
from muster_server.domain.secrets import looks_secret
from muster_server.errors import FieldProblem

PLAIN_OPTIMIZERS = frozenset({"sgd"})
"""Their updates are as small as the gradient is. All others normalize the gradient first."""


def warn(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> list[FieldProblem]:
    """Return every warning about a document in which `checks.check` finds nothing."""
    return [
        *_repeats(document, parameters),
        *_asynchronous(document, parameters),
        *_variables(document),
        *_plain_secrets(document),
    ]


def _repeats(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield a warning if a search makes more trials than its space has points."""
    search = document.search
    is_drawn = method_of(search.method).is_counted_by_document and search.sampler != "external"
    if not is_drawn or search.trials is None:
        return
    constraints = [Constraint(text) for text in search.constraints]
    num = sampling.num_points(parameters, constraints)
    # A space of one point is one that is repeated on purpose.
    if num is not None and 1 < num < search.trials:
        yield FieldProblem(
            "search.trials",
            Message("warning.repeats", trials=search.trials, points=num),
            "use method: grid to try each of them once, or fewer trials",
        )


def _variables(document: ExperimentConfig) -> Iterator[FieldProblem]:
    """Yield a warning for each text that looks like a variable and is not replaced, since no shell
    runs."""
    # A script after `bash -c` replaces its variables by itself.
    texts = [
        (path, word, "")
        for path, entrypoint in document.entrypoints.items()
        if not commands.is_command(entrypoint) or commands.entry_file(entrypoint)
        for word in entrypoint
    ]
    texts += [
        (f"environment.variables.{name}", value, name)
        for name, value in document.environment.variables.items()
    ]
    for path, text, itself in texts:
        own = {f"${{{name}}}" for name in document.array}
        for written in [w for w in not_replaced(text, itself=itself) if w not in own][:1]:
            name = written.strip("${}")
            message = Message("warning.not_replaced", variable=written)
            yield FieldProblem(
                path,
                message,
                f"write ${{{name}}}"
                if is_replaced(name) or name in document.array
                else "read the variable in your program, or run the program from a shell script",
            )


def _plain_secrets(document: ExperimentConfig) -> Iterator[FieldProblem]:
    """Variables that everybody can read who can see the experiment, and should not."""
    for name, value in document.environment.variables.items():
        if looks_secret(name, value):
            yield FieldProblem(
                f"environment.variables.{name}",
                Message("warning.plain_secret"),
                f"run `muster secret set {name.upper()}`, and write secrets: [{name.upper()}] "
                "instead of the variable",
            )


def _asynchronous(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Several updates per step, each as large as a whole one."""
    trainer, strategy = document.trainer, document.strategy
    if trainer is None:
        return
    searched = [p for p in parameters if p.path[-1] == "optimizer"]
    choices = {str(value) for p in searched for value in p.values}
    adaptive = sorted((choices or {trainer.optimizer}) - PLAIN_OPTIMIZERS)
    if not adaptive:
        return
    named = ", ".join(adaptive)
    hint = "use optimizer: sgd, a lower learning rate, or "
    if strategy.kind == "pp" and strategy.schedule == "async":
        message = Message("warning.async_stage", optimizer=named)
        yield FieldProblem("strategy.schedule", message, f"{hint}schedule: 1f1b")
    elif strategy.kind == "ps" and strategy.staleness != 0:
        message = Message("warning.async_server", optimizer=named)
        yield FieldProblem("strategy.staleness", message, f"{hint}staleness: 0")
