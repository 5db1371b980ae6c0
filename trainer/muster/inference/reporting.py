"""What a job reports about a version of a model that it reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import muster
from muster import wire
from muster.document.inference import JOB_MODEL


def result(values: Mapping[str, Any], *, name: str = JOB_MODEL) -> None:
    """Report what came of a version of a model, as it is shown with the experiment and the version.
    Call it on one rank; a later call replaces an earlier result.

    values: JSON of at most MODEL_RESULT_BYTES; numbers may be NaN or infinite. name: of the version
        among the `models` of the document. Raises ValueError for values that are too large.
    """
    plain = _plain(values)
    size_bytes = len(json.dumps(plain, ensure_ascii=False).encode())
    if size_bytes > wire.MODEL_RESULT_BYTES:
        raise ValueError(
            f"the result has {size_bytes:,} bytes, and {wire.MODEL_RESULT_BYTES:,} are kept"
        )
    muster.init().reporter.record(wire.ModelResultRecord(name=name, result=plain))


def _plain(value: Any) -> Any:
    """Return JSON with wire numbers in place of those that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return wire.encode_number(value)
    return value
