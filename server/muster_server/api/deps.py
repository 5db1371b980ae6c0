"""What routes ask for: `Db`, `Me`, `Agent`, `Config`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from muster_server.db.engine import Database
from muster_server.security.principal import Principal
from muster_server.settings import Settings


def get_database(connection: HTTPConnection) -> Database:
    database: Database = connection.app.state.database
    return database


def get_app_settings(connection: HTTPConnection) -> Settings:
    settings: Settings = connection.app.state.settings
    return settings


def get_principal(connection: HTTPConnection) -> Principal:
    """The authenticated caller, put there by the authorization that guards every route."""
    principal: Principal = connection.state.principal
    return principal


Db = Annotated[Database, Depends(get_database)]
Config = Annotated[Settings, Depends(get_app_settings)]
Me = Annotated[Principal, Depends(get_principal)]
"""A user (session or API token)."""
Agent = Annotated[Principal, Depends(get_principal)]
"""An agent, on the routes of /agent/v1."""
