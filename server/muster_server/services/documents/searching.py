"""Checks of the search section and of what it does with the space."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterator, Sequence

from muster.document.experiment import ExperimentConfig
from muster.document.searching import MAX_TRIALS, UNITS, SearchLength, SearchSection
from muster_server.domain.messages import Message
from muster_server.domain.search import sampling
from muster_server.domain.search.constraints import Constraint
from muster_server.domain.search.methods import interval_or_default, method_of, names_of
from muster_server.domain.search.population import Explore, copied
from muster_server.domain.search.spec import LEARNING
from muster_server.errors import FieldProblem

from .recipes import structural

CONSTRAINT_DRAWS = 1_000
"""Constraints of which not one draw in so many fulfils all are refused."""
MEDIAN_MARKS = 1_000
"""Comparisons of one trial under the median rule."""


def check_search(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield the problems of `search`, and of the space where the search cannot use it."""
    search = document.search
    spaces = [p for p in parameters if p.kind != "const"]
    method = method_of(search.method)
    stops, learns = method.compares, search.sampler in LEARNING
    needed = {
        "metric": "say which reported metric is compared, for example `metric: val/loss`",
        "max_length": "say how long a trial trains at most, for example {epochs: 9}",
    }
    for field, hint in needed.items():
        is_said = field == "metric" and search.objectives is not None
        if stops and getattr(search, field) is None and not is_said:
            yield FieldProblem(
                f"search.{field}",
                Message("field.needed_by", by=search.method),
                hint,
            )
    yield from _objectives(search)
    if learns and not stops and search.metric is None and search.objectives is None:
        yield FieldProblem(
            "search.metric",
            Message("field.needed_by", by=search.sampler),
            needed["metric"],
        )
    has_goal = search.goal is not None or search.objectives is not None
    if not has_goal and (search.metric is not None or stops or learns):
        yield FieldProblem(
            "search.goal",
            Message("field.needed_to_compare"),
            "write `goal: min` or `goal: max`",
        )
    for field in ("target", "patience"):
        if getattr(search, field) is not None and search.metric is None:
            yield FieldProblem(
                "search.metric",
                Message("field.needed_by", by=field),
                needed["metric"],
            )
    if method.is_counted_by_document and search.trials is None:
        yield FieldProblem(
            "search.trials",
            Message("field.needed_by", by=search.method),
            "say how many trials to create",
        )
    yield from _external(search)
    yield from _warm_start(search)
    yield from _sampler(search, parameters)
    yield from _constraints(search, parameters)
    if method.has_interval and search.max_length is not None:
        yield from _interval(search)
    yield from _population(document, spaces)
    if method.has_rungs and not method.is_counted_by_document:
        yield from _counted_by_length(search, parameters)
    if not method.is_search:
        if search.trials not in (None, 1):
            yield FieldProblem(
                "search.trials",
                f"is {search.trials}, but method {search.method} makes one trial",
                "choose method random, grid or asha",
            )
        for parameter in spaces:
            yield FieldProblem(
                f"hyperparameters.{parameter.name}",
                f"is a space ({parameter.kind}), but search.method {search.method} makes one trial",
                "write one value, or choose search.method random, grid or asha",
            )
    if method.walks_grid:
        yield from _grid(search, parameters)


def _warm_start(search: SearchSection) -> Iterator[FieldProblem]:
    warm = search.warm_start
    if warm is None:
        return
    where = "search.warm_start"
    if not method_of(search.method).is_counted_by_document:
        hint = f"use {_either(names_of(lambda method: method.is_counted_by_document))}"
        yield FieldProblem(
            where, Message("field.no_effect", other=f"search.method: {search.method}"), hint
        )
    elif search.metric is None:
        hint = "one metric: earlier trials are compared by it"
        yield FieldProblem(
            "search.metric",
            Message("field.needed_by", by="warm_start"),
            hint,
        )
    elif warm.top == 0 and not (warm.history and search.sampler in LEARNING):
        hint = "raise top, or choose a sampler that learns"
        yield FieldProblem(where, Message("field.no_effect_sampler", sampler=search.sampler), hint)
    elif search.trials is not None and warm.top > search.trials:
        message = f"is {warm.top}, more than the {search.trials} trials of this search"
        yield FieldProblem(f"{where}.top", message, "lower it")


def _external(search: SearchSection) -> Iterator[FieldProblem]:
    """Yield the problems of an external sampler or runner in a search that clones trials."""
    if method_of(search.method).explore is None:
        return
    if search.sampler == "external":
        yield FieldProblem(
            "search.sampler",
            f"is external, but the points of {search.method} follow from each other",
            "use random, sobol or halton",
        )
    if search.runner == "external":
        yield FieldProblem(
            "search.runner",
            f"is external, but {search.method} clones checkpoints, of which outside nothing is known",
            "use runner: cluster, or method asha",
        )


def _sampler(
    search: SearchSection, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    if search.sampler == "random":
        return
    if not method_of(search.method).draws:
        yield FieldProblem(
            "search.sampler",
            f"is {search.sampler}, but method {search.method} draws nothing",
            f"leave it out, or choose method {_either(names_of(lambda method: method.draws))}",
        )
    numbers = [p for p in parameters if p.kind in ("int", "uniform", "log") and not p.when]
    if search.sampler == "cmaes" and len(numbers) < 2:
        yield FieldProblem(
            "search.sampler",
            f"is cmaes, which needs two hyperparameters that are numbers, and there are {len(numbers)}",
            "use tpe",
        )


def _objectives(search: SearchSection) -> Iterator[FieldProblem]:
    if search.sampler == "gp" and importlib.util.find_spec("torch") is None:
        yield FieldProblem(
            "search.sampler",
            "is gp, whose Gaussian process needs torch, and the server has none",
            "use tpe, or install torch beside the server",
        )
    objectives = search.objectives
    if objectives is None:
        if search.sampler == "nsga2":
            yield FieldProblem(
                "search.objectives",
                Message("field.needed_by", by="nsga2"),
                "for example [{metric: val/loss, goal: min}, {metric: size, goal: min}]",
            )
        return
    method = method_of(search.method)
    if not method.is_search or method.compares:
        yield FieldProblem(
            "search.objectives",
            f"is for trials that run to their end, and {search.method} compares by one metric",
            "choose method random or grid, or one metric",
        )
    for field in ("metric", "goal"):
        if getattr(search, field) is not None:
            yield FieldProblem(
                f"search.{field}",
                Message("field.beside", other="objectives"),
                "leave it out",
            )
    names = [objective.metric for objective in objectives]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield FieldProblem(
                f"search.objectives.{index}.metric", f"{name} is an objective already", None
            )
    if search.sampler == "cmaes":
        yield FieldProblem(
            "search.sampler", "is cmaes, which knows one objective", "use nsga2, tpe or gp"
        )


def _constraints(
    search: SearchSection, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    names = [p.name for p in parameters]
    constraints: list[Constraint] = []
    for index, text in enumerate(search.constraints):
        path = f"search.constraints.{index}"
        try:
            constraint = Constraint(text)
        except ValueError as error:
            yield FieldProblem(path, str(error), "for example batch_size * accumulate <= 4096")
            return
        unknown = sorted(constraint.names - set(names))
        if unknown:
            nearest = difflib.get_close_matches(unknown[0], names, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(names)}"
            yield FieldProblem(path, f"{unknown[0]} is no hyperparameter", hint)
            return
        constraints.append(constraint)
    if not constraints or method_of(search.method).walks_grid:
        return
    drawn = (
        sampling.sample(parameters, seed=search.seed, trial_no=1, attempt=attempt)
        for attempt in range(CONSTRAINT_DRAWS)
    )
    if not any(all(c.holds(point) for c in constraints) for point in drawn):
        yield FieldProblem(
            "search.constraints",
            f"none of {CONSTRAINT_DRAWS} drawn points fulfils them all",
            "loosen them, or narrow the space to where they hold",
        )


def _interval(search: SearchSection) -> Iterator[FieldProblem]:
    assert search.max_length is not None
    full = search.max_length.units or 1
    given = search.interval
    if isinstance(given, SearchLength):
        units = [unit for unit in UNITS if getattr(given, unit) is not None]
        wanted = next((u for u in UNITS if getattr(search.max_length, u) is not None), "epochs")
        if units != [wanted]:
            said = " and ".join(units) or "nothing"
            yield FieldProblem(
                "search.interval",
                f"is in {said}, and search.max_length in {wanted}",
                f"for example {{{wanted}: {max(full // 10, 1)}}}",
            )
            return
    interval = search.every
    if interval is not None and full // interval > MEDIAN_MARKS:
        yield FieldProblem(
            "search.interval",
            f"is {interval}, which makes {full // interval} comparisons of one trial",
            f"at most {MEDIAN_MARKS} are possible: {full // MEDIAN_MARKS + 1} or more",
        )


def _population(
    document: ExperimentConfig, spaces: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield the problems of the settings of a population, including their use with another method."""
    search = document.search
    if method_of(search.method).explore is None:
        if search.population is not None or search.explore is not None:
            field = "population" if search.population is not None else "explore"
            owners = _either(names_of(lambda method: field in method.settings))
            yield FieldProblem(
                f"search.{field}", f"is of method {owners}, not of {search.method}", "leave it out"
            )
        return
    if search.population is None:
        yield FieldProblem(
            "search.population",
            Message("field.needed_by", by=search.method),
            "say how many trials train at the same time",
        )
    if search.trials is not None:
        yield FieldProblem(
            "search.trials",
            f"is {search.trials}, but {search.method} makes as many as population and interval say",
            "leave trials out, and set population",
        )
    if search.sampler in LEARNING:
        yield FieldProblem(
            "search.sampler",
            f"is {search.sampler}, but {search.method} draws only its first members, "
            "which nothing is known of",
            "use random, sobol or halton",
        )
    names = [p.name for p in spaces]
    if not names:
        yield FieldProblem(
            "hyperparameters", "has nothing to search", "for example lr: {log: [1e-4, 1e-1]}"
        )
    kept = copied(spaces, structural(document, spaces))
    for index, name in enumerate(search.explore or ()):
        if name not in names:
            nearest = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(names)}"
            yield FieldProblem(f"search.explore.{index}", f"{name} is not searched", hint)
        elif name in kept:
            yield FieldProblem(
                f"search.explore.{index}",
                f"{name} cannot change in a clone, which goes on from its parent's checkpoint",
                "leave it out: clones have their parent's value",
            )
    if names and search.explore is None and not set(names) - kept:
        yield FieldProblem(
            "hyperparameters",
            f"has nothing that clones could change: a checkpoint cannot follow {', '.join(names)}",
            "add one that can change while a model trains, for example lr: {log: [1e-4, 1e-1]}, "
            "or choose method asha",
        )
    if search.population is None or search.max_length is None:
        return
    full = search.max_length.units or 1
    interval = interval_or_default(search)
    explore = Explore(size=search.population, quantile=search.quantile)
    num = explore.num_trials(-(-full // interval))
    if num > MAX_TRIALS:
        yield FieldProblem(
            "search.population",
            f"of {search.population}, compared every {interval} of {full}, makes {num} trials",
            f"at most {MAX_TRIALS} are possible: fewer members, or a longer interval",
        )


def _counted_by_length(
    search: SearchSection, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    full = search.max_length and search.max_length.units
    if not full:
        return
    num = method_of(search.method).num_trials(search, parameters)
    assert num is not None, "follows from the length"
    if num > MAX_TRIALS:
        yield FieldProblem(
            "search.max_length",
            f"of {full} with a divisor of {search.divisor} makes {num} trials",
            f"at most {MAX_TRIALS} are possible: shorten it, or count in epochs",
        )
    elif search.trials not in (None, num):
        yield FieldProblem(
            "search.trials",
            f"is {search.trials}, but {search.method} makes {num} of this length and divisor",
            "leave trials out, or choose method asha with brackets: conservative",
        )


def _grid(
    search: SearchSection, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    trials = search.trials
    for parameter in parameters:
        if parameter.grid_size() is None:
            lo, hi = parameter.lo, parameter.hi
            yield FieldProblem(
                f"hyperparameters.{parameter.name}",
                f"grid needs to know how many values of {parameter.kind} to take",
                f"add a count: {{{parameter.kind}: [{lo}, {hi}], count: 5}}",
            )
    try:
        constraints = [Constraint(text) for text in search.constraints]
    except ValueError:
        return  # said already
    size = sampling.grid_size(parameters, constraints)
    if size == 0:
        yield FieldProblem(
            "search.constraints", "no point of the grid fulfils them all", "loosen them"
        )
    elif size is not None and size > sampling.MAX_GRID:
        yield FieldProblem(
            "hyperparameters",
            f"the grid has {size} points, more than {sampling.MAX_GRID}",
            "use fewer values (count, step), or method random",
        )
    elif size is not None and trials not in (None, size):
        yield FieldProblem(
            "search.trials",
            f"is {trials}, but the grid has {size} points and a grid tries each once",
            "leave trials out, or choose method random",
        )


def _either(names: Sequence[str]) -> str:
    """Return "random, asha or median" of one name or more."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
