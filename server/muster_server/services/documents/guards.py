"""Guards as users write them: in a document, or alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ValidationError

from muster.document.codec import load
from muster.document.common import Bounds
from muster.document.guards import GUARDS_MAX, GuardSection
from muster_server.domain.guards.changes import factor_of
from muster_server.domain.guards.defaults import ALONE, CONDITIONS, conditions_of
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem
from muster_server.schemas.document import model_of
from muster_server.schemas.validation_messages import unknown_name

from .explaining import explain
from .reading import Unreadable, read_value


@dataclass(frozen=True, kw_only=True)
class GuardsAlone:
    """Guards without the rest of a document."""

    guards: Annotated[tuple[GuardSection, ...], Bounds(min_length=1, max_length=GUARDS_MAX)]


def read_guards(
    text: str, hparams: Mapping[str, bool] | None
) -> tuple[tuple[GuardSection, ...], list[FieldProblem]]:
    """Return the guards written in `text`, a list or a mapping with `guards`, and their problems.

    Other keys of a whole document do not matter. hparams: as of `check_guards`.
    """
    try:
        value = read_value(text)
    except Unreadable as problem:
        return (), [FieldProblem(problem.path or "guards", problem.message, problem.hint)]
    if isinstance(value, dict) and "guards" not in value:
        hint = "write a list of guards, or a document with `guards`"
        return (), [FieldProblem("guards", Message("field.missing"), hint)]
    written = value["guards"] if isinstance(value, dict) else value
    model = model_of(GuardsAlone)
    try:
        checked = model.model_validate({"guards": written})
    except ValidationError as error:
        return (), [explain(e, model) for e in error.errors(include_url=False)]
    guards = load(GuardsAlone, checked.model_dump(by_alias=True)).guards
    return guards, list(check_guards(guards, hparams))


def check_guards(
    guards: Sequence[GuardSection], hparams: Mapping[str, bool] | None
) -> Iterator[FieldProblem]:
    """Yield the problems of guards whose fields are valid one by one.

    hparams: name of each hyperparameter, and whether it is a number; None where nobody knows yet.
    """
    for no, guard in enumerate(guards):
        path = f"guards[{no}]"
        yield from _condition(guard, path)
        if guard.set_ and guard.action != "rollback":
            yield _no_effect(f"{path}.set", f"action: {guard.action}", "use action: rollback")
        if guard.skip_samples and guard.action != "rollback":
            yield _no_effect(
                f"{path}.skip_samples", f"action: {guard.action}", "use action: rollback"
            )
        if guard.otherwise != "notify" and guard.action not in ("rollback", "restart_elsewhere"):
            yield _no_effect(f"{path}.otherwise", f"action: {guard.action}", "leave it out")
        if hparams is None:
            continue
        for name, value in guard.set_.items():
            if name not in hparams:
                hint = unknown_name(name, sorted(hparams)) or "add it to hyperparameters"
                yield FieldProblem(f"{path}.set.{name}", "is no hyperparameter", hint)
            elif factor_of(value) is not None and not hparams[name]:
                hint = "write the new value instead of a factor"
                yield FieldProblem(f"{path}.set.{name}", "is a factor, but not of a number", hint)
            elif hparams[name] and isinstance(value, str) and factor_of(value) is None:
                problem = f"is {value!r}, and the hyperparameter is a number"
                yield FieldProblem(f"{path}.set.{name}", problem, "a factor is written x0.5")


def _condition(guard: GuardSection, path: str) -> Iterator[FieldProblem]:
    given = conditions_of(guard)
    alone = next((name for name in given if name in ALONE), None)
    if alone is not None:
        others = (*(("metric",) if guard.metric is not None else ()), *given)
        others = tuple(name for name in others if name != alone)
        if others:
            message = Message("field.beside", other=alone)
            yield FieldProblem(f"{path}.{others[0]}", message, "keep one of them")
    elif guard.metric is None:
        hint = "add `metric: train/loss`, `no_step_for_min: 10` or `straggler: {}`"
        yield FieldProblem(f"{path}.metric", Message("field.missing"), hint)
    elif not given:
        hint = f"add one of {', '.join(CONDITIONS)}: `not_finite: true`"
        yield FieldProblem(path, "has no condition", hint)
    elif len(given) > 1:
        message = Message("field.beside", other=given[0])
        yield FieldProblem(f"{path}.{given[1]}", message, "write a guard for each condition")
    if guard.at_step is not None and guard.above is None and guard.below is None:
        yield FieldProblem(f"{path}.at_step", "needs above or below", "leave it out")
    if (plateau := guard.plateau) and (plateau.steps is None) == (plateau.values is None):
        yield FieldProblem(
            f"{path}.plateau", "needs steps or values, one of the two", "steps: 1000"
        )


def _no_effect(path: str, other: str, hint: str) -> FieldProblem:
    return FieldProblem(path, Message("field.no_effect", other=other), hint)


def flat(hparams: Mapping[str, Any], prefix: str = "") -> dict[str, bool]:
    """Return the dotted name of each hyperparameter, and whether it is a number."""
    names: dict[str, bool] = {}
    for name, value in hparams.items():
        if isinstance(value, Mapping):
            names |= flat(value, f"{prefix}{name}.")
        else:
            names[prefix + name] = isinstance(value, int | float) and not isinstance(value, bool)
    return names
