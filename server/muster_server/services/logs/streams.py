"""The log streams of trials: which there are, and to which more may come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeVarTuple

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    LogChunkRow,
    LogStreamRow,
    TrialRow,
)
from muster_server.domain.logs.lines import BadPattern, Level, LineTest
from muster_server.domain.states import TERMINAL_TRIAL, AllocationState
from muster_server.errors import InvalidRequest, NotFound

Ts = TypeVarTuple("Ts")

MAX_STREAMS = 500
"""Streams that one request reads; of an experiment with more, those that were written to last."""


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """Which lines are wanted. Streams first (ranks, nodes, stream, attempt), then a time range, then
    what each line says (see domain.logs.lines)."""

    ranks: frozenset[int] | None = None
    """Wanted ranks, where -1 is the launcher; None for all."""
    nodes: frozenset[str] | None = None
    stream: Literal["stdout", "stderr"] | None = None
    attempt_no: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    """Lines received from `since` on and before `until`."""
    levels: frozenset[Level] = frozenset()
    """Empty: every line, also those without a level."""
    text: str = ""
    """Text that a line must contain, compared with the line as shown, without colors."""
    is_regex: bool = False
    match_case: bool = False

    def test(self) -> LineTest:
        """Raises InvalidRequest for a pattern that RE2 does not accept."""
        try:
            return LineTest(
                self.text, is_regex=self.is_regex, match_case=self.match_case, levels=self.levels
            )
        except BadPattern as error:
            raise InvalidRequest(
                "logs.bad_pattern",
                f"The pattern cannot be read: {error}.",
                hint="Patterns are RE2's, without back-references and look-around; write \\( for a "
                "parenthesis, or search for the text without `regex`.",
            ) from None


def trials_of(session: Session, experiment: ExperimentRow, nos: Set[int]) -> Select[int]:
    """Return the ids of the trials of an experiment with these numbers; of all, without numbers.
    Raises NotFound for a trial that it has not."""
    ids = select(TrialRow.id).where(TrialRow.experiment_id == experiment.id)
    if not nos:
        return ids
    ids = ids.where(TrialRow.no.in_(sorted(nos)))
    missing = sorted(nos - set(session.scalars(ids.with_only_columns(TrialRow.no))))
    if missing:
        raise NotFound(
            "trials.not_found",
            f"Experiment {experiment.id} has no trial {missing[0]}.",
            hint="Trials are chosen by their numbers within the experiment, from 1.",
        )
    return ids


@dataclass(frozen=True)
class Chosen:
    """The streams that one request reads."""

    streams: list[LogStreamRow]
    """Streams ordered by trial, attempt and rank, stdout before stderr."""
    since: dt.datetime | None = None
    """Time from which no lines of other streams are missing; None if no stream was left out."""
    num_left: int = 0


def find_streams(
    session: Session, of: ColumnElement[bool], wanted: LogFilter
) -> list[LogStreamRow]:
    """Return every stream of some trials that a filter wants. of: a condition on LogStreamRow."""
    return _sorted(session.scalars(_wanted(select(LogStreamRow), of, wanted)))


def choose_streams(session: Session, of: ColumnElement[bool], wanted: LogFilter) -> Chosen:
    """Return the streams that a filter matches, like `find_streams`, but at most MAX_STREAMS: those
    written to last within the wanted time.

    There are more only if they were all written to last in the same microsecond.
    """
    total = session.scalar(_wanted(select(func.count()), of, wanted).select_from(LogStreamRow)) or 0
    if total <= MAX_STREAMS:
        return Chosen(find_streams(session, of, wanted))
    table = LogChunkRow
    last_at = select(func.max(table.received_at)).where(table.stream_id == LogStreamRow.id)
    if wanted.since is not None:
        last_at = last_at.where(table.received_at >= wanted.since)
    if wanted.until is not None:
        last_at = last_at.where(table.received_at < wanted.until)
    rows = _wanted(
        select(LogStreamRow.id, last_at.scalar_subquery().label("last_at")), of, wanted
    ).subquery()
    written = rows.c.last_at.is_not(None)
    newest_first = select(rows.c.last_at).where(written).order_by(rows.c.last_at.desc())
    horizon = session.scalar(newest_first.offset(MAX_STREAMS).limit(1))
    if horizon is not None and session.scalar(newest_first.limit(1)) == horizon:
        # So that asking again for what is older always comes further.
        horizon = session.scalar(newest_first.where(rows.c.last_at < horizon).limit(1))
    chosen = select(rows.c.id).where(written)
    if horizon is not None:
        chosen = chosen.where(rows.c.last_at > horizon)
    found = session.scalars(select(LogStreamRow).where(LogStreamRow.id.in_(chosen)))
    if horizon is None:
        return Chosen(_sorted(found))
    left = select(func.count()).select_from(rows).where(written, rows.c.last_at <= horizon)
    return Chosen(_sorted(found), horizon + dt.timedelta(microseconds=1), session.scalar(left) or 0)


def _wanted(query: Select[*Ts], of: ColumnElement[bool], wanted: LogFilter) -> Select[*Ts]:
    query = query.where(of)
    if wanted.ranks is not None:
        query = query.where(LogStreamRow.rank.in_(sorted(wanted.ranks)))
    if wanted.nodes is not None:
        query = query.where(LogStreamRow.node_name.in_(sorted(wanted.nodes)))
    if wanted.stream is not None:
        query = query.where(LogStreamRow.stream == wanted.stream)
    if wanted.attempt_no is not None:
        query = query.where(LogStreamRow.attempt_no == wanted.attempt_no)
    return query


def _sorted(streams: Iterable[LogStreamRow]) -> list[LogStreamRow]:
    return sorted(
        streams,
        key=lambda s: (
            s.trial_id,
            s.attempt_no,
            s.rank,
            s.stream != "stdout",
            s.node_name,
            s.id,
        ),
    )


def complete_streams(
    session: Session, trial: TrialRow, streams: Sequence[LogStreamRow]
) -> set[int]:
    """Streams to which nothing more can come: their tail arrived, or is given up with its node."""
    if trial.state in TERMINAL_TRIAL and trial.logs_complete:
        return {s.id for s in streams}
    complete = {s.id for s in streams if s.is_complete}
    rest = [s for s in streams if not s.is_complete]
    if rest and trial.state in TERMINAL_TRIAL:
        given_up = set(
            session.scalars(
                select(AllocationRow.id).where(
                    AllocationRow.trial_id == trial.id,
                    AllocationRow.observed.in_([AllocationState.LOST, AllocationState.CLEANED]),
                )
            )
        )
        complete |= {s.id for s in rest if s.allocation_id in given_up}
    return complete


def truncated(
    session: Session, streams: Sequence[LogStreamRow], trial_nos: Mapping[int, int] | None = None
) -> list[str]:
    """Streams that have reached the limit at which the agent cuts them: "rank 0 stdout", with
    trial_nos (trial → its number) "trial 3 rank 0 stdout"."""
    if not streams:
        return []
    limits: dict[str, int] = {}
    ids = sorted({s.allocation_id for s in streams if s.size_bytes})
    for id_, spec in session.execute(
        select(AllocationRow.id, AllocationRow.spec).where(AllocationRow.id.in_(ids))
    ):
        limits[id_] = spec.get("log_limit_bytes") or 0
    return [
        f"{'' if trial_nos is None else f'trial {trial_nos[s.trial_id]} '}"
        f"{'launcher' if s.rank < 0 else f'rank {s.rank}'} {s.stream}"
        for s in streams
        if 0 < limits.get(s.allocation_id, 0) <= s.size_bytes
    ]
