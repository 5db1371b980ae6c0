"""What every REST model shares.

Input is strict: unknown fields are refused, nothing is coerced, strings hold no NUL or lone
surrogate, numbers are finite. Output floats that are not finite travel as "NaN", "Infinity",
"-Infinity" (muster.wire); lists come in pages.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from muster.document.common import IDENTIFIER, NAME
from muster.wire import encode_number
from muster_server.domain.durations import as_utc
from muster_server.domain.messages import AnyMessage, english, parts
from muster_server.errors import FieldProblem


def _clean(text: str) -> str:
    if "\x00" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ValueError("must not contain NUL or lone surrogate characters")
    return text


SafeStr = Annotated[str, AfterValidator(_clean)]

Moment = Annotated[AwareDatetime, AfterValidator(as_utc)]
"""A time with its zone, as UTC: not at the ends of the calendar, where nothing can be added to it."""

_JOINERS = frozenset("\u200c\u200d")
"""Invisible, but part of how some scripts and emoji are written."""


def one_line(text: str) -> str:
    kinds = {unicodedata.category(c) for c in text if c not in _JOINERS}
    # Line breaks, control and direction characters would let a name pass for something else.
    if kinds & {"Cc", "Cf", "Co", "Zl", "Zp"} or kinds <= {"Zs"}:
        raise ValueError("must be one line of visible characters")
    return text


Name = Annotated[SafeStr, Field(**NAME.given()), AfterValidator(one_line)]
"""What people call a thing: one line, in any language."""
Identifier = Annotated[SafeStr, Field(**IDENTIFIER.given())]
"""A name that is also written in documents and addresses."""

WireFloat = Annotated[
    float,
    PlainSerializer(lambda v: v if math.isfinite(v) else encode_number(v)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]},
            ]
        }
    ),
]
"""A float that may be NaN or infinite, in answers."""


class Input(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class Output(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def from_row(cls, row: object, **given: Any) -> Self:
        """Build one from the attributes of `row` that bear the names of its fields.

        given: fields that `row` does not have, or that are something else here.
        """
        names = [name for name in cls.model_fields if name not in given]
        return cls(**given, **{name: getattr(row, name) for name in names})


T = TypeVar("T")


class Page(Output, Generic[T]):
    """`next` is the cursor of the following page; null means this was the last one."""

    items: list[T]
    next: str | None


class PartOut(Output):
    """A part of a message as code and parameters, to translate its English text."""

    code: str
    """Stable code, such as "pending.held"."""
    params: dict[str, int | float | str]
    """Parameters of the part, such as slots, nodes or an experiment."""


def parts_out(text: AnyMessage | str | None) -> list[PartOut]:
    """Return the parts of a message; [] for plain text or nothing."""
    return [] if text is None else [PartOut(**part) for part in parts(text)]


class FieldError(Output):
    path: str
    """Dotted path into the request ("resources.slots")."""
    message: str
    hint: str | None = None
    """Suggested correction if known, such as "did you mean 'slots'?"."""
    parts: list[PartOut] = []
    """The message as parts, for translation; [] for text that cannot be translated."""


def field_error(problem: FieldProblem) -> FieldError:
    return FieldError(
        path=problem.path,
        message=english(problem.message),
        hint=problem.hint,
        parts=parts_out(problem.message),
    )


class ProblemBody(Output):
    code: str
    """Stable code, such as "experiments.not_found"."""
    message: str
    hint: str | None = None
    fields: list[FieldError] = []
    request_id: str | None = None


class Problem(Output):
    """Every error of the API."""

    error: ProblemBody
