"""From what was written to what will run: one plain JSON configuration, each value with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from muster_server.domain.search import EXACT, Bracket, SearchSpec, Unit, length_of, sampling
from muster_server.domain.search.constraints import Constraint
from muster_server.domain.search.population import Explore, copied
from muster_server.domain.search.rungs import asha_brackets, hyperband_brackets
from muster_server.domain.search.spec import Rule
from muster_server.errors import FieldProblem
from muster_server.schemas.document import Document

from . import checks, entrypoints, recipes, warnings
from .explaining import explain
from .overrides import apply_overrides
from .reading import Unreadable, read_document

MAX_PROBLEMS = 50
DEFAULT_EPOCHS = 3
CONCURRENT_OUTSIDE = 16
"""Trials at once that others run: there are no slots to go by."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """Either `config` or at least one problem."""

    config: dict[str, Any] | None = None
    origins: dict[str, str] = field(default_factory=dict)
    """Dotted path of every leaf → document | override | default."""
    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem, ...] = ()
    """What may be regretted although it is valid; () beside problems."""


def resolve(text: str, overrides: Sequence[str] = ()) -> Resolved:
    """Read, override, fill in and check a document."""
    try:
        written = read_document(text)
    except Unreadable as problem:
        return Resolved(problems=(_as_problem(problem),))
    raw, overridden, bad_overrides = apply_overrides(written, overrides)
    problems = [_as_problem(p) for p in bad_overrides]
    document = _validate(raw, problems)
    parameters = _space(raw.get("hyperparameters"), problems)
    if document is not None and parameters is not None:
        problems += checks.check(document, parameters)
    if problems or document is None or parameters is None:
        return Resolved(problems=tuple(problems[:MAX_PROBLEMS]))
    config = document.model_dump(mode="json", by_alias=True)
    config["search"]["interval"] = document.search.every
    _fill_in(config, parameters)
    _fill_in_explore(config, document, parameters)
    return Resolved(
        config=config,
        origins=dict(_origins(config, raw, overridden)),
        warnings=tuple(warnings.warn(document, parameters)),
    )


def search_spec(config: dict[str, Any]) -> SearchSpec:
    """What the searcher of a resolved configuration is."""
    search = config["search"]
    length = search["max_length"]
    unit: Unit | None = None
    max_units: int | None = None
    if length is not None:
        unit, max_units = length_of(length)
    # Configurations stored by earlier versions do not have the newer keys.
    brackets, rule = _brackets(search, max_units)
    return SearchSpec(
        method=search["method"],
        space=config["hyperparameters"],
        seed=search["seed"],
        trials=search["trials"],
        concurrent=search["concurrent"],
        metric=search["metric"],
        goal=search["goal"] or "min",
        unit=unit,
        max_units=max_units,
        divisor=search["divisor"],
        brackets=brackets,
        rule=rule,
        sampler=search.get("sampler", "random"),
        constraints=tuple(search.get("constraints", ())),
        target=search.get("target"),
        patience=search.get("patience"),
        max_failures=search.get("max_failures"),
        max_invalid=search.get("max_invalid", 10),
        explore=_explore(search),
        objectives=tuple((o["metric"], o["goal"]) for o in search.get("objectives") or ()),
    )


def _brackets(search: dict[str, Any], max_units: int | None) -> tuple[tuple[Bracket, ...], Rule]:
    method, divisor = search["method"], search["divisor"]
    if method not in ("asha", "hyperband", "median", "pbt"):
        return (), "none"
    assert max_units is not None, f"checked: {method} needs max_length"
    if method == "hyperband":
        return hyperband_brackets(max_units, divisor=divisor), "synchronous"
    if method == "median":
        return (Bracket(trials=search["trials"], rungs=_marks(search)),), "median"
    if method == "pbt":
        return (Bracket(trials=search["trials"], rungs=_marks(search)),), "population"
    brackets = asha_brackets(
        max_units,
        divisor=divisor,
        max_rungs=search["rungs"],
        trials=search["trials"],
        breadth=search.get("brackets", "aggressive"),
    )
    return brackets, search.get("variant", "stopping")


def _marks(search: dict[str, Any]) -> tuple[int, ...]:
    """Every `interval` and the end, for the methods that compare at regular lengths."""
    _, full = length_of(search["max_length"])
    return (*range(search["interval"], full, search["interval"]), full)


def _explore(search: dict[str, Any]) -> Explore | None:
    if search["method"] != "pbt":
        return None
    names = search["explore"]
    return Explore(
        size=search["population"],
        quantile=search["quantile"],
        resample=search["resample"],
        factors=tuple(search["factors"]),
        names=None if names is None else tuple(names),
    )


def _as_problem(problem: Unreadable) -> FieldProblem:
    return FieldProblem(problem.path or "document", problem.message, problem.hint)


def _validate(raw: dict[str, Any], problems: list[FieldProblem]) -> Document | None:
    arguments, problem = entrypoints.normalise(raw.get("entrypoint"))
    fields = {**raw, "entrypoint": arguments}
    try:
        document = Document.model_validate(fields)
    except ValidationError as error:
        problems += [explain(e, Document) for e in error.errors(include_url=False)]
        document = None
    if problem:
        problems.append(problem)
        return None
    return document


def _space(raw: Any, problems: list[FieldProblem]) -> list[sampling.Parameter] | None:
    if raw is None:
        return []
    if not isinstance(raw, dict):
        return None  # the schema has complained
    parameters, bad = sampling.parse_space(raw)
    for problem in bad:
        path = f"hyperparameters.{problem.path}" if problem.path else "hyperparameters"
        problems.append(FieldProblem(path, problem.message, problem.hint))
    return None if bad else parameters


def _fill_in(config: dict[str, Any], parameters: list[sampling.Parameter]) -> None:
    """Defaults that depend on other values."""
    search, trainer = config["search"], config["trainer"]
    if search["objectives"]:
        search.update(search["objectives"][0])
    if config["entrypoint"] is not None and config["code"] is None:
        config["code"] = {"path": ".", "installed": None}
    if search["concurrent"] is None and search["method"] == "single":
        search["concurrent"] = 1
    elif search["concurrent"] is None and search["runner"] == "external":
        search["concurrent"] = CONCURRENT_OUTSIDE
    if search["method"] == "single":
        search["trials"] = 1
    elif search["method"] == "grid":
        constraints = [Constraint(text) for text in search["constraints"]]
        search["trials"] = sampling.grid_size(parameters, constraints)
    elif search["method"] == "hyperband":
        _, full = length_of(search["max_length"])
        brackets = hyperband_brackets(full, divisor=search["divisor"])
        search["trials"] = sum(bracket.trials for bracket in brackets)
    elif search["method"] in ("median", "pbt") and search["interval"] is None:
        _, full = length_of(search["max_length"])
        search["interval"] = max(full // 10, 1)
    if search["method"] == "pbt":
        explored = _explore(search)
        assert explored is not None, "checked: pbt needs a population"
        search["trials"] = explored.num_trials(len(_marks(search)))
    if trainer is not None and trainer["epochs"] is None and trainer["steps"] is None:
        # Samples and seconds it counts itself: what a step is depends on the trial's batch size.
        length = search["max_length"] or {"epochs": DEFAULT_EPOCHS}
        trainer.update({unit: length.get(unit) for unit in EXACT})


def _fill_in_explore(
    config: dict[str, Any], document: Document, parameters: list[sampling.Parameter]
) -> None:
    """What clones change, by name: what a checkpoint can follow."""
    search = config["search"]
    if search["method"] == "pbt" and search["explore"] is None:
        kept = copied(parameters, recipes.structural(document, parameters))
        search["explore"] = [p.name for p in parameters if p.kind != "const" and p.name not in kept]


def _origins(
    config: dict[str, Any], raw: dict[str, Any], overridden: list[str]
) -> Iterator[tuple[str, str]]:
    set_paths = [tuple(path.split(".")) for path in overridden]
    for path in _leaves(config, ()):
        if any(path[: len(p)] == p for p in set_paths):
            yield ".".join(path), "override"
        else:
            yield ".".join(path), "document" if _is_written(raw, path) else "default"


def _leaves(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(node, dict) and (node or not path):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path


def _is_written(raw: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(raw, dict) or key not in raw:
            return False
        raw = raw[key]
    return True
