"""Python types of the API's answers, made from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HEAD = '''"""Types of the objects that the REST API answers with, for type checkers and editors.

Made by scripts/generate: edit the models of the server. A time is text in ISO 8601 with a zone.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
'''
PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}

Schema = Mapping[str, Any]


def render(document: Schema) -> str:
    """Return a module with a TypedDict for each object that an answer is or contains."""
    schemas = document["components"]["schemas"]
    answers = [answer for path in document["paths"].values() for answer in _answers(path)]
    wanted, left = set(), {name for answer in answers for name in _names(answer)}
    while left:
        name = left.pop()
        wanted.add(name)
        left |= set(_names(schemas[name])) - wanted
    return "\n\n".join([HEAD, *(_definition(name, schemas[name]) for name in sorted(wanted))])


def answer_of(operation: Schema) -> Schema | None:
    """Return the schema of the JSON that an operation succeeds with; None if it sends none."""
    for status, response in operation["responses"].items():
        answer = response.get("content", {}).get("application/json", {}).get("schema")
        if status.startswith("2") and answer is not None:
            return answer  # type: ignore[no-any-return]
    return None


def _answers(path: Schema) -> Iterator[Schema]:
    return (answer for operation in path.values() if (answer := answer_of(operation)) is not None)


def _names(schema: Any) -> Iterator[str]:
    """Yield the names of the schemas that a schema refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield name_in(schema)
        schema = [*schema.values()]
    if isinstance(schema, list):
        for inner in schema:
            yield from _names(inner)


def name_in(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _definition(name: str, schema: Schema) -> str:
    if "properties" not in schema:
        return f"{name} = {type_of(schema)}\n"
    lines = [f"class {name}(TypedDict):"]
    if about := schema.get("description"):
        lines.append(f'    """{about}"""\n')
    required = schema.get("required", [])
    for field, inner in schema["properties"].items():
        text = type_of(inner)
        lines.append(f"    {field}: {text if field in required else f'NotRequired[{text}]'}")
    return "\n".join(lines) + "\n"


def type_of(schema: Schema) -> str:
    """Return the annotation of what a schema describes."""
    if "$ref" in schema:
        return name_in(schema)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(type_of(choice) for choice in choices))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum") or [schema["const"]]
        return f"Literal[{', '.join(repr(value) for value in values)}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}))}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values) if isinstance(values, dict) else 'Any'}]"
    return PLAIN.get(str(kind), "Any")
