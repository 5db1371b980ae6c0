"""Reading and writing the rows of metric series; their points are in metrics_blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

from sqlalchemy import Insert, Table, case, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from muster_server.db.models import Base, MetricSeriesRow
from muster_server.domain.metrics import MEASURED_GROUPS

IN_LIST_MAX = 500
"""Keys in one IN list; SQLite's parser and PostgreSQL's planner stay fast below it."""

T = TypeVar("T")


def chunked(items: Iterable[T], size: int = IN_LIST_MAX) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def table_of(row: type[Base]) -> Table:
    return cast(Table, row.__table__)


def insert_or_ignore(session: Session, row: type[Base]) -> Insert:
    """INSERT that leaves an existing row of the same key alone; `rowcount` says whether it did.

    On the table, not the row class: the ORM's own bulk insert costs several times as much.
    """
    return _insert_or_ignore(session.get_bind().dialect.name, row)


@cache
def _insert_or_ignore(dialect: str, row: type[Base]) -> Insert:
    table = table_of(row)
    if dialect == "sqlite":
        statement: Insert = sqlite.insert(table).on_conflict_do_nothing()
    else:
        statement = postgresql.insert(table).on_conflict_do_nothing()
    return statement.execution_options(preserve_rowcount=True)


def begin_snapshot(session: Session) -> None:
    """Make the read session's statements see one state of the database.

    SQLite's do anyhow. On PostgreSQL a compaction could otherwise commit between reading the
    batches and the blocks, and points would be missing or doubled. Call it before anything else.
    """
    if session.get_bind().dialect.name != "sqlite" and not session.in_transaction():
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})


# ---------------------------------------------------------------- series


def merge_series(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert series, or merge these summaries into those stored. `rows` hold all columns but
    id and compacted_step; sorted by name, so that two writers cannot deadlock."""
    session.execute(_merge_series(session.get_bind().dialect.name), list(rows))


@cache
def _merge_series(dialect: str) -> Any:
    # Built once: putting it together takes longer than running it.
    table = table_of(MetricSeriesRow).c
    insert_into = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement: Any = insert_into(table_of(MetricSeriesRow))
    new = statement.excluded
    is_newer = or_(table.last_step.is_(None), new.last_step >= table.last_step)
    update = {
        "count": table.count + new.count,
        "num_non_finite": table.num_non_finite + new.num_non_finite,
        "first_step": case(
            (or_(table.first_step.is_(None), new.first_step < table.first_step), new.first_step),
            else_=table.first_step,
        ),
        "min_value": case(
            (or_(table.min_value.is_(None), new.min_value < table.min_value), new.min_value),
            else_=table.min_value,
        ),
        "max_value": case(
            (or_(table.max_value.is_(None), new.max_value > table.max_value), new.max_value),
            else_=table.max_value,
        ),
    }
    for column in ("last_step", "last_time_ms", "last_value", "last_text"):
        update[column] = case((is_newer, new[column]), else_=table[column])
    return statement.on_conflict_do_update(
        index_elements=["trial_id", "attempt_no", "rank", "name"], set_=update
    )


def lock_series(session: Session, series_ids: Sequence[int]) -> int:
    """Keep others from compacting these series until the end of the transaction; how many there are."""
    return sum(
        len(
            session.scalars(
                select(MetricSeriesRow.id)
                .where(MetricSeriesRow.id.in_(chunk))
                .order_by(MetricSeriesRow.id)
                .with_for_update()
            ).all()
        )
        for chunk in chunked(sorted(series_ids))
    )


def first_steps(
    session: Session, trial_id: int, attempt_no: int, rank: int
) -> dict[str, int | None]:
    """Return the first step of each series of a rank in an attempt, by name."""
    rows = session.execute(
        select(MetricSeriesRow.name, MetricSeriesRow.first_step).where(
            MetricSeriesRow.trial_id == trial_id,
            MetricSeriesRow.attempt_no == attempt_no,
            MetricSeriesRow.rank == rank,
        )
    )
    return dict(rows.all())


def first_logged_step(session: Session, trial_id: int, attempt_no: int) -> int | None:
    """Return the first step for which a script itself logged a value in this attempt; None without."""
    table = table_of(MetricSeriesRow).c
    of_script = (~table.name.startswith(group) for group in (*MEASURED_GROUPS, "memory/"))
    first: int | None = session.scalar(
        select(func.min(table.first_step)).where(
            table.trial_id == trial_id, table.attempt_no == attempt_no, *of_script
        )
    )
    return first


def num_series(session: Session, trial_id: int, attempt_no: int) -> int:
    return (
        session.scalar(
            select(func.count())
            .select_from(MetricSeriesRow)
            .where(MetricSeriesRow.trial_id == trial_id, MetricSeriesRow.attempt_no == attempt_no)
        )
        or 0
    )


def lowest_rank(session: Session, trial_id: int, attempt_no: int) -> int | None:
    """Return the lowest rank that has reported anything in this attempt."""
    return session.scalar(
        select(MetricSeriesRow.rank)
        .where(MetricSeriesRow.trial_id == trial_id, MetricSeriesRow.attempt_no == attempt_no)
        .order_by(MetricSeriesRow.rank)
        .limit(1)
    )


def names_of_lower_ranks(
    session: Session, trial_id: int, attempt_no: int, rank: int, names: Sequence[str]
) -> set[str]:
    """Return those of `names` that a rank below `rank` reports in this attempt."""
    lowest = lowest_rank(session, trial_id, attempt_no)
    if lowest is None or lowest >= rank:
        return set()
    # Nearly always the lowest rank reports all of them; only then look at the ranks in between.
    found = first_steps(session, trial_id, attempt_no, lowest).keys() & set(names)
    rest = [name for name in names if name not in found]
    if rest:
        for chunk in chunked(rest):
            found.update(
                session.scalars(
                    select(MetricSeriesRow.name)
                    .distinct()
                    .where(
                        MetricSeriesRow.trial_id == trial_id,
                        MetricSeriesRow.attempt_no == attempt_no,
                        MetricSeriesRow.rank < rank,
                        MetricSeriesRow.name.in_(chunk),
                    )
                )
            )
    return found


@dataclass(frozen=True)
class SeriesRecord:
    """A row of metric_series, read without the ORM: there may be 20,000 of a trial."""

    id: int
    trial_id: int
    attempt_no: int
    rank: int
    name: str
    count: int
    num_non_finite: int
    first_step: int
    last_step: int
    last_time_ms: int
    last_value: float | None
    last_text: str
    min_value: float | None
    max_value: float | None

    @property
    def last(self) -> float:
        return float(self.last_text) if self.last_value is None else self.last_value


def find_series(
    session: Session,
    trial_ids: Sequence[int],
    *,
    names: Sequence[str] | None = None,
    ranks: Sequence[int] | None = None,
    attempt_no: int | None = None,
    prefixes: Sequence[str] | None = None,
) -> list[SeriesRecord]:
    """Series with at least one point, ordered by trial, name, rank, attempt.

    prefixes: beginnings of names; None: all.
    """
    table = table_of(MetricSeriesRow)
    columns = [table.c[f] for f in SeriesRecord.__dataclass_fields__]
    found: list[SeriesRecord] = []
    for chunk in chunked(trial_ids):
        statement = select(*columns).where(table.c.trial_id.in_(chunk), table.c.count > 0)
        if names is not None:
            statement = statement.where(table.c.name.in_(names))
        if ranks is not None:
            statement = statement.where(table.c.rank.in_(ranks))
        if attempt_no is not None:
            statement = statement.where(table.c.attempt_no == attempt_no)
        if prefixes is not None:
            begins = (table.c.name.startswith(prefix, autoescape=True) for prefix in prefixes)
            statement = statement.where(or_(*begins))
        statement = statement.order_by(
            table.c.trial_id, table.c.name, table.c.rank, table.c.attempt_no
        )
        found.extend(SeriesRecord(*row) for row in session.execute(statement))
    return found
