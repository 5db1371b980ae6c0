"""What the methods of search are is said once, for all of them."""

from __future__ import annotations

import ast
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import muster_server
from muster.document.searching import Method, SearchSection
from muster_server.domain.search.methods import METHODS
from muster_server.services.documents import resolve, search_spec

SEARCHES = tuple(name for name in get_args(Method) if name != "single")
DOCUMENT = {
    "name": "methods",
    "entrypoint": "train.py",
    "hyperparameters": {"lr": {"log": [1e-4, 1e-1], "count": 3}},
}
NEEDED = {
    "random": {"trials": 7},
    "asha": {"trials": 7},
    "median": {"trials": 7},
    "pbt": {"population": 4},
}


def test_every_method_of_a_document_is_there() -> None:
    assert tuple(METHODS) == get_args(Method)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_spec_follows_from_its_method(name: Method) -> None:
    method = METHODS[name]
    compared = {"metric": "loss", "goal": "min", "max_length": {"epochs": 9}}
    search = {"method": name, **NEEDED.get(name, {}), **(compared if method.compares else {})}
    resolved = resolve(json.dumps({**DOCUMENT, "search": search}))
    assert resolved.config is not None, resolved.problems
    spec = search_spec(resolved.config)
    assert spec.trials >= 1
    assert bool(spec.rungs) == method.compares
    assert (spec.rule == "none") == (not method.compares)
    assert (spec.explore is not None) == (method.explore is not None)
    assert spec.has_fixed_trials == (not method.is_counted_by_document)
    if method.brackets:  # what it creates is what its rungs are made for
        assert sum(bracket.trials for bracket in spec.brackets) == spec.trials


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_needs_is_refused_without_it(name: Method) -> None:
    method = METHODS[name]
    given: dict[str, Any] = {
        "metric": "loss",
        "goal": "min",
        "max_length": {"epochs": 9},
        "trials": 7,
        "population": 4,
    }
    assert set(method.needs) <= given.keys()
    for missing in method.needs:
        search = {"method": name, **{key: given[key] for key in method.needs if key != missing}}
        if "metric" in search:
            search["goal"] = "min"
        problems = resolve(json.dumps({**DOCUMENT, "search": search})).problems
        assert f"search.{missing}" in {problem.path for problem in problems}


def test_the_settings_of_a_method_are_those_of_the_document() -> None:
    known = {field.name for field in fields(SearchSection)}
    assert {name for method in METHODS.values() for name in method.settings} <= known


def test_only_the_methods_know_their_names() -> None:
    root = Path(muster_server.__file__).parent
    told = {
        f"{file.relative_to(root)}:{node.lineno}"
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left).endswith("method")
        and any(
            isinstance(other, ast.Constant) and other.value in METHODS for other in node.comparators
        )
    }
    assert not told
