"""Refuses JSON that two readers could understand differently, or that no database can store.

Python's parser takes NaN, duplicate keys (the last one wins), lone surrogates, and numbers of any
size. Each of these was a 500 or a silent change of meaning somewhere behind it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.errors import Malformed
from muster_server.middleware.limits import BLOBS, MODEL_BLOBS

DEPTH_MAX = 64
INTEGER_MAX = 2**63 - 1

_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Unstorable(ValueError):
    """The reason why a JSON text is rejected. Never quotes it."""


class StrictJson:
    """Reads JSON bodies of the people's API before the route does. What agents send is not people's:
    it has one writer, its own decoder, and comes too often to be parsed twice."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _applies(scope):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not _is_json(headers):
            if _has_body(headers):
                # `curl -d` sends a form unless told otherwise.
                raise HTTPException(
                    415, "Send JSON, with the header Content-Type: application/json."
                )
            await self.app(scope, receive, send)
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client has left
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        if body:
            try:
                check_json(bytes(body))
            except Unstorable as error:
                raise Malformed("request.invalid_json", str(error)) from None
        is_replayed = False

        async def replay() -> Message:
            nonlocal is_replayed
            if is_replayed:
                return await receive()
            is_replayed = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self.app(scope, replay, send)


def check_json(body: bytes) -> None:
    """Check that a body is plain, unambiguous JSON. Raises Unstorable otherwise."""
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except Unstorable:
        raise
    except UnicodeDecodeError:
        raise Unstorable("The body is not UTF-8.") from None
    except (ValueError, RecursionError):
        raise Unstorable("The body is not JSON.") from None
    check_texts(value)


def check_texts(value: Any, depth: int = 0) -> None:
    """Check that a JSON value is not nested too deeply and that its texts can be stored. Raises
    Unstorable otherwise."""
    if depth > DEPTH_MAX:
        raise Unstorable(f"The body is nested deeper than {DEPTH_MAX} levels.")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        for item in value:
            check_texts(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            check_texts(item, depth + 1)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise Unstorable("The body contains a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unstorable("The body contains half of a surrogate pair.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unstorable("A key appears twice in the same object.")
    return found


def _refuse_constant(_: str) -> float:
    raise Unstorable('NaN and Infinity are not JSON. Where they are allowed, send "NaN" as text.')


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unstorable("A number is too large.")
    return value


def _bounded(text: str) -> int:
    # The length first: turning thousands of digits into a number is work for nothing.
    if len(text) > 20 or abs(value := int(text)) > INTEGER_MAX:
        raise Unstorable("A whole number is too large.")
    return value


def _applies(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in _METHODS:
        return False
    path = scope["path"]
    return path.startswith("/api/") and not path.startswith((BLOBS, MODEL_BLOBS))


def _is_json(headers: Headers) -> bool:
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return content_type == "application/json" or content_type.endswith("+json")


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
