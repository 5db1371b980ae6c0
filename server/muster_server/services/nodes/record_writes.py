"""Writes what records change, in statements that cover the allocations of a whole batch.

Rows are locked in one order by everybody: allocations, the slots they hold, what their experiments
have spent, then nodes. The caller has locked the allocations.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, cast

import structlog
from sqlalchemy import BindParameter, Table, Update, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    LogStreamRow,
    NodeRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.nodes.reports import TRIAL, Changes, KnownWorker

from ..core.assignments import bump_assignments, lock_nodes
from ..core.events import add_event
from ..search import reuse
from . import health

log = structlog.get_logger(__name__)

_ALLOCATIONS = cast(Table, AllocationRow.__table__)
_ATTEMPTS = cast(Table, AttemptRow.__table__)
_NODES = cast(Table, NodeRow.__table__)
_STREAMS = cast(Table, LogStreamRow.__table__)
_WORKERS = cast(Table, WorkerRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
# Parameters of an update that are not the columns it sets need names of their own.
_OF_WORKER = (
    _WORKERS.c.allocation_id == bindparam("key_allocation_id"),
    _WORKERS.c.local_rank == bindparam("key_local_rank"),
)

_KNOWN_WORKERS = select(
    _WORKERS.c.allocation_id,
    _WORKERS.c.local_rank,
    _WORKERS.c.slot,
    _WORKERS.c.device,
    _WORKERS.c.backend,
    _WORKERS.c.reports,
).where(_WORKERS.c.allocation_id.in_(_IDS))
_ADD_WORKERS = insert(_WORKERS)
_END_WORKER = (
    update(_WORKERS)
    .where(*_OF_WORKER)
    .values(
        exit_code=bindparam("exit_code"),
        signal=bindparam("signal"),
        exit_message=bindparam("exit_message"),
        ended_at=func.coalesce(_WORKERS.c.ended_at, bindparam("now")),
    )
)
_END_ALL_WORKERS = (
    update(_WORKERS)
    .where(_WORKERS.c.allocation_id.in_(_IDS))
    .values(ended_at=func.coalesce(_WORKERS.c.ended_at, bindparam("now")))
)
_COMPLETE_LOGS = update(_STREAMS).where(_STREAMS.c.allocation_id.in_(_IDS)).values(is_complete=True)
_SET_RENDEZVOUS = (
    update(_ATTEMPTS)
    .where(_ATTEMPTS.c.id == bindparam("key_id"))
    .values(
        rendezvous_host=bindparam("rendezvous_host"), rendezvous_port=bindparam("rendezvous_port")
    )
)
_DRIVERS = (
    select(
        _ALLOCATIONS.c.id,
        _ALLOCATIONS.c.spec["slot_type"].as_string().label("slot_type"),
        _NODES.c.inventory["driver_version"].as_string().label("driver_version"),
    )
    .join(_NODES, _NODES.c.id == _ALLOCATIONS.c.node_id)
    .where(_ALLOCATIONS.c.id.in_(_IDS))
)
_CLEAR_STRIKES = (
    update(_NODES)
    .where(_NODES.c.id == bindparam("key_id"), _NODES.c.strikes > 0)
    .values(strikes=0, strike_reason="")
)
_ADDRESS_OF_TRIAL = select(TrialRow.experiment_id, TrialRow.no).where(
    TrialRow.id == bindparam("trial_id")
)


@functools.cache
def _update_allocation(*names: str) -> Update:
    return (
        update(_ALLOCATIONS)
        .where(_ALLOCATIONS.c.id == bindparam("key_id"))
        .values({name: bindparam(name) for name in names})
    )


@functools.cache
def _update_worker(*names: str) -> Update:
    return update(_WORKERS).where(*_OF_WORKER).values({name: bindparam(name) for name in names})


def known_workers(
    session: Session, allocation_ids: Iterable[str]
) -> dict[str, dict[int, KnownWorker]]:
    """Return the stored workers of allocations, by their id and local rank."""
    found: dict[str, dict[int, KnownWorker]] = defaultdict(dict)
    if ids := sorted(set(allocation_ids)):
        for row in session.connection().execute(_KNOWN_WORKERS, {"ids": ids}):
            found[row.allocation_id][row.local_rank] = KnownWorker(
                slot=row.slot, device=row.device, backend=row.backend, reports=row.reports
            )
    return found


def write(session: Session, batch: Sequence[Changes], *, now: dt.datetime) -> None:
    """Write the changes of several allocations, all but what they mean for their nodes."""
    connection = session.connection()
    _fill_in_drivers(session, batch)
    by_columns: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for changes in batch:
        if changes.values:
            names = tuple(sorted(changes.values))
            by_columns[names].append({"key_id": changes.allocation.id, **changes.values})
    for names, rows in by_columns.items():
        connection.execute(_update_allocation(*names), rows)
    _write_workers(session, batch, now)
    if complete := [changes.allocation.id for changes in batch if changes.completes_logs]:
        connection.execute(_COMPLETE_LOGS, {"ids": complete})
    meeting = {
        changes.allocation.attempt_id: changes.rendezvous
        for changes in batch
        if changes.rendezvous is not None
    }
    if meeting:
        connection.execute(
            _SET_RENDEZVOUS,
            [
                {"key_id": attempt_id, "rendezvous_host": host, "rendezvous_port": port}
                for attempt_id, (host, port) in sorted(meeting.items())
            ],
        )
    for changes in batch:
        _add_events(session, changes, now)
        if changes.completes_logs:
            touch(session, f"trial:{changes.allocation.trial_id}:logs")
        if changes.wakes_loops:
            touch(session, "loops", "cluster")


def _write_workers(session: Session, batch: Sequence[Changes], now: dt.datetime) -> None:
    connection = session.connection()
    if new := [worker for changes in batch for worker in changes.new_workers.values()]:
        connection.execute(_ADD_WORKERS, new)
    by_columns: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for changes in batch:
        for local_rank, values in changes.known_workers.items():
            key = {"key_allocation_id": changes.allocation.id, "key_local_rank": local_rank}
            by_columns[tuple(sorted(values))].append({**key, **values})
    for names, rows in by_columns.items():
        connection.execute(_update_worker(*names), rows)
    exits: list[Mapping[str, Any]] = [
        {
            "key_allocation_id": changes.allocation.id,
            "key_local_rank": worker.local_rank,
            "exit_code": worker.exit_code,
            "signal": worker.signal,
            "exit_message": worker.message,
            "now": now,
        }
        for changes in batch
        for worker in changes.exits
    ]
    if exits:
        connection.execute(_END_WORKER, exits)
    if ended := [changes.allocation.id for changes in batch if changes.ends_workers]:
        connection.execute(_END_ALL_WORKERS, {"ids": ended, "now": now})


def _fill_in_drivers(session: Session, batch: Sequence[Changes]) -> None:
    """Set the columns of what nodes say about themselves, with the driver of their inventory."""
    told = [c for c in batch if c.facts is not None or c.environment is not None]
    if not told:
        return
    ids = sorted(changes.allocation.id for changes in told)
    drivers = {row.id: row for row in session.connection().execute(_DRIVERS, {"ids": ids})}
    for changes in told:
        row = drivers[changes.allocation.id]
        driver = (row.driver_version or "") if row.slot_type == "cuda" else ""
        if changes.environment is not None and changes.environment.data:
            reuse.note_data(session, changes.allocation.id, changes.environment.data)
        for column, said in (("facts", changes.facts), ("environment", changes.environment)):
            if said is not None:
                filled = dataclasses.replace(said, driver_version=driver)
                changes.values[column] = dataclasses.asdict(filled)


def _add_events(session: Session, changes: Changes, now: dt.datetime) -> None:
    allocation = changes.allocation
    for before, after in changes.refused:
        log.error("illegal_transition", allocation_id=allocation.id, before=before, after=after)
    for event in changes.events:
        of_trial: dict[str, Any] = {}
        experiment_id, trial_no = session.execute(
            _ADDRESS_OF_TRIAL, {"trial_id": allocation.trial_id}
        ).one()
        if event.is_of_trial:
            of_trial = {
                "trial_id": allocation.trial_id,
                "attempt_no": allocation.attempt_no,
                "experiment_id": experiment_id,
            }
        add_event(
            session,
            event.type,
            event.message.replace(TRIAL, f"trial {experiment_id}.{trial_no}", 1),
            now=now,
            level=event.level,
            node_id=allocation.node_id,
            **of_trial,
        )


def write_nodes(
    session: Session,
    batch: Sequence[Changes],
    *,
    with_strikes: Set[str],
    freed: Set[str],
    now: dt.datetime,
) -> None:
    """Count the failures of nodes to prepare, forget them where one could, and wake the agents of nodes
    that had allocations freed.

    with_strikes: Ids of nodes that had failures before.
    freed: Ids of nodes whose agents are woken.
    """
    struck = {changes.allocation.node_id for changes in batch if changes.strike is not None}
    concerned = [
        changes
        for changes in batch
        if changes.strike is not None
        or (changes.clears_strikes and changes.allocation.node_id in with_strikes | struck)
    ]
    if concerned:
        lock_nodes(session, {*freed, *(changes.allocation.node_id for changes in concerned)})
    for changes in concerned:
        if changes.clears_strikes:
            session.connection().execute(_CLEAR_STRIKES, {"key_id": changes.allocation.node_id})
        if changes.strike is not None:
            health.note_strike(session, changes.allocation.node_id, changes.strike, now=now)
    bump_assignments(session, freed)
