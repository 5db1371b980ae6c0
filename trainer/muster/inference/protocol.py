"""The Open Inference Protocol (version 2) of one model with one input: requests are checked before
anything of their size is made. Needs no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

INPUT = "input"
OUTPUT = "output"
ROWS_MAX = 1_024
"""Samples of one request."""
VALUES_MAX = 4_194_304
"""Numbers in the answer to one request."""
_DEPTH_MAX = 8
"""Levels of lists in `data`."""
_INPUT_TYPES = {"float32": ("FP32", "FP64"), "int64": ("INT64", "INT32")}


class RequestError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status."""
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a model takes and gives."""

    shape: tuple[int, ...] | None
    """Shape of one sample; of tokens, the largest number. None: not known, any shape."""
    dtype: str
    """float32, or int64 for tokens."""
    classes: int | None
    """Number of classes, or of different tokens; None: not known."""

    @property
    def takes_tokens(self) -> bool:
        return self.dtype == "int64"

    def input_shape(self) -> list[int]:
        """Return the shape of a request as metadata name it, with -1 for any size."""
        if self.shape is None or self.takes_tokens:
            return [-1, -1]
        return [-1, *self.shape]


@dataclass(frozen=True, kw_only=True)
class InferRequest:
    """A request that fits the signature."""

    id: str
    shape: tuple[int, ...]
    data: list[Any]
    """Its numbers, row by row."""


def read_infer(body: bytes, signature: Signature) -> InferRequest:
    """Read a request for an inference. Raises RequestError, with a message that names the field."""
    request = read_object(body)
    inputs = request.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise RequestError(400, f"inputs must be a list of one tensor, named {INPUT!r}")
    tensor = inputs[0]
    if tensor.get("name") != INPUT:
        raise RequestError(400, f"inputs[0].name must be {INPUT!r}")
    types = _INPUT_TYPES[signature.dtype]
    if tensor.get("datatype") not in types:
        raise RequestError(400, f"inputs[0].datatype must be {types[0]}")
    _check_outputs(request.get("outputs"))
    shape = _shape(tensor.get("shape"), signature)
    data = _flat(tensor.get("data"), math.prod(shape))
    if signature.takes_tokens:
        _check_tokens(data, signature.classes)
    elif not all(map(_is_finite, data)):
        raise RequestError(400, "inputs[0].data must be finite numbers")
    return InferRequest(id=str(request.get("id") or "")[:200], shape=shape, data=data)


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is. Raises RequestError."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON: {error}"[:300]) from error
    if not isinstance(found, dict):
        raise RequestError(400, "the body must be a JSON object")
    return found


def infer_reply(
    *, model: str, version: str, request_id: str, shape: Sequence[int], data: list[float]
) -> dict[str, Any]:
    """Return the answer to a request. Raises RequestError if a number is not finite, which JSON does not
    have."""
    if not all(map(math.isfinite, data)):
        raise RequestError(500, "the model answered with a number that is not finite")
    reply: dict[str, Any] = {
        "model_name": model,
        "model_version": version,
        "outputs": [{"name": OUTPUT, "datatype": "FP32", "shape": list(shape), "data": data}],
    }
    return {"id": request_id, **reply} if request_id else reply


def metadata(*, model: str, version: str, signature: Signature) -> dict[str, Any]:
    """Return what the protocol calls the metadata of a model."""
    out = [-1, -1] if signature.takes_tokens else [-1]
    return {
        "name": model,
        "versions": [version],
        "platform": "muster",
        "inputs": [
            {
                "name": INPUT,
                "datatype": _INPUT_TYPES[signature.dtype][0],
                "shape": signature.input_shape(),
            }
        ],
        "outputs": [
            {"name": OUTPUT, "datatype": "FP32", "shape": [*out, signature.classes or -1]},
        ],
    }


def _check_outputs(outputs: Any) -> None:
    if outputs is None:
        return
    is_known = isinstance(outputs, list) and all(
        isinstance(one, Mapping) and one.get("name") == OUTPUT for one in outputs
    )
    if not is_known:
        raise RequestError(400, f"outputs can name {OUTPUT!r} alone")


def _shape(given: Any, signature: Signature) -> tuple[int, ...]:
    is_shape = isinstance(given, list) and 1 <= len(given) <= _DEPTH_MAX
    if not is_shape or not all(type(n) is int and n >= 1 for n in given):
        raise RequestError(400, "inputs[0].shape must be a list of whole numbers of at least 1")
    shape = tuple(given)
    if shape[0] > ROWS_MAX:
        raise RequestError(
            400, f"inputs[0].shape[0] is {shape[0]}; at most {ROWS_MAX} are possible"
        )
    wanted = signature.shape
    if signature.takes_tokens:
        longest = wanted[0] if wanted else None
        if len(shape) != 2 or (longest is not None and shape[1] > longest):
            raise RequestError(
                400, f"inputs[0].shape must be [n, tokens], with at most {longest} tokens"
            )
        if shape[0] * shape[1] * (signature.classes or 1) > VALUES_MAX:
            raise RequestError(
                400, f"the answer would have more than {VALUES_MAX} numbers: send fewer rows"
            )
    elif wanted is not None and shape[1:] != wanted:
        expected = ", ".join(str(n) for n in wanted)
        raise RequestError(400, f"inputs[0].shape must be [n, {expected}], not {given}")
    return shape


def _flat(data: Any, size: int) -> list[Any]:
    """Return nested lists as a flat one of `size` entries. Raises RequestError."""
    if not isinstance(data, list):
        raise RequestError(400, "inputs[0].data must be a list of numbers")
    for _ in range(_DEPTH_MAX):
        if not data or not isinstance(data[0], list):
            break
        if not all(isinstance(row, list) for row in data):
            raise RequestError(400, "inputs[0].data mixes lists and numbers")
        data = [value for row in data for value in row]
    flat: list[Any] = data
    if len(flat) != size:
        raise RequestError(
            400, f"inputs[0].data has {len(flat)} numbers, and its shape has room for {size}"
        )
    return flat


def _is_finite(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    return kind is int and abs(value) < 2**127


def _check_tokens(data: Sequence[Any], classes: int | None) -> None:
    limit = classes or 2**31
    if not all(type(value) is int and 0 <= value < limit for value in data):
        raise RequestError(400, f"inputs[0].data must be whole numbers from 0 to {limit - 1}")
