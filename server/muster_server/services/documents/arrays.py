"""Job arrays: an array is a grid over its elements, in which nothing is compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from muster.document.arrays import ARRAY_ELEMENTS_MAX, InvalidArray, ranges_of
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem

_CONFLICT = "leave it out: an array makes the search by itself"


def with_array(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Return a written document with the space and the search that its array stands for, and what
    is wrong with the array. A resolved document comes back as it is."""
    written = raw.get("array")
    if written in (None, {}):
        if raw.get("max_concurrent") is None:
            return dict(raw), []
        hint = "add `array: {i: 0-9}`; a search has search.concurrent"
        return dict(raw), [FieldProblem("max_concurrent", "has no effect without array", hint)]
    if not isinstance(written, dict):
        return dict(raw), []  # the schema will complain
    texts, spaces, problems, size = {}, {}, [], 1
    for name, value in written.items():
        try:
            texts[name] = _text(value)
            ranges = ranges_of(texts[name])
        except InvalidArray as invalid:
            problems.append(FieldProblem(f"array.{name}", invalid.problem, invalid.hint))
            continue
        spaces[name] = _space(ranges)
        size *= sum(len(part) for part in ranges)
    if size > ARRAY_ELEMENTS_MAX:
        problems.append(
            FieldProblem(
                "array",
                f"has {size} combinations, and at most {ARRAY_ELEMENTS_MAX} are possible",
                f"with {len(spaces)} names of equal size, use at most "
                f"{math.floor(ARRAY_ELEMENTS_MAX ** (1 / len(spaces)))} elements of each",
            )
        )
    completed = {**raw, "array": texts}
    problems += _add_space(completed, spaces)
    problems += _add_search(completed)
    if problems:  # They are said once: what follows from the array is left out of later checks.
        return {**raw, "array": {}, "max_concurrent": None}, problems
    return completed, []


def _text(value: Any) -> str:
    """Return the elements as text, for a text, a number or a list of both. Raises InvalidArray."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise InvalidArray("names no element")
    if not all(isinstance(item, int | str) and not isinstance(item, bool) for item in items):
        raise InvalidArray("is neither a range nor a list of whole numbers from 0")
    return ",".join(str(item) for item in items)


def _space(ranges: Sequence[range]) -> dict[str, Any]:
    (first, *others) = ranges
    if not others and len(first) > 1:
        return {"int": [first[0], first[-1]], "step": first.step}
    return {"choice": [element for part in ranges for element in part]}


def _add_space(document: dict[str, Any], spaces: Mapping[str, Any]) -> list[FieldProblem]:
    space = document.get("hyperparameters") or {}
    if not isinstance(space, dict):
        return []
    problems = [
        FieldProblem(
            f"hyperparameters.{name}", Message("field.beside", other=f"array.{name}"), _CONFLICT
        )
        for name, own in spaces.items()
        if space.get(name, own) != own
    ]
    document["hyperparameters"] = {**space, **spaces}
    return problems


def _add_search(document: dict[str, Any]) -> list[FieldProblem]:
    search = document.get("search") or {}
    if not isinstance(search, dict):
        return []
    method = search.get("method")
    # The search's own number can be changed while it runs, and then it is the newer one.
    at_once = search.get("concurrent") or document.get("max_concurrent")
    document["search"] = {**search, "method": "grid", "concurrent": at_once}
    if method in (None, "grid"):
        return []
    return [FieldProblem("search.method", Message("field.beside", other="array"), _CONFLICT)]
