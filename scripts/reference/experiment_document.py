"""docs/reference/experiment-document.md, from the schema of the document."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from muster.document.common import MAX_SLOTS
from muster_server.domain.search.methods import METHODS
from muster_server.schemas.document import Document
from muster_server.services.documents.checks import RESERVED_PREFIXES, RESERVED_VARIABLES
from muster_server.services.documents.explaining import fields_of, section_of
from muster_server.services.documents.reading import MAX_BYTES, MAX_DEPTH

_INTRO = f"""# The experiment document

One YAML or JSON document describes an experiment. `muster validate` and
`POST /api/v1/experiments:preview` check it and show the resolved document with the origin of each
value. Single values can be changed without editing it: `--set resources.slots=2`; the value is
read as YAML.

```yaml
name: digits-search
trainer: {{model: mlp, data: digits}}
resources: {{slots: 2}}
hyperparameters:
  lr: {{log: [1e-4, 1e-1]}}
search: {{method: asha, metric: val/loss, goal: min, trials: 16, max_length: {{epochs: 9}}, divisor: 3}}
```

Reading is strict. Unknown keys are refused with the nearest known one. Values follow YAML 1.2:
`1e-4` is a number, `no` and `on` are text, only `true` and `false` are booleans, and text is never
turned into a number or back. Aliases, anchors, tags, duplicate keys, several documents, numbers
that are not finite, more than {MAX_DEPTH} levels and more than {MAX_BYTES // 1024} KiB are refused.
A trial may ask for up to {MAX_SLOTS} slots.
"""


def render() -> str:
    """Return the whole page."""
    lines = [_INTRO]
    lines += ["## Top level", "", *_table(Document, "")]
    for path, section in _sections(Document, ""):
        lines += ["", f"## `{path}`", "", _first_paragraph(section), "", *_table(section, path)]
    lines += ["", "## Search methods", "", *_methods()]
    prefixes = ", ".join(f"`{p}*`" for p in RESERVED_PREFIXES)
    names = ", ".join(f"`{n}`" for n in sorted(RESERVED_VARIABLES))
    lines += ["", "## Reserved environment variables", "", f"{prefixes}, {names}."]
    return "\n".join(lines) + "\n"


def _methods() -> Iterator[str]:
    yield "| `search.method` | what it does | needs | settings of its own |"
    yield "|---|---|---|---|"
    for name, method in METHODS.items():
        needs, settings = (
            ", ".join(f"`{field}`" for field in fields)
            for fields in (method.needs, method.settings)
        )
        yield f"| `{name}` | {method.summary.en} | {needs} | {settings} |"


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, info in fields_of(model).items():
        section = section_of(info.annotation)
        if section is not None:
            here = f"{path}.{name}" if path else name
            yield here, section
            yield from _sections(section, here)


def _table(model: type[BaseModel], path: str) -> Iterator[str]:
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, info in fields_of(model).items():
        here = f"{path}.{name}" if path else name
        meaning = " ".join((info.description or "").split()).replace("|", "\\|")
        yield f"| `{here}` | {_kind(info)} | {_default(info)} | {meaning} |"


def _first_paragraph(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split("\n\n")[0].split())


def _default(info: FieldInfo) -> str:
    if info.default is PydanticUndefined:
        return "required"
    if info.default is None:
        return ""
    if isinstance(info.default, BaseModel):
        value = info.default.model_dump(mode="json", exclude_defaults=True)
        return f"`{json.dumps(value)}`" if value else "see below"
    return f"`{json.dumps(info.default)}`"


def _kind(info: FieldInfo) -> str:
    limits = [
        f"{symbol} {bound:g}"
        for item in _metadata(info)
        for attribute, symbol in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        if (bound := getattr(item, attribute, None)) is not None and abs(bound) < 2**40
    ]
    return ", ".join([_words(info.annotation), *limits])


def _metadata(info: FieldInfo) -> Iterator[Any]:
    yield from info.metadata
    for option in typing.get_args(info.annotation):
        if typing.get_origin(option) is typing.Annotated:
            for item in typing.get_args(option)[1:]:
                yield from getattr(item, "metadata", [item])


def _words(annotation: Any) -> str:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _words(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(o) for o in typing.get_args(annotation) if o is not type(None))
    if origin is Literal:
        return " or ".join(f"`{o}`" for o in typing.get_args(annotation))
    if origin is list:
        words = [_words(item) for item in typing.get_args(annotation)]
        return "text or list" if words == ["text"] else f"list of {', '.join(words)}s"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    return {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}.get(
        annotation, "any"
    )
