"""What the methods of search are is said once, for all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

import muster_server
from muster.document.searching import Method
from muster_server.domain.search.methods import COUNTED_BY_DOCUMENT, METHODS
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
    assert spec.has_fixed_trials == (name not in COUNTED_BY_DOCUMENT)
    if method.brackets:  # what it creates is what its rungs are made for
        assert sum(bracket.trials for bracket in spec.brackets) == spec.trials


def test_only_the_methods_know_their_names() -> None:
    root = Path(muster_server.__file__).parent
    # "random" is a sampler too, "median" a rule, and a grid has no number that a sampler could draw.
    quoted = [f'"{name}"' for name in SEARCHES if name not in ("grid", "random", "median")]
    told = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        if any(name in file.read_text() for name in quoted)
    }
    assert told == {"domain/search/methods.py", "services/documents/searching.py"}
