"""The dashboard's form of a pool's provider offers what the server takes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from muster_server.domain.providers.options import KINDS

FORM = Path(__file__).parents[2] / "frontend" / "src" / "features" / "settings" / "providerForm.ts"
_BLOCK = re.compile(r"(\w+): \{\s*required: \[(.*?)\],\s*optional: \[(.*?)\],\s*\}", re.DOTALL)


def names(text: str) -> set[str]:
    return set(re.findall(r'"(\w+)"', text))


def test_the_form_offers_each_option_of_each_provider() -> None:
    found = {
        kind: (names(required), names(optional))
        for kind, required, optional in _BLOCK.findall(FORM.read_text())
    }
    assert found.keys() == KINDS.keys()
    for kind, options in KINDS.items():
        required, optional = found[kind]
        assert required == set(options.required), kind
        assert required | optional == {field.name for field in dataclasses.fields(options)}, kind
