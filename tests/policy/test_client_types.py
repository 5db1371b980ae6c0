"""The types of the client's answers are those of the server's models."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NotRequired, get_origin, get_type_hints, is_typeddict

from muster.client import schema
from muster_server.api.http.openapi import describe
from support.client import plain_app

DOCUMENT = describe(plain_app())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
TYPES = {name: kind for name, kind in vars(schema).items() if is_typeddict(kind)}


def names(value: Any) -> set[str]:
    """Return the schemas to which a part of the document refers."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    return names([*value.values()]) | {str(value.get("$ref", "")).rpartition("/")[2]} - {""}


def test_every_answer_has_a_type_with_the_fields_of_its_model() -> None:
    answered = {
        name
        for path in DOCUMENT["paths"].values()
        for operation in path.values()
        for status, answer in operation["responses"].items()
        if status.startswith("2")
        for name in names(answer)
    }
    assert {name for name in answered if "properties" in SCHEMAS[name]} <= set(TYPES)
    for name, kind in TYPES.items():
        fields = get_type_hints(kind, include_extras=True)
        required = {
            field for field, type_ in fields.items() if get_origin(type_) is not NotRequired
        }
        assert set(fields) == set(SCHEMAS[name]["properties"])
        assert required == set(SCHEMAS[name].get("required", []))


def test_the_client_runs_without_its_types_and_they_without_pydantic() -> None:
    code = (
        "import sys, muster.client, muster.cli.all_commands\n"
        "loaded = 'muster.client.schema' in sys.modules\n"
        "import muster.client.schema\n"
        "print(loaded, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
