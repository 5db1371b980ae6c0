"""Dependencies of routes: `Db`, `Me`, `Agent`, `Config`, and the parameters that lists share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query
from starlette.requests import HTTPConnection

from muster.mcp import PRODUCT
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.security.principal import Principal
from muster_server.services.core.callers import Caller
from muster_server.services.core.paging import MAX_CURSOR_CHARS, MAX_LIMIT
from muster_server.services.scheduling.placement_preview import Foresight
from muster_server.settings import Settings

# These are coroutines although they wait for nothing: a plain function would cost a hop to the
# thread pool for every parameter of every request.


async def get_database(connection: HTTPConnection) -> Database:
    database: Database = connection.app.state.database
    return database


async def get_app_settings(connection: HTTPConnection) -> Settings:
    settings: Settings = connection.app.state.settings
    return settings


async def get_foresight(connection: HTTPConnection) -> Foresight:
    foresight: Foresight = connection.app.state.foresight
    return foresight


async def get_principal(connection: HTTPConnection) -> Principal:
    """Return the authenticated caller, set by the authorization that guards every route."""
    principal: Principal = connection.state.principal
    return principal


async def get_remote_addr(connection: HTTPConnection) -> str:
    """Return the address of the client. Behind a proxy configured as trusted, that is the one the
    proxy reports."""
    return connection.client.host if connection.client is not None else ""


async def get_caller(connection: HTTPConnection) -> Caller:
    """Return who requests an operation, from where and when."""
    return Caller(
        principal=await get_principal(connection),
        now=clock.now(),
        remote_addr=await get_remote_addr(connection),
        via="mcp" if connection.headers.get("user-agent", "").startswith(f"{PRODUCT}/") else "",
    )


Db = Annotated[Database, Depends(get_database)]
Config = Annotated[Settings, Depends(get_app_settings)]
Foresee = Annotated[Foresight, Depends(get_foresight)]
"""Decisions that the scheduler would make now."""
Me = Annotated[Principal, Depends(get_principal)]
"""A user (session or API token)."""
Agent = Annotated[Principal, Depends(get_principal)]
"""An agent, on the routes of /agent/v1."""
RemoteAddr = Annotated[str, Depends(get_remote_addr)]
By = Annotated[Caller, Depends(get_caller)]
"""Identity of the caller, as an operation needs it."""

Id = Annotated[int, Path(ge=1, lt=2**31)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=128,
        pattern=r"^[\x21-\x7e]+$",
        description="A repetition with the same key and body changes nothing and is answered alike.",
    ),
]
Cursor = Annotated[
    str | None,
    Query(
        max_length=MAX_CURSOR_CHARS,
        description="`next` of the page before; leave out for the first.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Entries per page.")]
