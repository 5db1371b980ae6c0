"""Resolution of a document into one configuration, with the origin of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from muster.document.codec import dump, load
from muster.document.common import Length
from muster.document.experiment import ExperimentConfig
from muster.document.running import CodeSection
from muster.document.searching import SearchSection, Unit
from muster.document.train_config import DEFAULT_EPOCHS
from muster_server.domain.search import SearchSpec, sampling
from muster_server.domain.search.methods import interval_or_default, method_of
from muster_server.domain.search.population import copied
from muster_server.errors import FieldProblem
from muster_server.schemas.document import Document

from . import checks, entrypoints, recipes, roles, warnings
from .arrays import with_array
from .explaining import explain
from .overrides import apply_overrides
from .reading import Unreadable, read_document

MAX_PROBLEMS = 50
CONCURRENT_OUTSIDE = 16
"""Trials at once that others run: there are no slots to go by."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """Either `config` or at least one problem."""

    config: ExperimentConfig | None = None
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
    raw, bad_array = with_array(raw)
    problems += bad_array
    document = _validate(raw, problems)
    parameters = _space(raw.get("hyperparameters"), problems)
    if document is not None and parameters is not None:
        problems += checks.check(document, parameters)
    if problems or document is None or parameters is None:
        return Resolved(problems=tuple(problems[:MAX_PROBLEMS]))
    config = _filled_in(document, parameters)
    return Resolved(
        config=config,
        origins=dict(_origins(dump(config), raw, overridden)),
        warnings=tuple(warnings.warn(document, parameters)),
    )


def search_spec(config: ExperimentConfig) -> SearchSpec:
    """Return the searcher's specification for a resolved configuration."""
    search = config.search
    unit: Unit | None = None
    max_units: int | None = None
    if search.max_length is not None:
        unit, max_units = search.max_length.unit, search.max_length.units
    assert search.trials is not None, "checked, or filled in"
    method = method_of(search.method)
    return SearchSpec(
        method=search.method,
        space=config.hyperparameters,
        seed=search.seed,
        trials=search.trials,
        concurrent=search.concurrent,
        metric=search.metric,
        goal=search.goal or "min",
        unit=unit,
        max_units=max_units,
        divisor=search.divisor,
        brackets=method.brackets(search) if method.brackets else (),
        rule=method.rule(search),
        sampler=search.sampler,
        constraints=search.constraints,
        target=search.target,
        patience=search.patience,
        max_failures=search.max_failures,
        independent=bool(config.array),
        max_invalid=search.max_invalid,
        explore=method.explore(search) if method.explore else None,
        objectives=tuple((o.metric, o.goal) for o in search.objectives or ()),
    )


def _as_problem(problem: Unreadable) -> FieldProblem:
    return FieldProblem(problem.path or "document", problem.message, problem.hint)


def _validate(raw: dict[str, Any], problems: list[FieldProblem]) -> ExperimentConfig | None:
    arguments, problem = entrypoints.normalise(raw.get("entrypoint"), raw.get("launcher"))
    of_roles, bad_roles = roles.normalise(raw.get("roles"))
    problems += bad_roles
    try:
        written = Document.model_validate(
            {
                **_with_lists(raw),
                "entrypoint": arguments,
                **({} if of_roles is None else {"roles": of_roles}),
                **_after(raw),
                **_from(raw),
                **_from_log(raw),
            }
        )
    except ValidationError as error:
        problems += [explain(e, Document) for e in error.errors(include_url=False)]
        written = None
    if problem:
        problems.append(problem)
    if problem or bad_roles or written is None:
        return None
    return load(ExperimentConfig, written.model_dump(by_alias=True))


def _with_lists(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the document with a list where one entry may stand alone."""
    completed = dict(raw)
    for section, keys in (
        ("environment", ("requirements", "setup")),
        ("code", ("include",)),
        ("predict", ("inputs",)),
    ):
        written = raw.get(section)
        if isinstance(written, dict):
            lists = {key: [written[key]] for key in keys if isinstance(written.get(key), str)}
            completed[section] = {**written, **lists}
    return completed


def _space(raw: Any, problems: list[FieldProblem]) -> list[sampling.SearchParameter] | None:
    if raw is None:
        return []
    if not isinstance(raw, dict):
        return None  # the schema has complained
    parameters, bad = sampling.parse_space(raw)
    for problem in bad:
        path = f"hyperparameters.{problem.path}" if problem.path else "hyperparameters"
        problems.append(FieldProblem(path, problem.message, problem.hint))
    return None if bad else parameters


def _after(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return `after` with `{experiment: 12}` for the number 12, alone or in a list."""
    written = raw.get("after")
    if written is None:
        return {}
    entries = written if isinstance(written, list) else [written]
    return {"after": [{"experiment": e} if isinstance(e, int) else e for e in entries]}


def _from(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return `from` with the text "36" for the number 36 of an experiment, as JSON may hold it."""
    written = raw.get("from")
    if not isinstance(written, dict) or type(written.get("trial")) is not int:
        return {}
    return {"from": {**written, "trial": str(written["trial"])}}


def _from_log(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return `metrics` with `{pattern: text}` for a text in `from_log`, alone or in a list."""
    written = raw.get("metrics")
    if not isinstance(written, dict) or written.get("from_log") is None:
        return {}
    entries = written["from_log"]
    entries = entries if isinstance(entries, list) else [entries]
    return {
        "metrics": {
            **written,
            "from_log": [{"pattern": e} if isinstance(e, str) else e for e in entries],
        }
    }


def _filled_in(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> ExperimentConfig:
    """Return the document with the defaults that depend on other values filled in."""
    trainer, code = document.trainer, document.code
    runs_own = document.entrypoint is not None or document.roles
    if runs_own and (code is None or not (code.path or code.installed)):
        code = replace(code or CodeSection(), path=".")
    if trainer is not None and trainer.epochs is None and trainer.steps is None:
        # Samples and seconds it counts itself: what a step is depends on the trial's batch size.
        length = document.search.max_length or Length(epochs=DEFAULT_EPOCHS)
        trainer = replace(trainer, epochs=length.epochs, steps=length.steps)
    search = _filled_in_search(document.search, parameters)
    if method_of(search.method).explore and search.explore is None:
        kept = copied(parameters, recipes.structural(document, parameters))
        changed = (p.name for p in parameters if p.kind != "const" and p.name not in kept)
        search = replace(search, explore=tuple(changed))
    launcher = document.launcher or entrypoints.default_launcher(document)
    return roles.filled_in(
        replace(document, trainer=trainer, code=code, search=search, launcher=launcher)
    )


def _filled_in_search(
    search: SearchSection, parameters: list[sampling.SearchParameter]
) -> SearchSection:
    search = replace(search, interval=search.every)
    if search.objectives:
        first = search.objectives[0]
        search = replace(search, metric=first.metric, goal=first.goal)
    method = method_of(search.method)
    if search.concurrent is None and not method.is_search:
        search = replace(search, concurrent=1)
    elif search.concurrent is None and search.runner == "external":
        search = replace(search, concurrent=CONCURRENT_OUTSIDE)
    if method.has_interval and search.interval is None:
        search = replace(search, interval=interval_or_default(search))
    return replace(search, trials=method.num_trials(search, parameters))


def _origins(
    config: ExperimentConfig, raw: dict[str, Any], overridden: list[str]
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
