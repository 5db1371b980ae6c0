"""Error responses, all in one shape: schemas.base.Problem."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from muster.tracking import TrackingError
from muster_server.db.failures import is_disk_full, is_unavailable, is_undefined
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem, MusterError
from muster_server.schemas.base import FieldError, Problem, ProblemBody, field_error
from muster_server.schemas.validation_messages import place, sentence

log = structlog.get_logger(__name__)

DATABASE_RETRY_AFTER_S = 2
_AWAY = (
    "server.database_unavailable",
    "The database does not answer at the moment.",
    "Try again shortly.",
)
_FULL = (
    "server.disk_full",
    "The disk of the server's database is full.",
    "Nothing was changed. Free some space there, and try again: what runs goes on meanwhile, and nodes "
    "keep what they have to report.",
)

_HTTP_CODES = {
    400: "request.malformed",
    401: "auth.not_signed_in",
    403: "auth.forbidden",
    404: "request.no_such_path",
    405: "request.method_not_allowed",
    408: "request.timeout",
    413: "request.too_large",
    414: "request.address_too_long",
    415: "request.unsupported_media_type",
    431: "request.headers_too_large",
}
_HTTP_MESSAGES = {
    400: "The request could not be parsed.",
    404: "There is nothing at this address.",
    405: "This address does not answer to that method.",
}
_HTTP_PARSER_MESSAGES = {
    **_HTTP_MESSAGES,
    408: "The headers did not arrive in time.",
    431: "The headers are too large.",
}

_DESCRIPTIONS: dict[int | str, str] = {
    401: "Not signed in",
    403: "Signed in, but not allowed",
    422: "The request cannot work as sent",
    429: "Too many requests; see Retry-After",
    503: "The database does not answer; see Retry-After",
    "default": "Whatever else may be wrong; the code says what",
}
_PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _PROBLEM} for status, text in _DESCRIPTIONS.items()
}
"""Error responses of any route, for its description. Given as a model, each of them would be worked
out again for each route, in every server process that starts."""


def problem(
    status: int,
    code: str,
    message: str,
    *,
    hint: str | None = None,
    fields: Sequence[FieldError] = (),
    request_id: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = Problem(
        error=ProblemBody(
            code=code, message=message, hint=hint, fields=list(fields), request_id=request_id
        )
    )
    return Response(
        body.model_dump_json(),
        status_code=status,
        media_type="application/json",
        headers=dict(headers or {}),
    )


def render(exc: Exception, *, request_id: str | None) -> Response:
    """Return the response to an exception. An unexpected one becomes a 500 that reveals only its
    id."""
    match exc:
        case MusterError():
            return _muster_error(exc, request_id)
        case RequestValidationError():
            return _validation_error(exc, request_id)
        case HTTPException():
            return _http_exception(exc, request_id)
        case DataError() | OverflowError():
            # A number or text the database cannot hold. The schemas should have said so first.
            log.warning("unstorable_value", error=type(exc).__name__)
            return problem(
                422,
                "request.out_of_range",
                "A value is outside of what can be stored.",
                request_id=request_id,
            )
        case _ if is_undefined(exc):
            log.error("schema_mismatch", error=str(exc.__cause__ or exc).splitlines()[:1])
            return problem(
                500,
                "database.schema_mismatch",
                "The database does not have the tables that this version of Muster needs.",
                hint="Trying again does not help. An administrator finds out with "
                "'muster-server check' what to do.",
                request_id=request_id,
            )
        case _ if is_unavailable(exc):
            # The full text may hold the database's address; the log is the place for it.
            log.warning("database_unavailable", error=str(exc.__cause__ or exc).splitlines()[:1])
            code, message, hint = _FULL if is_disk_full(exc) else _AWAY
            return problem(
                503,
                code,
                message,
                hint=hint,
                request_id=request_id,
                headers={"Retry-After": str(DATABASE_RETRY_AFTER_S)},
            )
        case _:
            log.error("request_failed", exc_info=exc)
            return problem(
                500,
                "server.internal_error",
                "Something went wrong on the server.",
                hint="The server's log has the details under this request id.",
                request_id=request_id,
            )


def response_to(exc: Exception, scope: Scope) -> Response:
    """Return the response to an exception in the shape that callers of this address read."""
    if isinstance(exc, TrackingError):
        return tracking_refusal(exc.status, exc.code, str(exc))
    response = render(exc, request_id=scope.get("muster.request_id"))
    if scope["path"].startswith(SCIM):
        return _as_scim_error(response)
    return as_tracking_error(response) if scope["path"].startswith(TRACKING) else response


def install(app: FastAPI) -> None:
    """Use `render` for everything a route raises."""

    async def handle(request: Request, exc: Exception) -> Response:
        return response_to(exc, request.scope)

    for kind in (
        MusterError,
        TrackingError,
        RequestValidationError,
        HTTPException,
        DataError,
        OperationalError,
        InterfaceError,
        PoolTimeoutError,
        ProgrammingError,
    ):
        app.add_exception_handler(kind, handle)


TRACKING = "/mlflow/"
"""Addresses of MLflow's API, whose clients read `error_code` and `message`."""
_TRACKING_CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    405: "ENDPOINT_NOT_FOUND",
    409: "INVALID_STATE",
    413: "REQUEST_LIMIT_EXCEEDED",
    429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}


def as_tracking_error(response: Response) -> Response:
    """Return a response that holds a Problem in the shape that MLflow's clients read."""
    status, _, message, headers = _told_elsewhere(response)
    code = _TRACKING_CODES.get(status, "INTERNAL_ERROR")
    return tracking_refusal(status, code, message, headers)


SCIM = "/api/scim/"
SCIM_MEDIA_TYPE = "application/scim+json"
_SCIM_TYPES = {
    "request.invalid_json": "invalidSyntax",
    "request.out_of_range": "invalidValue",
    "scim.invalid_value": "invalidValue",
    "scim.taken": "uniqueness",
    "users.name_taken": "uniqueness",
}


def _as_scim_error(response: Response) -> Response:
    """Return a response that holds a Problem in the shape of RFC 7644, 3.12."""
    status, error, message, headers = _told_elsewhere(response)
    body = {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": str(status),
        "detail": message,
    }
    if error.code in _SCIM_TYPES:
        body["scimType"] = _SCIM_TYPES[error.code]
    return Response(json.dumps(body), status, headers, media_type=SCIM_MEDIA_TYPE)


def _told_elsewhere(response: Response) -> tuple[int, ProblemBody, str, dict[str, str]]:
    """Return (status, problem, text, headers) of a response for clients of another API."""
    error = Problem.model_validate_json(bytes(response.body)).error
    status = 400 if response.status_code == 422 else response.status_code
    fields = "; ".join(f"{field.path} {field.message}" for field in error.fields)
    message = " ".join(part for part in (error.message, fields, error.hint) if part)
    kept = ("retry-after", "www-authenticate", "allow")
    headers = {name: value for name, value in response.headers.items() if name in kept}
    return status, error, message, headers


def tracking_refusal(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    body = json.dumps({"error_code": code, "message": message})
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def _muster_error(exc: MusterError, request_id: str | None) -> Response:
    headers: dict[str, str] = {}
    if exc.retry_after_s is not None:
        headers["Retry-After"] = str(exc.retry_after_s)
    if exc.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(
        exc.status,
        exc.code,
        exc.message,
        hint=exc.hint,
        fields=[field_error(f) for f in exc.fields],
        request_id=request_id,
        headers=headers,
    )


MAX_FIELDS = 20
"""Largest number of mistakes in a body that are reported."""


def _validation_error(exc: RequestValidationError, request_id: str | None) -> Response:
    # pydantic's own report carries `input`: a whole body, passwords included, would be echoed.
    errors = exc.errors()
    if any(error["type"] == "json_invalid" for error in errors):
        return problem(400, "request.invalid_json", "The body is not JSON.", request_id=request_id)
    fields = [_field_error(error) for error in errors[:MAX_FIELDS]]
    return problem(
        422,
        "request.invalid",
        "Some of what was sent cannot work.",
        fields=fields,
        request_id=request_id,
    )


def _field_error(error: Mapping[str, Any]) -> FieldError:
    path, kind = _path(place(error["loc"])), error["type"]
    if kind == "extra_forbidden":
        return field_error(FieldProblem(path, Message("field.unknown")))
    if kind == "model_attributes_type" and path == "body":
        return field_error(FieldProblem(path, Message("field.object")))
    message, hint = sentence(error)
    return field_error(FieldProblem(path, message, hint))


_ROOTS = {"body", "query", "path", "header", "cookie"}
_MAX_PATH = 200


def _path(loc: Sequence[int | str]) -> str:
    parts = [str(part) for part in loc]
    if len(parts) > 1 and parts[0] in _ROOTS:
        parts = parts[1:]
    # The name of an unknown field is the caller's own text: bounded, and printable.
    text = ".".join(part[:64] for part in parts)[:_MAX_PATH]
    return text.encode("unicode_escape").decode() if not text.isprintable() else text


def http_problem(status: int, *, request_id: str) -> Response:
    """Return the response to what never became a request: 400, 408 or 431."""
    return problem(
        status, _HTTP_CODES[status], _HTTP_PARSER_MESSAGES[status], request_id=request_id
    )


def _http_exception(exc: HTTPException, request_id: str | None) -> Response:
    status = exc.status_code
    message = _HTTP_MESSAGES.get(status) or str(exc.detail)
    return problem(
        status,
        _HTTP_CODES.get(status, f"request.status_{status}"),
        message,
        request_id=request_id,
        headers=exc.headers,
    )
