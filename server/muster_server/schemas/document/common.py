"""What all parts of the document are made of."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from muster_server.schemas.base import SafeStr

MAX_SLOTS = 4096
MAX_NAMED_NODES = 256
MAX_NODE_LABELS = 32

Text = Annotated[SafeStr, Field(min_length=1, max_length=4096)]
LabelKey = Annotated[SafeStr, Field(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
LabelValue = Annotated[SafeStr, Field(max_length=256)]
NodeName = Annotated[SafeStr, Field(min_length=1, max_length=128)]
_OWN_FUNCTION = re.compile(r"(?=.{1,256}\Z)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def _or_own(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    is_own = isinstance(value, str) and _OWN_FUNCTION.fullmatch(value)
    return value if is_own else known(value)


OrOwn = WrapValidator(_or_own)
"""Beside what the annotation allows, `module:function` of the user's own."""
Positive = Annotated[int, Field(ge=1, le=2**53)]
Id = Annotated[int, Field(ge=1, lt=2**31)]


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


class Length(Section):
    """A training length: steps or epochs, one of the two."""

    steps: Positive | None = None
    """Optimizer steps."""
    epochs: Positive | None = None
    """Passes over the training data."""
