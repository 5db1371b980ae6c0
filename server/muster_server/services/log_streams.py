"""The log streams of a trial: which there are, and to which more may come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, LogStreamRow, TrialRow
from muster_server.domain.log_lines import BadPattern, Level, LineTest
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.errors import InvalidRequest, NotFound


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """Which lines are wanted. Streams first (ranks, nodes, stream, attempt), then a time range, then
    what each line says (see domain.log_lines)."""

    ranks: frozenset[int] | None = None
    """None: all; -1 is the launcher."""
    nodes: frozenset[str] | None = None
    stream: Literal["stdout", "stderr"] | None = None
    attempt_no: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    """Lines received from `since` on and before `until`."""
    levels: frozenset[Level] = frozenset()
    """Empty: every line, also those without a level."""
    text: str = ""
    """Only lines that contain it. Compared with the text as shown, without its colours."""
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


def get_trial(session: Session, trial_id: int) -> TrialRow:
    trial = session.get(TrialRow, trial_id)
    if trial is None:
        raise NotFound("trials.not_found", f"There is no trial {trial_id}.")
    return trial


def find_streams(session: Session, trial_id: int, wanted: LogFilter) -> list[LogStreamRow]:
    query = select(LogStreamRow).where(LogStreamRow.trial_id == trial_id)
    if wanted.ranks is not None:
        query = query.where(LogStreamRow.rank.in_(sorted(wanted.ranks)))
    if wanted.nodes is not None:
        query = query.where(LogStreamRow.node_name.in_(sorted(wanted.nodes)))
    if wanted.stream is not None:
        query = query.where(LogStreamRow.stream == wanted.stream)
    if wanted.attempt_no is not None:
        query = query.where(LogStreamRow.attempt_no == wanted.attempt_no)
    return sorted(
        session.scalars(query),
        key=lambda s: (s.attempt_no, s.rank, s.stream != "stdout", s.node_name, s.id),
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
                    AllocationRow.observed.in_(["LOST", "CLEANED"]),
                )
            )
        )
        complete |= {s.id for s in rest if s.allocation_id in given_up}
    return complete


def truncated(session: Session, streams: Sequence[LogStreamRow]) -> list[str]:
    """Streams that have reached the limit at which the agent cuts them."""
    if not streams:
        return []
    limits: dict[str, int] = {}
    ids = sorted({s.allocation_id for s in streams if s.size_bytes})
    for id_, spec in session.execute(
        select(AllocationRow.id, AllocationRow.spec).where(AllocationRow.id.in_(ids))
    ):
        limits[id_] = spec.get("log_limit_bytes") or 0
    return [
        f"{'launcher' if s.rank < 0 else f'rank {s.rank}'} {s.stream}"
        for s in streams
        if 0 < limits.get(s.allocation_id, 0) <= s.size_bytes
    ]
