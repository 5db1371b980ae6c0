"""The records that many agents send in the same moment, stored by statements that cover all of them.

A gang's members prepare, start and end together, and so do their agents' calls come: taken one by
one, each asks the database a dozen times. Here are only the cases that come by the thousand. Whatever
is unusual about a request is for services.records, which says the same of these, too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec
from sqlalchemy import BindParameter, Table, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from muster.wire import (
    NumberedRecord,
    RecordsReply,
    RecordsRequest,
    StateRecord,
    WorkerRecord,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    LogStreamRow,
    NodeRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.raw import AnyRow
from muster_server.db.together import ALONE, Alone
from muster_server.domain.outcomes import on_server_clock
from muster_server.domain.states import ALLOCATION_TRANSITIONS
from muster_server.security.principal import Principal

from . import identity, records

USUAL: Final = frozenset({"PREPARING", "READY", "STARTING", "RUNNING", "EXITED"})


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One request."""

    agent: Principal
    allocation_id: str
    request: RecordsRequest


Stored = tuple[RecordsReply, list[NumberedRecord]]
"""The reply, and the records that were new."""


@dataclass(kw_only=True)
class _Change:
    """What one request changes."""

    allocation: AnyRow
    fresh: list[NumberedRecord]
    values: dict[str, Any]
    """Of the allocation."""
    workers: list[dict[str, Any]] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)
    rendezvous: tuple[str, int] | None = None
    has_news: bool = False
    """For the loops."""
    has_ended: bool = False


def _table(row: Any) -> Table:
    return cast(Table, row.__table__)


_A, _N, _T = _table(AllocationRow), _table(NodeRow), _table(TrialRow)
_W, _S, _AT = _table(WorkerRow), _table(LogStreamRow), _table(AttemptRow)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
# Locked in the order of their ids, as everybody does who locks several.
_ALLOCATIONS = (
    select(
        _A.c.id,
        _A.c.attempt_id,
        _A.c.trial_id,
        _A.c.attempt_no,
        _A.c.node_id,
        _A.c.node_name,
        _A.c.node_rank,
        _A.c.slots,
        _A.c.observed,
        _A.c.acked_seq,
    )
    .where(_A.c.id.in_(_IDS))
    .order_by(_A.c.id)
    .with_for_update()
)
# Read after those are locked: what they say of an allocation cannot change under it any more.
_TRIALS = select(_T.c.id, _T.c.attempt_no).where(_T.c.id.in_(_IDS))
_NODES = select(
    _N.c.id,
    _N.c.session_epoch,
    _N.c.state,
    _N.c.credential_hash,
    _N.c.strikes,
    _N.c.clock_offset_ms,
    _N.c.clock_error_ms,
).where(_N.c.id.in_(_IDS))
_DRIVERS = (
    select(
        _A.c.id,
        _A.c.spec["slot_type"].as_string().label("slot_type"),
        _N.c.inventory["driver_version"].as_string().label("driver_version"),
    )
    .join(_N, _N.c.id == _A.c.node_id)
    .where(_A.c.id.in_(_IDS))
)
_KNOWN_WORKERS = select(_W.c.allocation_id).where(_W.c.allocation_id.in_(_IDS)).distinct()
_ADD_WORKERS = insert(_W)
_END_WORKER = (
    update(_W)
    .where(_W.c.allocation_id == bindparam("of"), _W.c.local_rank == bindparam("at_rank"))
    .values(exit_code=bindparam("code"), signal=bindparam("by"), exit_message=bindparam("words"))
)
_END_WORKERS = (
    update(_W)
    .where(_W.c.allocation_id.in_(_IDS))
    .values(ended_at=func.coalesce(_W.c.ended_at, bindparam("now")))
)
_END_LOGS = update(_S).where(_S.c.allocation_id.in_(_IDS)).values(is_complete=True)
_MEET = (
    update(_AT)
    .where(_AT.c.id == bindparam("of"))
    .values(rendezvous_host=bindparam("host"), rendezvous_port=bindparam("port"))
)


@functools.cache
def _change_allocation(*names: str) -> Any:
    return (
        update(_A)
        .where(_A.c.id == bindparam("of"))
        .values({name: bindparam(f"new_{name}", type_=_A.c[name].type) for name in names})
    )


@functools.cache
def _follows(before: str, after: str) -> bool:
    return records.reachable(ALLOCATION_TRANSITIONS, before, after)


def store(session: Session, sent: Sequence[Sent], *, now: dt.datetime) -> list[Stored | Alone]:
    """`records.apply_records` of every request, after `identity.confirm_agent`, or ALONE where that
    may come to anything but the usual: refused, superseded, or another record than the steps of an
    allocation that goes well, and its workers."""
    connection = session.connection()
    ids = {one.allocation_id for one in sent}
    allocations = _by_id(connection.execute(_ALLOCATIONS, {"ids": sorted(ids)}))
    trial_ids = {row.trial_id for row in allocations.values()}
    trials = _by_id(connection.execute(_TRIALS, {"ids": sorted(trial_ids)}))
    node_ids = {row.node_id for row in allocations.values()}
    nodes = _by_id(connection.execute(_NODES, {"ids": sorted(node_ids)}))
    found: list[_Change | None] = []
    taken: set[str] = set()
    for one in sent:
        row = allocations.get(one.allocation_id)
        change = None
        if row is not None and row.id not in taken:
            taken.add(row.id)
            change = _change(one, row, trials[row.trial_id], nodes.get(row.node_id), now)
        found.append(change)
    _leave_out_known_workers(session, found)
    _write(session, [change for change in found if change is not None], now)
    return [
        ALONE
        if change is None
        else (RecordsReply(acked_seq=change.values["acked_seq"]), change.fresh)
        for change in found
    ]


def _by_id(rows: Iterable[AnyRow]) -> dict[Any, AnyRow]:
    return {row.id: row for row in rows}


def _change(
    sent: Sent, allocation: AnyRow, trial: AnyRow, node: AnyRow | None, now: dt.datetime
) -> _Change | None:
    request = sent.request
    is_usual = (
        node is not None
        and not sent.agent.uses_next_credential
        and node.state != "REMOVED"
        and node.session_epoch == request.session_epoch
        and node.id == request.node_id == sent.agent.node_id
        and identity.is_hash_of(sent.agent, node.credential_hash)
        and allocation.attempt_no == request.attempt_no == trial.attempt_no
        and allocation.observed not in ("LOST", "CLEANED")
    )
    if not is_usual or node is None:
        return None
    fresh = records.in_order(request.records[: records.MAX_RECORDS], allocation.acked_seq)
    acked_seq = fresh[-1].seq if fresh else allocation.acked_seq
    change = _Change(allocation=allocation, fresh=fresh, values={"acked_seq": acked_seq})
    observed = allocation.observed
    for numbered in fresh:
        record = numbered.record
        if isinstance(record, WorkerRecord) and not change.has_ended:
            change.workers.append(_worker(allocation, record, now))
        elif (
            isinstance(record, StateRecord)
            and record.observed in USUAL
            and _follows(observed, record.observed)
            and (record.exit is None) == (record.observed != "EXITED")
            and not (record.observed == "READY" and node.strikes)
        ):
            if record.observed != observed:
                change.values |= {"observed": record.observed, "state_since": now}
                observed = record.observed
            _step(change, record, node, now)
        else:
            return None
    if len({worker["local_rank"] for worker in change.workers}) < len(change.workers):
        return None
    return change


def _step(change: _Change, record: StateRecord, node: AnyRow, now: dt.datetime) -> None:
    change.has_news = True
    if record.message:
        change.values["message"] = record.message[: records.MAX_MESSAGE_CHARS]
    if record.observed == "READY":
        if record.facts is not None:
            change.values["facts"] = record.facts
        if record.rendezvous is not None and change.allocation.node_rank == 0:
            change.rendezvous = (record.rendezvous.host, record.rendezvous.port)
    if record.exit is not None:
        info = on_server_clock(
            record.exit, offset_ms=node.clock_offset_ms, error_ms=node.clock_error_ms
        )
        change.values |= {"exit": msgspec.to_builtins(info), "ended_at": now}
        change.has_ended = True
        change.ends += [
            {
                "of": change.allocation.id,
                "at_rank": worker.local_rank,
                "code": worker.exit_code,
                "by": worker.signal,
                "words": worker.message,
            }
            for worker in info.workers
        ]


def _worker(allocation: AnyRow, record: WorkerRecord, now: dt.datetime) -> dict[str, Any]:
    return {
        "allocation_id": allocation.id,
        "trial_id": allocation.trial_id,
        "attempt_no": allocation.attempt_no,
        "local_rank": record.local_rank,
        "node_name": allocation.node_name,
        "started_at": now,
        **records.worker_values(record, allocation.slots),
    }


def _leave_out_known_workers(session: Session, found: list[_Change | None]) -> None:
    """A worker that is there already is told about anew, by whoever reads it first."""
    ids = sorted({c.allocation.id for c in found if c is not None and c.workers})
    if ids:
        known = set(session.connection().scalars(_KNOWN_WORKERS, {"ids": ids}))
        for place, change in enumerate(found):
            if change is not None and change.workers and change.allocation.id in known:
                found[place] = None


def _write(session: Session, changes: Sequence[_Change], now: dt.datetime) -> None:
    connection = session.connection()
    _fill_in_drivers(session, changes)
    by_names: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for change in changes:
        if change.fresh:
            new = {f"new_{name}": value for name, value in change.values.items()}
            by_names[tuple(sorted(change.values))].append({"of": change.allocation.id, **new})
    for names, some in by_names.items():
        connection.execute(_change_allocation(*names), some)
    if workers := [worker for change in changes for worker in change.workers]:
        connection.execute(_ADD_WORKERS, workers)
    if ends := [end for change in changes for end in change.ends]:
        connection.execute(_END_WORKER, ends)
    if ended := [change.allocation.id for change in changes if change.has_ended]:
        connection.execute(_END_WORKERS, {"ids": ended, "now": now})
        connection.execute(_END_LOGS, {"ids": ended})
    meeting = {c.allocation.attempt_id: c.rendezvous for c in changes if c.rendezvous is not None}
    if meeting:
        places: list[Mapping[str, Any]] = [
            {"of": of, "host": host, "port": port} for of, (host, port) in sorted(meeting.items())
        ]
        connection.execute(_MEET, places)
    for change in changes:
        if change.fresh:
            touch(session, f"trial:{change.allocation.trial_id}")
        if change.has_ended:
            touch(session, f"trial:{change.allocation.trial_id}:logs")
        if change.has_news:
            touch(session, "loops", "cluster")


def _fill_in_drivers(session: Session, changes: Sequence[_Change]) -> None:
    """What the agent does not say of its facts, and the inventory does."""
    with_facts = [change for change in changes if "facts" in change.values]
    if not with_facts:
        return
    ids = sorted(change.allocation.id for change in with_facts)
    drivers = _by_id(session.connection().execute(_DRIVERS, {"ids": ids}))
    for change in with_facts:
        row = drivers[change.allocation.id]
        driver = (row.driver_version or "") if row.slot_type == "cuda" else ""
        facts = dataclasses.replace(change.values["facts"], driver_version=driver)
        change.values["facts"] = dataclasses.asdict(facts)
