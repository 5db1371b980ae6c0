"""Rejection of unknown query parameters: a mistyped filter would match everything."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence

from fastapi import Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem, InvalidRequest
from muster_server.schemas.validation_messages import unknown_name

from .guard import confirm_operation, operation_id

SHOWN_MAX = 64
"""Characters of the caller's own text that are repeated."""


async def refuse_unknown_parameters(connection: HTTPConnection) -> None:
    """Raise InvalidRequest for a parameter that does not exist, or is repeated where one is used, and
    for a value that no text in a database can hold."""
    route = connection.scope["route"]
    _refuse_unstorable(connection)
    if not connection.scope.get("query_string") or not isinstance(route, APIRoute):
        return
    if connection.scope["path"].startswith(OTHERS):
        return
    known = connection.app.state.parameters[operation_id(route)]
    problems = []
    for name in connection.query_params:
        if name not in known:
            hint = unknown_name(name, sorted(known)) or "none are known here"
            problems.append(FieldProblem(_shown(name), Message("field.unknown"), hint))
        elif not known[name] and len(connection.query_params.getlist(name)) > 1:
            problems.append(FieldProblem(name, Message("field.twice")))
    if problems:
        raise InvalidRequest(
            "request.invalid", "Some of what was sent cannot work.", fields=problems[:20]
        )


OTHERS = ("/agent/", "/mlflow/", "/api/scim/", "/api/v1/auth/oidc/callback")
"""Paths whose callers may say more: agents of the next version, clients of MLflow and SCIM, and OpenID providers."""
GUARDS = [Depends(confirm_operation), Depends(refuse_unknown_parameters)]
"""Dependencies of every route."""


def _refuse_unstorable(connection: HTTPConnection) -> None:
    values = (*connection.path_params.items(), *connection.query_params.multi_items())
    problems = [
        FieldProblem(_shown(name), Message("field.nul"))
        for name, value in values
        if isinstance(value, str) and "\x00" in name + value
    ]
    if problems:
        raise InvalidRequest(
            "request.invalid", "Some of what was sent cannot work.", fields=problems[:20]
        )


def parameters_of(routes: Sequence[BaseRoute]) -> dict[str, dict[str, bool]]:
    """Return, by operation id and parameter name, whether a parameter may be given more than once."""
    found = (context.original_route for context in iter_route_contexts(routes))
    return {
        str(operation_id(route)): dict(_parameters(route.dependant))
        for route in found
        if isinstance(route, APIRoute)
    }


def _parameters(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    for field in dependant.query_params:
        yield field.alias, _is_list(field.field_info.annotation)
    for inner in dependant.dependencies:
        yield from _parameters(inner)


def _is_list(annotation: object) -> bool:
    if typing.get_origin(annotation) is list:
        return True
    return any(_is_list(part) for part in typing.get_args(annotation))


def _shown(name: str) -> str:
    short = name[:SHOWN_MAX]
    return short if short.isprintable() else short.encode("unicode_escape").decode()
