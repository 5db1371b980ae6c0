"""Every document of the examples can be submitted as it is, and the schema explains each of its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_server.domain.messages import english
from muster_server.schemas.document import document_schema
from muster_server.services.documents import resolve

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DOCUMENTS = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(EXAMPLES)))
def test_an_example_is_valid(path: Path) -> None:
    found = resolve(path.read_text())
    assert [(p.path, english(p.message)) for p in found.problems] == []
    assert found.config is not None


def test_the_schema_knows_every_key_of_the_examples() -> None:
    schema = document_schema()
    for path in DOCUMENTS:
        _require_known(yaml.safe_load(path.read_text()), schema, schema, path.name)


def _require_known(value: Any, node: dict[str, Any], schema: dict[str, Any], where: str) -> None:
    options = [_target(option, schema) for option in node.get("anyOf", [node])]
    properties = {k: v for option in options for k, v in option.get("properties", {}).items()}
    if not isinstance(value, dict) or not properties:
        return
    for key, inner in value.items():
        assert key in properties, f"{where}: {key}"
        assert properties[key].get("description"), f"{where}: {key} is not explained"
        _require_known(inner, properties[key], schema, f"{where}.{key}")


def _target(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = node.get("$ref", "").removeprefix("#/$defs/")
    return schema["$defs"][name] if name else node
