"""What every REST model shares.

Input is strict: unknown fields are refused, nothing is coerced, strings hold no NUL or lone
surrogate, numbers are finite. Output floats that are not finite travel as "NaN", "Infinity",
"-Infinity" (muster.wire); lists come in pages.
"""

from __future__ import annotations

import math
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from muster.wire import encode_number


def _clean(text: str) -> str:
    if "\x00" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ValueError("must not contain NUL or lone surrogate characters")
    return text


SafeStr = Annotated[str, AfterValidator(_clean)]

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


T = TypeVar("T")


class Page(Output, Generic[T]):
    """`next` is the cursor of the following page; null means this was the last one."""

    items: list[T]
    next: str | None


class FieldError(Output):
    path: str
    """Dotted path into the request ("resources.slots")."""
    message: str
    hint: str | None = None
    """What would work, when known ("did you mean 'slots'?")."""


class ProblemBody(Output):
    code: str
    """Stable: "experiments.not_found"."""
    message: str
    hint: str | None = None
    fields: list[FieldError] = []
    request_id: str | None = None


class Problem(Output):
    """Every error of the API."""

    error: ProblemBody
