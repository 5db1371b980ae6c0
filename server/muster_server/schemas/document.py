"""The models that check what users write, made from the tree of `muster.document`.

Names, defaults, bounds and sentences stand there; here they become pydantic models, which also give
the reference (docs/reference/experiment-document.md) and the schema of the API. Checks across
fields are in services/documents/checks.py, so that each can name its path.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic_core import core_schema

from muster.document.codec import dump, key_of, load
from muster.document.common import Bounds, Mark
from muster.document.experiment import ExperimentConfig
from muster.document.running import BudgetSection, WasteSection
from muster.document.trainer_settings import OWN_FUNCTION
from muster_server.schemas.base import SafeStr, one_line

OWN_FUNCTION_MAX = 256
"""Characters of `module:function`."""


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def _made(section: type[Any]) -> type[Section]:
    hints = get_type_hints(section, include_extras=True)
    docs = {name: doc for kind in reversed(section.__mro__[:-1]) for name, doc in _docs(kind)}
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(section):
        key = key_of(field.name)
        info = Field(
            default=_default(field),
            description=docs.get(field.name),
            alias=key if key != field.name else None,
        )
        fields[field.name] = (_annotation(hints[field.name]), info)
    name = section.__name__.removesuffix("Section")
    return create_model(name, __base__=Section, __doc__=section.__doc__, **fields)


model_of = cast(Callable[[Any], type[Section]], functools.cache(_made))
"""Return the model that checks what is written for a section of the tree."""


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        value = field.default
    else:
        return ...
    plain = dump(value)
    is_section = dataclasses.is_dataclass(value)
    return model_of(type(value)).model_validate(plain) if is_section else plain


def _docs(section: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the sentences below the fields that a class declares itself."""
    body = _classes(section.__module__)[section.__name__].body
    for field, below in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield field.target.id, inspect.cleandoc(str(below.value.value))


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module, by name. `inspect` reads the module again for each class."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _annotation(declared: Any) -> Any:
    """Return what pydantic takes for the annotation of a field."""
    origin, inner = get_origin(declared), get_args(declared)
    if declared is str:
        return SafeStr
    if dataclasses.is_dataclass(declared) and isinstance(declared, type):
        return model_of(declared)
    if origin is Annotated:
        plain, checks = _annotation(inner[0]), [_check(extra) for extra in declared.__metadata__]
        checks = [check for check in checks if check is not None]
        return Annotated[(plain, *checks)] if checks else plain
    if origin is tuple:
        return list[_annotation(inner[0])]  # type: ignore[misc]
    if origin is dict:
        return dict[_annotation(inner[0]), _annotation(inner[1])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return _union(inner)
    return declared


def _union(options: tuple[Any, ...]) -> Any:
    sections = [o for o in options if dataclasses.is_dataclass(o)]
    others = [o for o in options if o not in sections and o is not type(None)]
    if not sections or not others:
        return Union[tuple(_annotation(option) for option in options)]  # noqa: UP007
    # A problem of one of the two is reported for that one, not for both.
    (section,), (other,) = sections, others
    mapping: Any = Annotated[_annotation(section), Tag("[mapping]")]
    plain: Any = Annotated[_annotation(other), Tag("[plain]")]
    tagged: Any = Annotated[mapping | plain, Discriminator(_tag)]
    return tagged | None if type(None) in options else tagged


def _tag(given: Any) -> str:
    return "[plain]" if isinstance(given, int | float | str) else "[mapping]"


def _check(extra: Any) -> Any:
    if isinstance(extra, Bounds):
        return Field(**extra.given())
    return {Mark.ONE_LINE: AfterValidator(one_line), Mark.OWN_FUNCTION: OR_OWN}.get(extra)


def _or_own(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    is_own = isinstance(value, str) and len(value) <= OWN_FUNCTION_MAX
    return value if is_own and OWN_FUNCTION.fullmatch(value) else known(value)


OR_OWN = WrapValidator(_or_own)
"""Beside what the annotation allows, `module:function` of the user's own."""


class Checked:
    """Annotates a section of the document as the body of a request."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, section: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            lambda written: load(section, written.model_dump(by_alias=True)),
            handler.generate_schema(model_of(section)),
            serialization=core_schema.plain_serializer_function_ser_schema(dump),
        )


Document = model_of(ExperimentConfig)
BudgetIn = Annotated[BudgetSection, Checked]
WasteIn = Annotated[WasteSection, Checked]


@functools.cache
def document_schema() -> dict[str, Any]:
    """Return the JSON schema of the document, with descriptions and defaults. Do not change it: all
    callers share it."""
    return Document.model_json_schema()
