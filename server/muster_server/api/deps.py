"""What routes ask for: `Db`, `Me`, `Agent`, `Config`, and the parameters lists share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query
from starlette.requests import HTTPConnection

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.security.principal import Principal
from muster_server.services.foresight import Foresight
from muster_server.services.operations import Caller
from muster_server.services.paging import MAX_CURSOR_CHARS, MAX_LIMIT
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
    """The authenticated caller, put there by the authorization that guards every route."""
    principal: Principal = connection.state.principal
    return principal


async def get_remote_addr(connection: HTTPConnection) -> str:
    """Where the request comes from. Behind a proxy: what it says, when it is configured as trusted."""
    return connection.client.host if connection.client is not None else ""


async def get_caller(connection: HTTPConnection) -> Caller:
    """Who asks for an operation, from where, when."""
    return Caller(
        principal=await get_principal(connection),
        now=clock.now(),
        remote_addr=await get_remote_addr(connection),
    )


Db = Annotated[Database, Depends(get_database)]
Config = Annotated[Settings, Depends(get_app_settings)]
Foresee = Annotated[Foresight, Depends(get_foresight)]
"""What the scheduler would decide now."""
Me = Annotated[Principal, Depends(get_principal)]
"""A user (session or API token)."""
Agent = Annotated[Principal, Depends(get_principal)]
"""An agent, on the routes of /agent/v1."""
RemoteAddr = Annotated[str, Depends(get_remote_addr)]
By = Annotated[Caller, Depends(get_caller)]
"""All that an operation needs to know of who asks for it."""

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
