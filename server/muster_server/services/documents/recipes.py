"""Checks of what the built-in trainer is told: names, types, ranges, and what goes together.

The trainer's own tables (muster.document.trainer_settings) say what is possible. A setting that is searched
is checked with each of its values and both of its bounds, and settings that have to go together with
every combination that the search may draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from muster.document import strategy_rules as rules
from muster.document import trainer_settings as settings
from muster.document.experiment import ExperimentConfig
from muster.document.trainer_settings import Fault, Rule
from muster.document.training import TrainerSection
from muster.nearest import nearest
from muster_server.domain.messages import Message
from muster_server.domain.search import sampling
from muster_server.domain.search.constraints import Constraint
from muster_server.errors import FieldProblem

VALUES_MAX = 256
"""Values of an int that are tried one by one; of more, its bounds and what is next to them."""
COMBINATIONS_MAX = 20_000
"""Combinations that are tried; of more, so many evenly spread ones."""


def check_trainer(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield what the built-in trainer would reject in `trainer`, the hyperparameters and the
    metric."""
    trainer = document.trainer
    if trainer is None:
        return
    single = [*_options(trainer), *_parameters(parameters)]
    yield from single
    if not single:  # values that are none cannot be combined
        yield from _together(document, parameters)
    yield from _static(trainer, parameters)
    yield from _metrics(document, parameters)


def has_own_functions(trainer: TrainerSection) -> bool:
    """Return whether the trainer uses a function from the user's code."""
    return settings.is_own(trainer.model) or settings.is_own(trainer.data)


def shape_of(document: ExperimentConfig) -> rules.Shape | None:
    """Return the shape of the model as far as the document sets it.

    None if there is no built-in trainer, or if the model or its options are searched.
    """
    trainer, searched = document.trainer, document.hyperparameters
    if trainer is None or "model" in searched or "options" in searched:
        return None
    return rules.Shape(
        model=trainer.model,
        depth=None if "depth" in searched else trainer.depth,
        heads=None if "heads" in searched else trainer.heads,
    )


def structural(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> frozenset[str]:
    """Return the names of the hyperparameters that the built-in trainer cannot change in a
    checkpoint."""
    if document.trainer is None:
        return frozenset()
    return frozenset(p.name for p in parameters if _name(p) in settings.STRUCTURAL)


# ---------------------------------------------------------------- one by one


def _options(trainer: TrainerSection) -> Iterator[FieldProblem]:
    for name, value in trainer.options.items():
        if name != "inject":
            fault = settings.unknown(name) or settings.check(name, value)
            if fault is not None:
                yield FieldProblem(f"trainer.options.{name}", fault.message, fault.hint)


def _parameters(parameters: list[sampling.SearchParameter]) -> Iterator[FieldProblem]:
    for parameter in parameters:
        path = f"hyperparameters.{parameter.name}"
        if parameter.path == ("options", "inject"):
            continue
        name = _name(parameter)
        if name is None:
            hint = settings.unknown(parameter.path[-1])
            yield FieldProblem(
                path,
                "is in a group, and the built-in trainer knows none of this name",
                f"write {parameter.path[-1]} at the top"
                if hint is None
                else f"the built-in trainer's settings have no groups; {hint.hint}",
            )
            continue
        fault = settings.unknown(name) or _check_values(name, parameter)
        if fault is not None:
            yield FieldProblem(path, fault.message, fault.hint)


def _name(parameter: sampling.SearchParameter) -> str | None:
    """Return the setting that a hyperparameter is a value of; None: it is in a group that is no
    setting."""
    first, *rest = parameter.path
    if not rest or first in settings.SECTIONS:
        return first
    return rest[0] if first == "options" and len(rest) == 1 else None


def _check_values(name: str, parameter: sampling.SearchParameter) -> Fault | None:
    if len(parameter.path) > 1 and parameter.path[0] in settings.SECTIONS:
        return settings.check(name, {parameter.path[1]: None})
    if parameter.kind in ("const", "choice"):
        return next((f for v in parameter.values if (f := settings.check(name, v))), None)
    kind = settings.SETTINGS[name].kind
    if kind not in ("whole", "number"):
        fault = settings.check(name, parameter.lo)
        return fault and Fault(
            name=name, message=f"draws numbers: {fault.message}", hint="use {choice: […]}"
        )
    if kind == "whole" and parameter.kind != "int":
        lo, hi = math.ceil(parameter.lo), max(math.floor(parameter.hi), math.ceil(parameter.lo) + 1)
        is_log = ", log: true" if parameter.kind == "log" else ""
        return Fault(
            name=name,
            message=f"draws fractions ({parameter.kind}), and has to be a whole number",
            hint=f"use {{int: [{lo}, {hi}]{is_log}}}",
        )
    bounds = (parameter.lo, parameter.hi)
    fault = next((f for bound in bounds if (f := settings.check(name, bound))), None)
    return fault and Fault(
        name=name, message=f"draws values up to a bound of which {fault.message}"
    )


# ---------------------------------------------------------------- together


@dataclass(frozen=True)
class _Broken:
    """A combination that cannot be built, the first of several."""

    fault: Fault
    point: Mapping[str, Any]
    num: int
    num_tried: int


def _together(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    trainer = document.trainer
    assert trainer is not None, "asked of the built-in trainer alone"
    fixed = {**_written(trainer), **trainer.options}
    by_name = {name: p for p in parameters if (name := _name(p)) is not None}
    constraints = _readable(document.search.constraints)
    for rule in (*settings.RULES, _strategy_rule(document)):
        searched = [by_name[name] for name in rule.names if name in by_name]
        broken = _first_broken(rule, fixed, searched, parameters, constraints, trainer)
        if broken is not None:
            yield _problem(broken, rule, {_name(p): p for p in searched}, trainer)


def _written(trainer: TrainerSection) -> dict[str, Any]:
    return {f.name: getattr(trainer, f.name) for f in fields(trainer) if f.name != "options"}


def _strategy_rule(document: ExperimentConfig) -> Rule:
    """Return the rule that the strategy imposes on a searched model. `checks` covers all other
    cases."""
    resources = document.resources

    def problems(shape: rules.Shape | None) -> list[rules.RuleProblem]:
        return list(
            rules.problems(
                document.strategy,
                slots=resources.slots,
                min_slots=resources.min_slots,
                slot_type=resources.slot_type,
                shape=shape,
            )
        )

    said = problems(shape_of(document))

    def find(of: Mapping[str, Any]) -> Fault | None:
        shape = rules.Shape(model=of["model"], depth=of["depth"], heads=of["heads"])
        found = next((p for p in problems(shape) if p not in said), None)
        if found is None:
            return None
        section, _, name = found.path.rpartition(".")
        message = found.message if section == "trainer" else f"{found.path}: {found.message}"
        return Fault(name=name, message=message, hint=found.hint)

    return Rule(("depth", "heads", "model"), find)


def _first_broken(
    rule: Rule,
    fixed: Mapping[str, Any],
    searched: Sequence[sampling.SearchParameter],
    parameters: list[sampling.SearchParameter],
    constraints: Sequence[Constraint],
    trainer: TrainerSection,
) -> _Broken | None:
    if not searched and "heads" in rule.names and "depth" in rule.names:
        return None  # checks._strategy
    needed = _closure(searched, parameters, constraints)
    first: tuple[Fault, Mapping[str, Any]] | None = None
    num = num_tried = 0
    for point in _points(needed):
        drawn = sampling.active(needed, point)
        if not all(constraint.holds(drawn) for constraint in constraints):
            continue
        flat = {
            name: sampling.value_of(drawn, p.path, fixed.get(name))
            for p in searched
            if (name := _name(p)) is not None
        }
        num_tried += 1
        of = {name: flat.get(name, fixed.get(name)) for name in rule.names}
        fault = rule.find(of)
        if fault is not None:
            num += 1
            first = first or (fault, of)
    return None if first is None else _Broken(*first, num, num_tried)


def _closure(
    searched: Sequence[sampling.SearchParameter],
    parameters: list[sampling.SearchParameter],
    constraints: Sequence[Constraint],
) -> list[sampling.SearchParameter]:
    """Return these hyperparameters, what their presence depends on, and what a constraint ties them
    to."""
    by_path = {p.path: p for p in parameters}
    by_dotted = {p.name: p for p in parameters}
    found = {p.path: p for p in searched}
    todo = list(searched)
    while todo:
        parameter = todo.pop()
        tied = [by_path[other] for other, _ in parameter.when if other in by_path]
        for constraint in constraints:
            if parameter.name in constraint.names:
                tied += [by_dotted[name] for name in constraint.names if name in by_dotted]
        for other in tied:
            if other.path not in found:
                found[other.path] = other
                todo.append(other)
    return sorted(found.values(), key=lambda p: p.path)


def _points(parameters: Sequence[sampling.SearchParameter]) -> Iterator[dict[tuple[str, ...], Any]]:
    """Combinations of their values: all, or COMBINATIONS_MAX that are spread evenly."""
    values = [_values(p) for p in parameters]
    size = math.prod(len(v) for v in values)
    if size <= COMBINATIONS_MAX:
        for combination in itertools.product(*values):
            yield {p.path: v for p, v in zip(parameters, combination, strict=True)}
        return
    for at in range(COMBINATIONS_MAX):
        index, point = at * size // COMBINATIONS_MAX, {}
        for parameter, own in zip(parameters, values, strict=True):
            index, here = divmod(index, len(own))
            point[parameter.path] = own[here]
        yield point


def _values(parameter: sampling.SearchParameter) -> list[Any]:
    if parameter.kind in ("const", "choice"):
        return list(parameter.values)
    if parameter.kind != "int":
        return [parameter.lo, parameter.hi]
    lo, hi, step = int(parameter.lo), int(parameter.hi), parameter.step
    whole = range(lo, hi + 1, step)
    return list(whole) if len(whole) <= VALUES_MAX else [*whole[:16], *whole[-16:]]


def _readable(texts: Sequence[str]) -> list[Constraint]:
    found = []
    for text in texts:
        try:
            found.append(Constraint(text))
        except ValueError:
            continue  # said where search.constraints are checked
    return found


def _problem(
    broken: _Broken,
    rule: Rule,
    searched: Mapping[str | None, sampling.SearchParameter],
    trainer: TrainerSection,
) -> FieldProblem:
    fault = broken.fault
    if not searched:
        where = "trainer.options" if fault.name in trainer.options else "trainer"
        return FieldProblem(f"{where}.{fault.name}", fault.message, fault.hint)
    parameter = searched.get(fault.name) or next(iter(searched.values()))
    others = ", ".join(
        f"{name} {broken.point[name]}"
        for name in rule.names
        if name in searched and name != "model"
    )
    where = f" (with {others})" if others else ""
    share = ""
    if broken.num_tried > 1:
        share = f"; so it is in {broken.num} of {broken.num_tried} combinations that were tried"
    hint = fault.hint
    if fault.constraint is not None and broken.num < broken.num_tried:
        hint = _how_to_keep(fault.constraint, searched, broken)
    return FieldProblem(f"hyperparameters.{parameter.name}", f"{fault.message}{where}{share}", hint)


def _how_to_keep(
    constraint: str, searched: Mapping[str | None, sampling.SearchParameter], broken: _Broken
) -> str:
    """Return a hint on how to keep the valid combinations of a space and exclude the others."""
    names = Constraint(constraint).names
    if names <= searched.keys():
        return f'keep those that work: `search.constraints: ["{constraint}"]`'
    (name,) = names & searched.keys()
    (other,) = names - {name}
    if name == "width" and searched[name].kind == "int":
        return f"add a step, so that all are multiples: `step: {broken.point[other]}`"
    return f"keep the values that go with {other} {broken.point[other]}"


# ---------------------------------------------------------------- the rest


def _static(
    trainer: TrainerSection, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield settings that have no effect or are given twice."""
    open_ = {p.path[-1] for p in parameters}
    if trainer.warmup_epochs is not None and trainer.warmup_steps:
        yield FieldProblem(
            "trainer.warmup_epochs",
            Message("field.beside", other="warmup_steps"),
            "keep one of them",
        )
    if trainer.nesterov and "optimizer" not in open_ and trainer.optimizer != "sgd":
        yield FieldProblem(
            "trainer.nesterov",
            Message("field.no_effect", other=f"optimizer: {trainer.optimizer}"),
            "use optimizer: sgd",
        )


def _metrics(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield the names of metrics that no training reports."""
    trainer, search = document.trainer, document.search
    assert trainer is not None, "asked of the built-in trainer alone"
    searched = next((p for p in parameters if _name(p) == "data"), None)
    data = (
        [trainer.data] if searched is None else [v for v in searched.values if isinstance(v, str)]
    )
    compared = {"search.metric": search.metric}
    for index, objective in enumerate(search.objectives or ()):
        compared[f"search.objectives.{index}.metric"] = objective.metric
    for path, metric in compared.items():
        if metric is not None and not all(settings.is_reported(metric, d) for d in data):
            yield _no_such_metric(path, metric, [settings.reported(d) for d in data])
    stopping = trainer.early_stopping
    if stopping is not None and not all(stopping.metric in settings.validated(d) for d in data):
        yield _no_such_metric(
            "trainer.early_stopping.metric", stopping.metric, [settings.validated(d) for d in data]
        )


def _no_such_metric(path: str, metric: str, known: Sequence[Sequence[str]]) -> FieldProblem:
    names = [name for name in known[0] if all(name in others for others in known)]
    near = nearest(metric, names)
    listed = ", ".join(name for name in names if name.startswith("val/"))
    return FieldProblem(
        path,
        f"{metric} is no metric that the built-in trainer reports",
        f"did you mean {near!r}? Validations report {listed}"
        if near
        else f"validations report {listed}",
    )
