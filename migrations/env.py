"""Alembic's entry point. muster_server.db.migrations passes the connection to use."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection

from muster_server.db.models import Base, UtcDateTime
from muster_server.db.models.base import BigId


def render_item(type_: str, obj: Any, autogen_context: Any) -> str | Literal[False]:
    """Write our column types by the names that script.py.mako defines in every revision."""
    if type_ != "type":
        return False
    if isinstance(obj, UtcDateTime):
        return "Timestamp"
    variants = obj._variant_mapping
    if variants == BigId._variant_mapping:
        return "BigId"
    return "Json" if "postgresql" in variants else False


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_item=render_item,
        render_as_batch=True,  # SQLite alters a table by copying it
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
