"""Nothing of /api/v1 was removed or narrowed since the last release.

What the last release took and answered is in last_release_api.json.gz. Write it anew when a release is made, and
only then:

    .venv/bin/python tests/policy/test_api_compatible.py
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from muster_server.api.http.openapi import describe
from support.client import plain_app

BASELINE = Path(__file__).with_name("last_release_api.json.gz")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
STRUCTURE = ("type", "$ref", "required", "enum", "const", *UPPER, *LOWER)
Schema = dict[str, Any]
Facts = dict[str, dict[str, Any]]
"""operations: "GET /path" → what it takes and answers. models: name → schema."""


def facts_of(document: dict[str, Any]) -> Facts:
    """Return what clients depend on of an OpenAPI document: no texts, defaults and formats."""
    operations = {
        f"{method.upper()} {path}": {
            "takes": {
                f"{given['in']} {given['name']}": [
                    given.get("required", False),
                    pruned(given["schema"]),
                ]
                for given in one.get("parameters", [])
            },
            "body": _contents(one.get("requestBody", {})),
            "answers": {
                status: _contents(answer)
                for status, answer in one["responses"].items()
                if status < "400"
            },
        }
        for path, methods in document["paths"].items()
        if path.startswith("/api/v1")
        for method, one in methods.items()
    }
    models = {name: pruned(schema) for name, schema in document["components"]["schemas"].items()}
    used: set[str] = set()
    found = _names(operations)
    while found:
        used |= found
        found = _names([models[name] for name in found]) - used
    return {"operations": operations, "models": {name: models[name] for name in sorted(used)}}


def _contents(part: dict[str, Any]) -> dict[str, Schema]:
    return {media: pruned(of.get("schema", {})) for media, of in part.get("content", {}).items()}


def _names(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if "$ref" in value else set()
        return own.union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


def pruned(schema: Any) -> Any:
    """Return a schema without what does not limit its values."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: schema[key] for key in STRUCTURE if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: pruned(of) for name, of in schema["properties"].items()}
    if options := schema.get("anyOf") or schema.get("oneOf"):
        kept["anyOf"] = [pruned(option) for option in options]
    return kept | {
        key: pruned(schema[key]) for key in ("items", "additionalProperties") if key in schema
    }


class Comparison:
    """Finds values that one side may send and the other does not expect."""

    def __init__(self, old: Facts, new: Facts) -> None:
        self._old, self._new = old, new
        self._compared: set[tuple[str, str, str]] = set()

    def broken(self) -> Iterator[str]:
        """Yield each way in which a client of the old API may fail with the new one."""
        for name, old in self._old["operations"].items():
            new = self._new["operations"].get(name)
            if new is None:
                yield f"{name} is gone"
                continue
            for given, (_, schema) in old["takes"].items():
                if given not in new["takes"]:
                    yield f"{name} no longer takes {given}"
                else:
                    yield from self._sent(schema, new["takes"][given][1], f"{name} {given}")
            for given, (is_required, _) in new["takes"].items():
                if is_required and not old["takes"].get(given, [False])[0]:
                    yield f"{name} now needs {given}"
            if new["body"] and not old["body"]:
                yield f"{name} now takes a body"
            for media, schema in old["body"].items():
                if media not in new["body"]:
                    yield f"{name} no longer takes {media}"
                else:
                    yield from self._sent(schema, new["body"][media], f"{name} body")
            for status, contents in old["answers"].items():
                for media, schema in contents.items() or {"": {}}.items():
                    answers = new["answers"].get(status)
                    if answers is None or media not in (answers or {"": {}}):
                        yield f"{name} no longer answers {status} {media}"
                    elif media:
                        yield from self._answered(schema, answers[media], f"{name} {status}")

    def _sent(self, old: Schema, new: Schema, where: str) -> list[str]:
        """Whatever a client sends is still taken."""
        return self._misfits("sent", old, new, where)

    def _answered(self, old: Schema, new: Schema, where: str) -> list[str]:
        """Whatever is answered now is what a client expects."""
        return self._misfits("answered", new, old, where)

    def _misfits(
        self, way: Literal["sent", "answered"], given: Schema, known: Schema, where: str
    ) -> list[str]:
        """Describe each kind of the given values that is not among the known ones."""
        pair = (way, json.dumps(given), json.dumps(known))
        if "$ref" in pair[1] + pair[2]:
            if pair in self._compared:  # or it is being compared: models refer to themselves
                return []
            self._compared.add(pair)
        givens, knowns = (self._new, self._old) if way == "answered" else (self._old, self._new)
        found = []
        expected = list(_alternatives(known, knowns, way))
        for one in _alternatives(given, givens, way):
            attempts = [self._difference(way, one, other, where) for other in expected]
            best = min(attempts, key=len, default=[f"{where}: nothing is expected"])
            found += best
        return found

    def _difference(
        self, way: Literal["sent", "answered"], given: Schema, known: Schema, where: str
    ) -> list[str]:
        """Compare two schemas without alternatives."""
        if not known:
            return []
        kind, expected = given.get("type"), known.get("type")
        if kind != expected and (kind, expected) != ("integer", "number"):
            return [
                f"{where}: {kind or 'anything'} where {expected} was known"
            ] * 1000  # the worst match
        if "const" in known and given.get("const") != known["const"]:
            return [
                f"{where}: {given.get('const', 'any ' + str(kind))!r} is not {known['const']!r}"
            ]
        found = [
            f"{where}: {key} is now {known[key]}"
            for keys, tighter in ((UPPER, min), (LOWER, max))
            for key in keys
            if way == "sent"
            and key in known
            and tighter(given.get(key, known[key]), known[key]) != given.get(key)
        ]
        if kind == "array":
            found += self._misfits(
                way, given.get("items", {}), known.get("items", {}), f"{where}[]"
            )
        if kind == "object":
            found += self._fields(way, given, known, where)
        return found

    def _fields(
        self, way: Literal["sent", "answered"], given: Schema, known: Schema, where: str
    ) -> Iterator[str]:
        theirs, ours = given.get("properties", {}), known.get("properties", {})
        others = [of.get("additionalProperties", {}) for of in (given, known)]
        for name in set(known.get("required", [])) - set(given.get("required", [])):
            yield (
                f"{where}.{name} is now needed"
                if way == "sent"
                else f"{where}.{name} may now be missing"
            )
        old, new = (theirs, ours) if way == "sent" else (ours, theirs)
        if others[way == "sent"] is False or way == "answered":
            yield from (f"{where}.{name} is gone" for name in old.keys() - new.keys())
        for name in theirs.keys() & ours.keys():
            yield from self._misfits(way, theirs[name], ours[name], f"{where}.{name}")
        if all(isinstance(other, dict) for other in others):
            yield from self._misfits(way, others[0], others[1], f"{where}.*")


def _alternatives(schema: Schema, facts: Facts, way: str) -> Iterator[Schema]:
    """Yield the schemas of which each value fits one; single words count among what is sent, since clients
    have to expect new ones in an answer."""
    if "$ref" in schema:
        yield from _alternatives(facts["models"][schema["$ref"].rpartition("/")[2]], facts, way)
    elif "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from _alternatives(option, facts, way)
    elif "enum" in schema and way == "sent":
        yield from ({"type": schema.get("type"), "const": value} for value in schema["enum"])
    elif way == "answered":
        yield {key: value for key, value in schema.items() if key not in ("const", "enum")}
    else:
        yield schema


def document() -> dict[str, Any]:
    return describe(plain_app())


@pytest.fixture(scope="module")
def now() -> Facts:
    return facts_of(document())


def test_what_clients_of_the_last_release_use_is_still_there(now: Facts) -> None:
    assert list(Comparison(json.loads(gzip.decompress(BASELINE.read_bytes())), now).broken()) == []


def fields(facts: Facts, model: str) -> dict[str, Any]:
    return facts["models"][model]["properties"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda f: f["operations"].pop("GET /api/v1/nodes"), "GET /api/v1/nodes is gone"),
        (lambda f: f["operations"]["GET /api/v1/nodes"]["answers"].clear(), "no longer answers 200"),
        (lambda f: f["operations"]["GET /api/v1/audit"]["takes"].clear(), "no longer takes query"),
        (lambda f: f["operations"]["GET /api/v1/nodes"]["takes"].update({"query q": [True, {}]}), "now needs query q"),
        (lambda f: fields(f, "TokenOut").pop("name"), ".name is gone"),
        (lambda f: f["models"]["TokenOut"]["required"].remove("name"), ".name may now be missing"),
        (lambda f: fields(f, "TokenOut").update(name={"type": "integer"}), "integer where string was known"),
        (lambda f: fields(f, "TokenOut").update(name={"anyOf": [{"type": "string"}, {"type": "null"}]}), "null where"),
        (lambda f: fields(f, "TokenIn").pop("name"), ".name is gone"),
        (lambda f: f["models"]["TokenIn"]["required"].append("role"), ".role is now needed"),
        (lambda f: fields(f, "TokenIn")["name"].update(maxLength=1), "maxLength is now 1"),
    ],
)  # fmt: skip
def test_what_breaks_a_client_is_found(
    now: Facts, change: Callable[[Facts], Any], expected: str
) -> None:
    assert list(Comparison(now, now).broken()) == []
    changed = copy.deepcopy(now)
    change(changed)
    assert expected in "\n".join(Comparison(now, changed).broken())


def test_what_is_added_breaks_no_client(now: Facts) -> None:
    more = copy.deepcopy(now)
    more["operations"]["GET /api/v1/new"] = {"takes": {}, "body": {}, "answers": {}}
    fields(more, "TokenOut")["more"] = fields(more, "TokenIn")["more"] = {"type": "string"}
    assert list(Comparison(now, more).broken()) == []


if __name__ == "__main__":
    BASELINE.write_bytes(gzip.compress(json.dumps(facts_of(document())).encode(), mtime=0))
