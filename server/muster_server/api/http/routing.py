"""Routes that take a session of the database as a parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter
from sqlalchemy.orm import Session

from .deps import Db

Read = Annotated[Session, "read"]
"""A session that only reads."""
Snapshot = Annotated[Session, "snapshot"]
"""One that sees one state of the database in all its statements."""
Write = Annotated[Session, "transaction"]
"""A transaction: it is committed when the route returns, and rolled back if the route raises."""


class Router(APIRouter):
    """A router whose routes may have a parameter that is `Read`, `Snapshot` or `Write`.

    The session is opened in the thread that runs the route. A dependency that opened it would take two more
    hops to the thread pool, and end it only after the answer.
    """

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().add_api_route(path, _with_session(endpoint), **options)


def _with_session(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(endpoint, eval_str=True)
    parameters = dict(signature.parameters)
    name = next((n for n, p in parameters.items() if p.annotation in (Read, Snapshot, Write)), None)
    if name is None:
        return endpoint
    (kind,) = parameters[name].annotation.__metadata__
    parameters[name] = parameters[name].replace(annotation=Db)

    @functools.wraps(endpoint)
    def serve(**given: Any) -> Any:
        with getattr(given.pop(name), kind)() as session:
            return endpoint(**given, **{name: session})

    described: Any = serve
    described.__signature__ = signature.replace(parameters=list(parameters.values()))
    return serve
