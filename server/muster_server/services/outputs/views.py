"""Outputs as REST shows them: the list of files, and how complete it is."""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import OutputState
from muster_server.db.models import AllocationRow, ExperimentRow, TrialOutputsRow, TrialRow
from muster_server.domain.outputs.retention import OutputsPolicy
from muster_server.domain.outputs.union import OutputEntry
from muster_server.domain.states import TERMINAL_TRIAL, AllocationState, TrialState
from muster_server.schemas.base import Page
from muster_server.schemas.outputs import (
    KeepOutputsOut,
    NodeOutputsOut,
    OutputFileOut,
    OutputsSummaryOut,
)
from muster_server.settings import Settings

from ..core.lookup import get_trial
from ..core.paging import CursorKey, decode_cursor, encode_cursor
from .downloads import online_storages
from .holding import held_trials
from .manifests import read_union, rows_of
from .retention import policy_in

Sort = Literal["path", "size", "modified"]
CURSOR_PATH_CHARS = 80
"""Characters of a path in a cursor; what is longer is told apart by its position."""


@dataclass(frozen=True, kw_only=True)
class OutputFilter:
    """Which outputs are listed."""

    prefix: str = ""
    """Beginning of their paths."""
    glob: str = ""
    """Pattern of their paths: `*` for any characters, `?` for one, `[ab]` for one of these."""
    states: Collection[OutputState] = ()
    """Empty: all."""

    def matcher(self) -> Callable[[OutputEntry], bool]:
        pattern = re.compile(fnmatch.translate(self.glob)) if self.glob else None

        def matches(entry: OutputEntry) -> bool:
            return (
                entry.name.startswith(self.prefix)
                and (pattern is None or pattern.match(entry.name) is not None)
                and (not self.states or entry.file.state in self.states)
            )

        return matches


def list_outputs(
    session: Session,
    trial_id: int,
    wanted: OutputFilter,
    *,
    sort: Sort,
    descending: bool,
    cursor: str | None,
    limit: int,
) -> Page[OutputFileOut]:
    """Return one page of the files of all nodes of a trial. Raises NotFound, and InvalidRequest for
    a bad cursor."""
    get_trial(session, trial_id)
    rows = rows_of(session, trial_id, with_files=True)
    matches = wanted.matcher()
    entries = [entry for entry in read_union(rows) if matches(entry)]
    if sort != "path":
        entries.sort(key=_key(sort), reverse=descending)
    elif descending:
        entries.reverse()
    start = _start(entries, decode_cursor(cursor, int, str))
    page = entries[start : start + limit]
    following = None
    if start + limit < len(entries):
        following = encode_cursor(start + limit, page[-1].name[-CURSOR_PATH_CHARS:])
    names = {row.node_rank: row.node_name for row in rows}
    return Page(items=[_file_out(entry, names) for entry in page], next=following)


def _key(sort: Literal["size", "modified"]) -> Callable[[OutputEntry], tuple[int, str]]:
    if sort == "size":
        return lambda entry: (entry.file.size_bytes, entry.name)
    return lambda entry: (entry.file.mtime_ms, entry.name)


def _start(entries: Sequence[OutputEntry], after: CursorKey | None) -> int:
    """Return the position after the last file of the page before, also when files have come or gone
    since."""
    if after is None:
        return 0
    position, name = int(after[0] or 0), str(after[1])
    near = [n for n, entry in enumerate(entries) if entry.name[-CURSOR_PATH_CHARS:] == name]
    return min(near, key=lambda n: abs(n + 1 - position)) + 1 if near else max(0, position)


def _file_out(entry: OutputEntry, names: dict[int, str]) -> OutputFileOut:
    file = entry.file
    return OutputFileOut.from_row(
        file,
        path=entry.name,
        modified_at=_moment(file.mtime_ms),
        num_parts=len(file.parts),
        node_ranks=list(entry.node_ranks),
        nodes=[names[rank] for rank in entry.node_ranks],
        is_conflict=entry.is_conflict,
    )


_LATEST_MS = 253_402_300_799_000
"""End of the year 9999 in milliseconds since 1970: a script may set any time."""


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(min(max(ms, 0), _LATEST_MS) / 1000, dt.UTC)


# ---------------------------------------------------------------- how complete it is


def summary(session: Session, trial_id: int, *, settings: Settings) -> OutputsSummaryOut:
    """Return what is there of a trial's outputs, node by node. Raises NotFound."""
    trial = get_trial(session, trial_id)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    rows = rows_of(session, trial_id, with_files=True)
    entries = read_union(rows)
    kept = [entry for entry in entries if entry.is_kept]
    nodes = _nodes(session, trial, rows)
    num_left_out, left_out_bytes = _left_out(entries, rows)
    policy = policy_in(experiment.config)
    written_at = max((row.updated_at for row in rows if row.num_files), default=None)
    return OutputsSummaryOut(
        trial_id=trial_id,
        state="deleted"
        if rows and trial.state in TERMINAL_TRIAL and all(row.deleted_at for row in rows)
        else _state(trial, nodes, is_on=experiment.config.outputs is not None),
        num_files=len(kept),
        size_bytes=sum(entry.file.size_bytes for entry in kept),
        num_left_out=num_left_out,
        left_out_bytes=left_out_bytes,
        num_conflicts=sum(entry.is_conflict for entry in entries),
        max_export_bytes=settings.export_max_bytes,
        deleted_at=max(
            (row.deleted_at for row in rows if row.deleted_at is not None), default=None
        ),
        deleted_bytes=sum(row.deleted_bytes for row in rows),
        keep=_keep_out(policy),
        expires_at=_expires_at(policy, written_at),
        held=_held(session, trial) if policy is not None and written_at is not None else "",
        nodes=nodes,
    )


def _keep_out(policy: OutputsPolicy | None) -> KeepOutputsOut | None:
    if policy is None:
        return None
    age = policy.older_than
    return KeepOutputsOut(
        days=age.total_seconds() / 86_400 if age is not None else None,
        max_bytes=policy.max_bytes,
        experiment_best=policy.keep_best,
    )


def _expires_at(policy: OutputsPolicy | None, written_at: dt.datetime | None) -> dt.datetime | None:
    if policy is None or policy.older_than is None or written_at is None:
        return None
    return written_at + policy.older_than


def _held(session: Session, trial: TrialRow) -> str:
    return held_trials(session, trial.experiment_id, trial_id=trial.id).get(trial.id, "")


def _left_out(entries: Sequence[OutputEntry], rows: Sequence[TrialOutputsRow]) -> tuple[int, int]:
    """Return number and bytes of the files that were not kept: those that are listed count once, and
    those beyond the longest list as often as nodes counted them."""
    listed = [entry for entry in entries if entry.file.state == "left_out"]
    on_nodes = sum(len(entry.node_ranks) for entry in listed)
    bytes_on_nodes = sum(len(entry.node_ranks) * entry.file.size_bytes for entry in listed)
    unlisted = max(0, sum(row.num_left_out for row in rows) - on_nodes)
    unlisted_bytes = max(0, sum(row.left_out_bytes for row in rows) - bytes_on_nodes)
    listed_bytes = sum(entry.file.size_bytes for entry in listed)
    return len(listed) + unlisted, listed_bytes + unlisted_bytes


def _state(
    trial: TrialRow, nodes: Sequence[NodeOutputsOut], *, is_on: bool
) -> Literal["off", "none", "collecting", "complete", "incomplete"]:
    if not nodes:
        return "none" if is_on else "off"
    states = {node.state for node in nodes}
    if "missing" in states:
        return "incomplete"
    may_run = trial.state not in TERMINAL_TRIAL and trial.state not in (
        TrialState.PAUSED,
        TrialState.QUEUED,
    )
    return "collecting" if "collecting" in states or may_run else "complete"


def _nodes(
    session: Session, trial: TrialRow, rows: Sequence[TrialOutputsRow]
) -> list[NodeOutputsOut]:
    """Return the nodes of the newest attempt, and those of earlier ones whose files are there."""
    online = online_storages(session)
    by_rank = {row.node_rank: row for row in rows}
    members = {
        member.node_rank: member
        for member in session.scalars(
            select(AllocationRow).where(
                AllocationRow.trial_id == trial.id, AllocationRow.attempt_no == trial.attempt_no
            )
        )
    }
    found = []
    for rank in sorted(by_rank.keys() | members.keys()):
        row, member = by_rank.get(rank), members.get(rank)
        is_running = member is not None and member.observed not in _ENDED
        found.append(
            NodeOutputsOut(
                node_rank=rank,
                node_name=row.node_name if row is not None else member.node_name if member else "",
                attempt_no=row.attempt_no if row is not None else 0,
                state=_node_state(row, member, is_running=is_running),
                num_files=row.num_files if row is not None else 0,
                size_bytes=row.size_bytes if row is not None else 0,
                num_left_out=row.num_left_out if row is not None else 0,
                left_out_bytes=row.left_out_bytes if row is not None else 0,
                problem=row.problem if row is not None else "",
                is_reachable=row is None or row.storage_id in online,
                updated_at=row.updated_at if row is not None else None,
            )
        )
    return found


_ENDED = (AllocationState.EXITED, AllocationState.CLEANED, AllocationState.LOST)


def _node_state(
    row: TrialOutputsRow | None, member: AllocationRow | None, *, is_running: bool
) -> Literal["collecting", "final", "missing"]:
    if is_running:
        return "collecting"
    if member is None:  # of an attempt on more nodes
        return "final" if row is not None and row.is_final else "missing"
    is_newest = row is not None and row.attempt_no == member.attempt_no
    return "final" if row is not None and row.is_final and is_newest else "missing"
