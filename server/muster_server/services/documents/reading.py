"""Guarded reading of YAML and JSON text that a stranger may have written.

Values follow the YAML 1.2 core schema, not PyYAML's 1.1: `1e-4` is a number, `no` and `on` are
text, `010` is ten, `12:30` and `2026-01-01` are text. Refused with line and column: aliases and
anchors (one alias can make a few bytes describe gigabytes), tags, duplicate keys, keys that are
not text, numbers that are not finite, several documents, and anything too deep or too large.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Protocol

import yaml

from muster_server.schemas.validation_messages import type_name

MAX_BYTES = 262_144
MAX_DEPTH = 32
MAX_INT = 2**63 - 1

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NON_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class Unreadable(Exception):
    """The text is not a document we accept. `path` is where in it, as far as known."""

    def __init__(self, message: str, *, path: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint


def read_document(text: str) -> dict[str, Any]:
    """Return the mapping written in `text`. Raises Unreadable."""
    value = read_value(text)
    if not isinstance(value, dict):
        got = "nothing" if value is None else type_name(value)
        raise Unreadable(
            f"a document is a mapping of keys to values, this is {got}", hint="name: my-experiment"
        )
    return value


def read_value(text: str, *, path: str = "") -> Any:
    """Return any JSON-like value written in `text`; path: where it belongs in the document. Raises
    Unreadable."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise Unreadable(f"the document is larger than {MAX_BYTES // 1024} KiB")
    if text.lstrip()[:1] in ("{", "["):
        # JSON is not quite a subset of YAML: tabs, and escaped characters beyond U+FFFF.
        try:
            return _read_json(text)
        except json.JSONDecodeError:
            pass  # YAML's own {a: b}, or broken in both: the YAML reader says where
    try:
        return _Builder(path).build(text)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text) from None


def _read_json(text: str) -> Any:
    try:
        value = json.loads(
            text,
            object_pairs_hook=_json_object,
            parse_int=_json_int,
            parse_float=_json_float,
            parse_constant=_json_constant,
        )
    except RecursionError:
        raise Unreadable(f"nested deeper than {MAX_DEPTH} levels") from None
    # Level by level, without recursion.
    level, depth = [value], 0
    while level:
        inner: list[Any] = []
        for node in level:
            if isinstance(node, str):
                _refuse_characters(node)
            elif isinstance(node, list):
                inner += node
            elif isinstance(node, dict):
                inner += node.values()
                inner += node.keys()
        if depth >= MAX_DEPTH and any(isinstance(node, list | dict) for node in level):
            raise Unreadable(f"nested deeper than {MAX_DEPTH} levels")
        level, depth = inner, depth + 1
    return value


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, inner in pairs:
        if key in value:
            raise Unreadable(f"the key {_short(key)} is there twice", path=key)
        value[key] = inner
    return value


def _json_int(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > MAX_INT:
        raise Unreadable("a whole number this large is not accepted")
    return int(text)


def _json_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable("a number this large is not accepted")
    return value


def _json_constant(_text: str) -> float:
    raise Unreadable("numbers must be finite")


def _refuse_characters(text: str) -> None:
    if "\x00" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise Unreadable("NUL and lone surrogate characters are not accepted")


class _TextMark(Protocol):
    line: int
    column: int


def _at(mark: _TextMark | None) -> str:
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


def _syntax_error(error: yaml.YAMLError, text: str) -> Unreadable:
    if isinstance(error, yaml.MarkedYAMLError):
        problem = error.problem or error.context or "unexpected input"
        hint = None
        mark = error.problem_mark
        line = (text.splitlines()[mark.line : mark.line + 1] or [""])[0] if mark else ""
        if "\t" in line[: len(line) - len(line.lstrip())] or "\\t" in problem:
            hint = "indent with spaces, not tabs"
        return Unreadable(f"not valid YAML or JSON: {problem}{_at(error.problem_mark)}", hint=hint)
    return Unreadable("not valid YAML or JSON: it contains characters that are not allowed")


class _Frame:
    """A list or mapping being read."""

    def __init__(self, value: dict[str, Any] | list[Any], path: str) -> None:
        self.value = value
        self.path = path
        self.key: str | None = None


TEXT_PATHS = frozenset({"from.trial"})
"""Paths of plain scalars that are text whatever they look like: as a number, trial 36.10 would be
36.1."""


class _Builder:
    """Builds plain values from the parser's events, without recursion."""

    def __init__(self, path: str) -> None:
        self._path = path
        """Path of the root."""
        self._stack: list[_Frame] = []
        self._root: Any = None
        self._num_documents = 0

    def build(self, text: str) -> Any:
        # The C parser, where PyYAML has it, is ten times faster and emits the same events.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for event in yaml.parse(text, Loader=loader):
            self._take(event)
        return self._root

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._num_documents += 1
            if self._num_documents > 1:
                raise Unreadable(
                    f"there is more than one document{_at(event.start_mark)}",
                    hint="submit one document at a time; '---' begins another",
                )
        elif isinstance(event, yaml.AliasEvent):
            raise self._refuse(event, "aliases (*name) are not accepted", "write the value again")
        elif isinstance(event, yaml.ScalarEvent):
            self._refuse_extras(event)
            is_text = self._at() in TEXT_PATHS and event.value not in _NULL
            scalar = event.value if is_text else self._scalar(event)
            self._put(event, scalar, is_scalar=True)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._refuse_extras(event)
            if len(self._stack) >= MAX_DEPTH:
                raise self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            value: dict[str, Any] | list[Any] = {} if is_mapping else []
            path = self._put(event, value)
            self._stack.append(_Frame(value, path))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._stack.pop()

    def _at(self) -> str:
        """Return the path of the value that comes next; that of its mapping where a key comes next."""
        if not self._stack:
            return self._path
        frame = self._stack[-1]
        return frame.path if frame.key is None else _join(frame.path, frame.key)

    def _refuse_extras(self, event: Any) -> None:
        if event.anchor is not None:
            raise self._refuse(
                event, "anchors (&name) are not accepted", "write the value where it is needed"
            )
        if event.tag is not None and event.tag != "!":
            raise self._refuse(event, "tags (!name) are not accepted", "text goes in quotes")

    def _refuse(self, event: yaml.Event, message: str, hint: str | None = None) -> Unreadable:
        path = ""
        if self._stack:
            frame = self._stack[-1]
            path = _join(frame.path, frame.key) if frame.key is not None else frame.path
        return Unreadable(f"{message}{_at(event.start_mark)}", path=path, hint=hint)

    def _put(self, event: yaml.Event, value: Any, *, is_scalar: bool = False) -> str:
        """Store `value` where it belongs and return its path."""
        if not self._stack:
            self._root = value
            return self._path
        frame = self._stack[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
            return f"{frame.path}[{len(frame.value) - 1}]"
        if frame.key is None:
            if not is_scalar or not isinstance(value, str):
                raise self._refuse(
                    event, f"a key must be text, this one is {type_name(value)}", "put it in quotes"
                )
            if value in frame.value:
                path = _join(frame.path, value)
                raise Unreadable(
                    f"the key {_short(value)} is there twice{_at(event.start_mark)}", path=path
                )
            frame.key = value
            return frame.path
        path = _join(frame.path, frame.key)
        frame.value[frame.key] = value
        frame.key = None
        return path

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text: str = event.value
        if "\x00" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
            raise self._refuse(event, "NUL and lone surrogate characters are not accepted")
        if not event.implicit[0]:  # quoted, or a block of text
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _INT.fullmatch(text):
            # Python's own limit on digits would raise far later than ours.
            number = int(text, 0 if text[:2] in ("0x", "0o") else 10) if len(text) < 64 else None
            if number is None or abs(number) > MAX_INT:
                raise self._refuse(event, "a whole number this large is not accepted")
            return number
        if _FLOAT.fullmatch(text):
            value = float(text)
            if not math.isfinite(value):
                raise self._refuse(event, "a number this large is not accepted")
            return value
        if _NON_FINITE.fullmatch(text):
            raise self._refuse(
                event, "numbers must be finite", "leave the key out, or name a bound"
            )
        return text


def _join(path: str, key: str | None) -> str:
    if key is None:
        return path
    return f"{path}.{key}" if path else key


def _short(key: str) -> str:
    return repr(key if len(key) <= 60 else key[:57] + "…")
