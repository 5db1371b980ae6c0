"""Hyperparameter spaces: reading them, drawing from them, walking them as a grid.

A space is written as nested mappings whose leaves are constants or one of

    {log: [lo, hi]}   {uniform: [lo, hi]}   {int: [lo, hi], step: 1}   {choice: [...]}   {const: x}

`count` beside log, uniform and int says how many evenly spaced values a grid takes of it, and
`log: true` beside int that its draws are even in the logarithm. `when: {optimizer: sgd}` beside any
of them: the parameter is there only in points in which another one has this value, or one of a list.
`structural: true` beside any of them: it shapes the model, so that a checkpoint made with one value
cannot be continued with another.

Every draw is a hash of (seed, trial number, parameter path): it depends neither on the order of
parameters in the document nor on the other draws, the process or the Python version.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from .constraints import Constraint

Kind = Literal["const", "choice", "int", "uniform", "log"]
_OPTIONS: Mapping[Kind, frozenset[str]] = {
    "const": frozenset({"structural", "when"}),
    "choice": frozenset({"structural", "when"}),
    "int": frozenset({"step", "count", "log", "structural", "when"}),
    "uniform": frozenset({"count", "structural", "when"}),
    "log": frozenset({"count", "structural", "when"}),
}
KINDS = tuple(_OPTIONS)
MAX_PARAMETERS = 1_000
MAX_CHOICES = 10_000
MAX_GRID = 100_000
POINTS_COUNTED = 10_000
STEPS_LISTED = 20
"""Values that a hint lists one by one."""
MAX_INT = 2**53
"""Integers beyond it are not exact in JSON readers that use floats."""


@dataclass(frozen=True, kw_only=True)
class SpaceProblem:
    path: str
    """Dotted, from the hyperparameters on ("lr", "optimizer.momentum")."""
    message: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchParameter:
    """One leaf of the space."""

    path: tuple[str, ...]
    kind: Kind
    lo: float = 0
    hi: float = 0
    step: int = 1
    count: int | None = None
    values: tuple[Any, ...] = ()
    """Possible values of a choice, or the single value of a constant."""
    is_log: bool = False
    """Whether integers are drawn evenly in the logarithm."""
    when: tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...] = ()
    """(path of another parameter, values of which it must have one), all of them met."""
    is_structural: bool = False
    """The document says that it shapes the model."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def draw(self, u: float) -> Any:
        """Return the value at quantile `u` of 0 <= u < 1."""
        if self.kind in ("const", "choice"):
            return self.values[int(u * len(self.values))]
        if self.kind == "int":
            count = (int(self.hi) - int(self.lo)) // self.step + 1
            if self.is_log:
                # Each value has the share of [value, value + step) on the logarithmic axis.
                lo, hi = math.log(self.lo), math.log(self.lo + count * self.step)
                at = int((math.exp(lo + u * (hi - lo)) - self.lo) / self.step)
                return int(self.lo) + self.step * min(max(at, 0), count - 1)
            return int(self.lo) + self.step * int(u * count)
        if self.kind == "uniform":
            return min(self.lo + u * (self.hi - self.lo), self.hi)
        lo, hi = math.log(self.lo), math.log(self.hi)
        return min(max(math.exp(lo + u * (hi - lo)), self.lo), self.hi)

    def grid_size(self) -> int | None:
        """Return the number of values in a grid; None if it is not finite without `count`."""
        if self.kind in ("const", "choice"):
            return len(self.values)
        if self.kind == "int":
            size = (int(self.hi) - int(self.lo)) // self.step + 1
            return size if self.count is None else min(self.count, size)
        return self.count

    def grid_value(self, index: int) -> Any:
        """Value `index` of grid_size() many: evenly spaced from lo to hi, one alone in the middle."""
        if self.kind in ("const", "choice"):
            return self.values[index]
        size = self.grid_size()
        assert size is not None, f"{self.name}: grid over a space without count"
        if self.kind == "int" and self.count is None:
            return int(self.lo) + self.step * index
        at = 0.5 if size == 1 else index / (size - 1)
        if self.kind == "int":
            # Half up, not half to even: 0, 1, 2 and 3 of [0, 3] must not depend on parity.
            return math.floor(self.lo + at * (self.hi - self.lo) + 0.5)
        if self.kind == "uniform":
            return self.hi if at == 1 else self.lo + at * (self.hi - self.lo)
        if at in (0, 1):
            return (self.lo, self.hi)[int(at)]
        lo, hi = math.log(self.lo), math.log(self.hi)
        return math.exp(lo + at * (hi - lo))


def parse_space(raw: Mapping[str, Any]) -> tuple[list[SearchParameter], list[SpaceProblem]]:
    """Return the parameters of a space, sorted by path, and what is wrong with it."""
    parameters: list[SearchParameter] = []
    problems: list[SpaceProblem] = []
    _walk(raw, (), parameters, problems)
    if len(parameters) > MAX_PARAMETERS:
        problems.append(
            SpaceProblem(path="", message=f"at most {MAX_PARAMETERS} hyperparameters are possible")
        )
    parameters.sort(key=lambda p: p.path)
    problems += _bad_conditions(parameters)
    return parameters, problems


def sample(
    parameters: list[SearchParameter], *, seed: int, trial_no: int, attempt: int = 0
) -> dict[str, Any]:
    """Return trial `trial_no`'s hyperparameters; attempt: 1, 2, … for another draw of the same
    trial."""
    again = (str(attempt),) if attempt else ()
    return at(parameters, [uniform(seed, trial_no, *p.path, *again) for p in parameters])


def at(parameters: list[SearchParameter], point: Sequence[float]) -> dict[str, Any]:
    """Return the hyperparameters at a point of the unit cube, one quantile per parameter."""
    return active(parameters, {p.path: p.draw(u) for p, u in zip(parameters, point, strict=True)})


def active(
    parameters: list[SearchParameter], values: Mapping[tuple[str, ...], Any]
) -> dict[str, Any]:
    """`values` as nested mappings, without the parameters whose `when` is not met."""
    if not any(p.when for p in parameters):
        return _nest(values)
    by_path = {p.path: p for p in parameters}

    def is_there(path: tuple[str, ...]) -> bool:
        return all(
            is_there(other) and _among(values[other], allowed)
            for other, allowed in by_path[path].when
        )

    return _nest({path: value for path, value in values.items() if is_there(path)})


def _among(value: Any, values: Sequence[Any]) -> bool:
    """Return whether a value is one of these. Python calls true and 1 equal; a space does not."""
    return any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in values)


def num_points(
    parameters: Sequence[SearchParameter], constraints: Sequence[Constraint] = ()
) -> int | None:
    """Return how many different points a space has; None if they are more than `POINTS_COUNTED`."""
    if any(p.kind in ("uniform", "log") for p in parameters):
        return None
    whole = [replace(p, count=None) for p in parameters]
    size = grid_product(whole)
    return None if size is None or size > POINTS_COUNTED else grid_size(whole, constraints)


def value_of(hparams: Mapping[str, Any], path: tuple[str, ...], default: Any = None) -> Any:
    """Return the value at a path of nested hyperparameters; `default` where there is none."""
    found: Any = hparams
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return default
        found = found[key]
    return found


def outside(parameters: list[SearchParameter], point: Mapping[str, Any]) -> list[SpaceProblem]:
    """Return the problems of a point that somebody wrote: missing, unknown or invalid values.

    Values beyond the bounds are allowed, and so is another value for a constant, because the author
    of a point may know more than the space. Text for a number, or a choice that does not exist, is
    not.
    """
    problems: list[SpaceProblem] = []
    flat = dict(_flatten(parameters, point, ()))
    by_path = {p.path: p for p in parameters}
    for path in flat.keys() - by_path.keys():
        nearest = difflib.get_close_matches(".".join(path), [p.name for p in parameters], n=1)
        problems.append(
            SpaceProblem(
                path=".".join(path),
                message="is no hyperparameter of this search",
                hint=f"did you mean {nearest[0]}?" if nearest else None,
            )
        )
    for parameter in parameters:
        if parameter.path not in flat:
            is_there = all(
                other in flat and _among(flat[other], values) for other, values in parameter.when
            )
            if is_there and parameter.kind != "const":
                problems.append(SpaceProblem(path=parameter.name, message="is missing"))
            continue
        value = flat[parameter.path]
        if parameter.kind == "choice" and not _among(value, parameter.values):
            values = ", ".join(str(v) for v in parameter.values[:10])
            message = f"is {value!r}, which is not one of the choices"
            problems.append(SpaceProblem(path=parameter.name, message=message, hint=values))
        elif parameter.kind in ("int", "uniform", "log"):
            wanted = "a whole number" if parameter.kind == "int" else "a finite number"
            kinds = int if parameter.kind == "int" else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
                message = f"is {value!r}, not {wanted}"
                problems.append(SpaceProblem(path=parameter.name, message=message))
    return sorted(problems, key=lambda problem: problem.path)


def with_constants(parameters: list[SearchParameter], point: Mapping[str, Any]) -> dict[str, Any]:
    """`point` with the constants of the space it leaves out."""
    flat = dict(_flatten(parameters, point, ()))
    constants = {p.path: p.values[0] for p in parameters if p.kind == "const"}
    return active(
        [p for p in parameters if p.path in flat or p.path in constants], {**constants, **flat}
    )


def _flatten(
    parameters: list[SearchParameter], node: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    leaves = {p.path for p in parameters}
    for key, value in node.items():
        here = (*path, key)
        if isinstance(value, Mapping) and here not in leaves:
            yield from _flatten(parameters, value, here)
        else:
            yield here, value


def grid_indices(
    parameters: list[SearchParameter], constraints: Sequence[Constraint]
) -> Sequence[int]:
    """Return the points of the grid that are tried, as arguments of `grid_point`.

    A parameter whose `when` is not met has no values to go through, and points that break a
    constraint are left out.
    """
    size = grid_product(parameters)
    assert size is not None, "a grid over a space without count"
    if not constraints and not any(p.when for p in parameters):
        return range(size)
    kept: list[int] = []
    seen: set[str] = set()
    for index in range(size):
        point = grid_point(parameters, index)
        key = json.dumps(point, sort_keys=True)
        if key not in seen and all(c.holds(point) for c in constraints):
            seen.add(key)
            kept.append(index)
    return kept


def grid_size(
    parameters: list[SearchParameter], constraints: Sequence[Constraint] = ()
) -> int | None:
    """Return the number of points of the grid (1 for an empty space); None when a space is not
    finite."""
    size = grid_product(parameters)
    if size is None or size > MAX_GRID:
        return size
    return len(grid_indices(parameters, constraints))


def grid_product(parameters: list[SearchParameter]) -> int | None:
    """`grid_size` as if every parameter were always there and nothing constrained."""
    size = 1
    for parameter in parameters:
        own = parameter.grid_size()
        if own is None:
            return None
        size *= own
    return size


def grid_point(parameters: list[SearchParameter], index: int) -> dict[str, Any]:
    """Point `index` of the grid; the last path varies fastest."""
    values: dict[tuple[str, ...], Any] = {}
    for parameter in reversed(parameters):
        size = parameter.grid_size()
        assert size is not None, f"{parameter.name}: grid over a space without count"
        index, own = divmod(index, size)
        values[parameter.path] = parameter.grid_value(own)
    return active(parameters, {p.path: values[p.path] for p in parameters})


def uniform(seed: int, trial_no: int, *path: str) -> float:
    """Return a number in [0, 1) with 53 random bits that is a function of the arguments alone."""
    return (_hash(seed, trial_no, "hparam", path) >> 11) / 2**53


def trial_seed(seed: int, trial_no: int) -> int:
    """Seed of a trial's own randomness, 0 .. 2**31-1."""
    return _hash(seed, trial_no, "trial", ()) >> 33


def _hash(seed: int, trial_no: int, purpose: str, path: tuple[str, ...]) -> int:
    text = json.dumps([seed, trial_no, purpose, *path])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _nest(flat: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        at = nested
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = value
    return nested


def _walk(
    node: Mapping[str, Any],
    path: tuple[str, ...],
    parameters: list[SearchParameter],
    problems: list[SpaceProblem],
) -> None:
    for key, value in node.items():
        here = (*path, key)
        if not isinstance(value, Mapping):
            parameters.append(SearchParameter(path=here, kind="const", values=(value,)))
            continue
        kinds = [kind for kind in KINDS if kind in value]
        if kinds == ["int", "log"] and isinstance(value["log"], bool):
            kinds = ["int"]
        if not kinds:
            _walk(value, here, parameters, problems)
            continue
        try:
            parameters.append(_leaf(here, kinds, value))
        except _Bad as bad:
            problems.append(SpaceProblem(path=".".join(here), message=bad.message, hint=bad.hint))


def _bad_conditions(parameters: list[SearchParameter]) -> list[SpaceProblem]:
    """Return the problems of `when`: parameters that do not exist, impossible values, and
    cycles."""
    by_path = {p.path: p for p in parameters}
    problems: list[SpaceProblem] = []
    for parameter in parameters:
        for other, allowed in parameter.when:
            name, where = ".".join(other), f"{parameter.name}.when"
            if other not in by_path:
                nearest = difflib.get_close_matches(name, [p.name for p in parameters], n=1)
                hint = f"did you mean {nearest[0]}?" if nearest else None
                problems.append(
                    SpaceProblem(path=where, message=f"{name} is no hyperparameter", hint=hint)
                )
            elif by_path[other].kind in ("choice", "const") and not any(
                _among(value, by_path[other].values) for value in allowed
            ):
                values = ", ".join(str(v) for v in by_path[other].values[:10])
                problems.append(
                    SpaceProblem(
                        path=where,
                        message=f"{name} never is {allowed[0]!r}",
                        hint=f"it is one of {values}",
                    )
                )
    if not problems:
        for parameter in parameters:
            if _depends(by_path, parameter.path, parameter.path, ()):
                message = "depends on itself"
                problems.append(SpaceProblem(path=f"{parameter.name}.when", message=message))
    return problems


def _depends(
    by_path: Mapping[tuple[str, ...], SearchParameter],
    start: tuple[str, ...],
    wanted: tuple[str, ...],
    seen: tuple[tuple[str, ...], ...],
) -> bool:
    return any(
        other == wanted or (other not in seen and _depends(by_path, other, wanted, (*seen, other)))
        for other, _ in by_path[start].when
    )


class _Bad(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _leaf(path: tuple[str, ...], kinds: list[Kind], value: Mapping[str, Any]) -> SearchParameter:
    if len(kinds) > 1:
        raise _Bad(f"is {' and '.join(kinds)} at once", f"keep one of {', '.join(KINDS)}")
    kind = kinds[0]
    unknown = sorted(value.keys() - {kind} - _OPTIONS[kind])
    if unknown:
        allowed = ", ".join(sorted(_OPTIONS[kind])) or "nothing"
        hint = f"beside it may stand: {allowed}"
        if unknown[0] == "step" and kind in ("uniform", "log"):
            hint = _steps_hint(kind, value)
        raise _Bad(f"unknown key {unknown[0]!r} beside {kind!r}", hint)
    when, is_structural = _when(value), _is_structural(value)
    if kind == "const":
        return SearchParameter(
            path=path, kind=kind, values=(value[kind],), when=when, is_structural=is_structural
        )
    if kind == "choice":
        choices = value[kind]
        if not isinstance(choices, list) or not 1 <= len(choices) <= MAX_CHOICES:
            raise _Bad(f"choice needs a list of 1 to {MAX_CHOICES} values")
        return SearchParameter(
            path=path, kind=kind, values=tuple(choices), when=when, is_structural=is_structural
        )
    lo, hi = _bounds(kind, value[kind])
    return SearchParameter(
        path=path,
        kind=kind,
        lo=lo,
        hi=hi,
        step=_positive(value, "step") or 1,
        count=_positive(value, "count"),
        is_log=_is_log(kind, value, lo),
        when=when,
        is_structural=is_structural,
    )


def _when(
    value: Mapping[str, Any],
) -> tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...]:
    written = value.get("when")
    if written is None:
        return ()
    if not isinstance(written, Mapping) or not written:
        raise _Bad(
            "when needs a hyperparameter and its value", "for example when: {optimizer: sgd}"
        )
    conditions = []
    for name, allowed in written.items():
        values = tuple(allowed) if isinstance(allowed, list) else (allowed,)
        if not values:
            raise _Bad(f"when lists no value of {name}", f"for example when: {{{name}: [a, b]}}")
        conditions.append((tuple(str(name).split(".")), values))
    return tuple(conditions)


def _is_structural(value: Mapping[str, Any]) -> bool:
    written = value.get("structural", False)
    if not isinstance(written, bool):
        raise _Bad("structural must be true or false", "leave it out where it is false")
    return written


def _is_log(kind: Kind, value: Mapping[str, Any], lo: float) -> bool:
    if kind != "int" or "log" not in value:
        return False
    if value["log"] and lo < 1:
        raise _Bad(f"log: true needs bounds of at least 1, got a lower bound of {lo}")
    return bool(value["log"])


def _bounds(kind: Kind, bounds: Any) -> tuple[float, float]:
    example = "[1, 10]" if kind == "int" else "[0.001, 0.1]"
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise _Bad(f"{kind} needs two bounds", f"for example {{{kind}: {example}}}")
    for bound in bounds:
        is_number = isinstance(bound, int) or (kind != "int" and isinstance(bound, float))
        if isinstance(bound, bool) or not is_number:
            noun = "whole numbers" if kind == "int" else "numbers"
            raise _Bad(f"the bounds of {kind} must be {noun}", f"for example {{{kind}: {example}}}")
        if not math.isfinite(bound):
            raise _Bad(f"the bounds of {kind} must be finite")
        if kind == "int" and abs(bound) > MAX_INT:
            raise _Bad(f"the bounds of int must lie within ±{MAX_INT}")
    lo, hi = bounds
    if not lo < hi:
        raise _Bad(
            f"the lower bound must be below the upper one, got [{lo}, {hi}]",
            "write the smaller number first; for a fixed value write the value alone",
        )
    if kind == "log" and lo <= 0:
        raise _Bad(
            f"log needs bounds above 0, got a lower bound of {lo}",
            "use uniform, or a small positive lower bound",
        )
    return lo, hi


def _steps_hint(kind: Kind, value: Mapping[str, Any]) -> str:
    """Return how to write a space of numbers at a fixed distance, by a choice."""
    lo, hi = _bounds(kind, value[kind])
    step = value["step"]
    if isinstance(step, int | float) and 0 < step < math.inf and (hi - lo) / step < STEPS_LISTED:
        count = int((hi - lo) / step + 1e-9) + 1
        # Without the noise of floating point: 0.2 + 0.3 + 0.3 is 0.8.
        values = ", ".join(f"{lo + step * at:.10g}" for at in range(count))
        return f"list the values: {{choice: [{values}]}}"
    return "list the values: {choice: [...]}; in a grid, count says how many there are"


def _positive(value: Mapping[str, Any], key: str) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_INT:
        raise _Bad(f"{key} must be a whole number of at least 1")
    return number
