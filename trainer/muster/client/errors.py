"""Errors of calls to the REST service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

    from .target import Target


class ClientError(Exception):
    def __init__(
        self,
        message: str,
        *,
        code: str = "client.error",
        hint: str | None = None,
        fields: Sequence[Mapping[str, Any]] = (),
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.fields = tuple(fields)
        self.status = status

    def __str__(self) -> str:
        fields = "".join(f"\n  {f.get('path')}: {f.get('message')}" for f in self.fields)
        return f"{self.message}{fields}"


class NotConfigured(ClientError):
    pass


class Unreachable(ClientError):
    pass


class Refused(ClientError):
    pass


def refused_by(reply: httpx.Response, target: Target) -> Refused:
    """Return the error from the body that every route sends, those of MLflow's API in a shape of their
    own; from the status alone if a proxy answered."""
    try:
        body = reply.json()
        if "error_code" in body:
            body = {"error": {"code": body["error_code"], "message": body["message"]}}
        error = body["error"]
        message, code = str(error["message"]), str(error["code"])
        hint, fields = error.get("hint"), error.get("fields") or []
    except (ValueError, KeyError, TypeError):
        message, code = f"The server answered {reply.status_code}.", f"http.{reply.status_code}"
        hint, fields = None, []
    if reply.status_code == 401 and not hint:
        hint = (
            f"the token from {target.source} is not valid (any more)"
            if target.token
            else "set MUSTER_TOKEN, or run `muster login`"
        )
    return Refused(message, code=code, hint=hint, fields=fields, status=reply.status_code)
