"""Bounds on what a request may send: its head, the size of its body, and the time that takes.

Counted while it streams in; nothing is believed because Content-Length says so.
"""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server.errors import TooLarge
from muster_server.settings import Settings

HEADERS_MAX = 100
TARGET_MAX_BYTES = 8192
QUERY_PARAMETERS_MAX = 600
"""Number of query parameters: room for as many trials and names as curves can be requested at once.
"""
BLOB_TIMEOUT_FACTOR = 60
"""Factor by which an upload of a blob may take longer than a request, as long as it never pauses.
"""

BLOBS = "/api/v1/blobs/"
"""Paths to which archives are sent."""
MODEL_BLOBS = "/api/v1/model-blobs/"
"""Paths to which pieces of a model's files are sent."""
MODEL_PIECE_MAX_BYTES = 8 << 20
ARTIFACTS = "/mlflow/api/2.0/mlflow-artifacts/"
"""Paths to which clients of MLflow send files."""
_AGENTS = "/agent/"
_TRACKING = "/mlflow/"
TRACKING_BODY_MAX_BYTES = 8 << 20
"""Most bytes of a request of an MLflow client, as in a job; its batches have at most 1 MB of text."""


class RequestLimits:
    """Answers 413, 414, 431 and 408. The limit of a body depends on the path; see `_limits`."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        self._check_head(scope)
        if scope["type"] == "websocket":
            await self.app(scope, receive, send)
            return
        max_bytes, total_s, stall_s = self._limits(scope["path"])
        declared = Headers(scope=scope).get("content-length")
        if declared is not None and declared.isdigit() and int(declared) > max_bytes:
            raise _too_large(max_bytes)
        deadline = time.monotonic() + total_s
        num_bytes = 0
        is_complete = False

        async def counted() -> Message:
            nonlocal num_bytes, is_complete
            if is_complete:
                return await receive()  # waits for the client to leave: as long as it takes
            left = min(stall_s, deadline - time.monotonic())
            try:
                async with asyncio.timeout(max(0.0, left)):
                    message = await receive()
            except TimeoutError:
                # HTTPException, because frameworks turn other errors while reading into a 400.
                raise HTTPException(408, "The body did not arrive in time.") from None
            if message["type"] == "http.request":
                num_bytes += len(message.get("body", b""))
                is_complete = not message.get("more_body", False)
                if num_bytes > max_bytes:
                    raise HTTPException(413, _too_large(max_bytes).message)
            return message

        await self.app(scope, counted, send)

    def _limits(self, path: str) -> tuple[int, float, float]:
        """Return the most bytes, the most seconds in all, and the most seconds between two pieces."""
        timeout_s = self._settings.request_timeout_s
        if path.startswith(BLOBS):
            return self._settings.blob_max_bytes, timeout_s * BLOB_TIMEOUT_FACTOR, timeout_s
        if path.startswith(MODEL_BLOBS):
            return MODEL_PIECE_MAX_BYTES, timeout_s * BLOB_TIMEOUT_FACTOR, timeout_s
        if path.startswith(ARTIFACTS):
            size = self._settings.run_artifact_max_bytes
            return size, timeout_s * BLOB_TIMEOUT_FACTOR, timeout_s
        if path.startswith(_TRACKING):
            return TRACKING_BODY_MAX_BYTES, timeout_s, timeout_s
        if path.startswith(_AGENTS):
            return self._settings.agent_body_max_bytes, timeout_s, timeout_s
        return self._settings.body_max_bytes, timeout_s, timeout_s

    def _check_head(self, scope: Scope) -> None:
        headers = scope["headers"]
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        if len(headers) > HEADERS_MAX or size > self._settings.header_max_bytes:
            raise HTTPException(431, "The headers are too large.")
        names = {name for name, _ in headers}
        if b"transfer-encoding" in names and b"content-length" in names:
            # Allowed by the letter, but it is how one request is smuggled inside another.
            raise HTTPException(400)
        query = scope.get("query_string", b"")
        if len(scope.get("raw_path") or b"") + len(query) > TARGET_MAX_BYTES:
            raise HTTPException(414, "The address is too long.")
        if query.count(b"&") >= QUERY_PARAMETERS_MAX:
            raise HTTPException(414, "The address has too many parameters.")


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge("request.too_large", f"The body may have at most {max_bytes} bytes.")
