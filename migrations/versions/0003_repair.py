"""Repair databases that call themselves 0002 and have the tables of an earlier state of it.

Before it was frozen, 0002 was extended in place, and a database made in between never got what came
later. Everything that 0001 and 0002 make, as they are now, and that a database lacks is made here.
Rows are kept; a database that lacks nothing is left as it is.

The earlier states of 0002 differ from the frozen one by missing tables, columns and indexes, and by
what OBSOLETE_TABLES and OBSOLETE_COLUMNS name. None of them has a column with another type, default
or nullability, or a table without one of its constraints.
"""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FROZEN = ("0001_initial.py", "0002_control_plane.py")
OBSOLETE_TABLES = ("node_pairs",)
OBSOLETE_COLUMNS = (("allocations", "preflight"), ("attempts", "preflight"))
"""Results of preflights as the first states of 0002 kept them. Nothing reads them any more."""


def upgrade() -> None:
    connection = op.get_bind()
    present = set(sa.inspect(connection).get_table_names())
    for name in OBSOLETE_TABLES:
        if name in present:
            op.drop_table(name)
    for table in _tables_of(*FROZEN, connection=connection).sorted_tables:
        if table.name in present:
            _repair(connection, table)
        else:
            table.create(connection)
    identity = sa.table("cluster_identity", sa.column("id", sa.String()))
    if connection.scalar(sa.select(identity.c.id)) is None:
        op.bulk_insert(identity, [{"id": secrets.token_hex(8)}])


def downgrade() -> None:
    """Undo nothing: what was made here belongs to 0002."""


def _repair(connection: sa.Connection, table: sa.Table) -> None:
    inspector = sa.inspect(connection)
    columns = {column["name"] for column in inspector.get_columns(table.name)}
    indexes = {index["name"] for index in inspector.get_indexes(table.name)}
    added = [column for column in table.columns if column.name not in columns]
    for column in added:
        op.add_column(table.name, column)
    for index in table.indexes:
        if index.name not in indexes:
            index.create(connection)
    for name, obsolete in OBSOLETE_COLUMNS:
        if name == table.name and obsolete in columns:
            op.drop_column(name, obsolete)
    _fill(table, {column.name for column in added})


def _fill(table: sa.Table, added: set[str]) -> None:
    """Give the rows what 0002 derives from their other columns; the rest has its default."""
    if table.name == "nodes" and "quarantine_reason" in added:
        is_quarantined = table.c.health == "quarantined"
        op.execute(
            table.update().where(is_quarantined).values(quarantine_reason=table.c.health_reason)
        )
    if table.name == "trials" and "queue_no" in added:
        seconds: sa.ColumnElement[float] = sa.extract("epoch", table.c.queued_at)
        if op.get_bind().dialect.name == "sqlite":
            seconds = (sa.func.julianday(table.c.queued_at) - 2_440_587.5) * 86_400.0
        op.execute(table.update().values(queue_no=seconds, waiting_since=table.c.queued_at))


# ---------------------------------------------------------------- what the database should have


def _tables_of(*files: str, connection: sa.Connection) -> sa.MetaData:
    """The tables that these revisions make together, one after the other, in an empty database."""
    made = _Tables(connection)
    for file in files:
        # A copy of the module of its own, in which `op` is what notes the tables.
        path = Path(__file__).with_name(file)
        spec = importlib.util.spec_from_file_location(f"_frozen_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.op = made
        module.upgrade()
    return made.metadata


class _Tables:
    """Alembic's operations as far as FROZEN uses them, applied to a MetaData."""

    def __init__(self, connection: sa.Connection) -> None:
        self.metadata = sa.MetaData()
        self._connection = connection

    def create_table(self, name: str, *parts: Any) -> sa.Table:
        return sa.Table(name, self.metadata, *parts)

    def add_column(self, table: str, column: sa.Column[Any]) -> None:
        self.metadata.tables[table].append_column(column)

    def create_index(
        self, name: str, table: str, columns: list[str], *, unique: bool = False, **options: Any
    ) -> None:
        on = self.metadata.tables[table].columns
        sa.Index(name, *(on[column] for column in columns), unique=unique, **options)

    def get_bind(self) -> sa.Connection:
        return self._connection

    def f(self, name: str) -> str:
        return name

    def execute(self, *_: Any) -> None:
        """Change no rows: there are none."""

    def bulk_insert(self, *_: Any) -> None:
        """Insert no rows: only the tables are asked for."""
