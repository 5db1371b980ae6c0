"""Allocations as agents get them, and their way out."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    CursorResult,
    Executable,
    Table,
    bindparam,
    delete,
    select,
    update,
)
from sqlalchemy.orm import Session

from muster.wire import AllocationSpec, CodeSpec
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.budgets import slot_seconds
from muster_server.domain.scheduler import NodeShare

from .checkpoints import Start, trial_folder, url_of
from .documents import STOPPING, search_spec
from .spending import Used, lock_accounts, settle

BUILT_IN_TRAINER = ("-m", "muster.training")


# Written down once, like those of agents' calls: they are carried out for every member of every gang.

_A = cast(Table, AllocationRow.__table__)
_N, _SLOTS = cast(Table, NodeRow.__table__), cast(Table, NodeSlotRow.__table__)
_W = cast(Table, WorkerRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_NOW: BindParameter[Any] = bindparam("now", type_=_A.c.ended_at.type)
_LOCK_NODES = select(_N.c.id).where(_N.c.id.in_(_IDS)).order_by(_N.c.id).with_for_update()
_BUMP = update(_N).where(_N.c.id.in_(_IDS)).values(assignments_index=_N.c.assignments_index + 1)
_MEMBERS = select(
    _A.c.trial_id,
    _A.c.node_id,
    _A.c.slots,
    _A.c.created_at,
    _A.c.ended_at,
    _A.c.price_per_slot_hour,
).where(_A.c.id.in_(_IDS))
_CLEAN = (
    update(_A)
    .where(_A.c.id.in_(_IDS), _A.c.observed == bindparam("before"))
    .values(observed="CLEANED", desired="forget", state_since=_NOW, ended_at=_NOW)
)
_FREE = (
    update(_SLOTS)
    .where(_SLOTS.c.allocation_id.in_(_IDS))
    .values(allocation_id=None, free_since=_NOW)
)
_DROP_GONE = delete(_SLOTS).where(
    _SLOTS.c.node_id.in_(_IDS), _SLOTS.c.is_gone, _SLOTS.c.allocation_id.is_(None)
)
_OF_NODES = (
    select(_A.c.id, _A.c.trial_id, _A.c.observed)
    .where(_A.c.node_id.in_(_IDS), _A.c.observed.in_(bindparam("states", expanding=True)))
    .order_by(_A.c.id)
    .with_for_update()
)
_LOCK_HELD = (
    select(_SLOTS.c.idx)
    .where(_SLOTS.c.node_id.in_(_IDS), _SLOTS.c.allocation_id.is_not(None))
    .order_by(_SLOTS.c.node_id, _SLOTS.c.idx)
    .with_for_update()
)
_END_WORKERS = (
    update(_W).where(_W.c.allocation_id.in_(_IDS), _W.c.ended_at.is_(None)).values(ended_at=_NOW)
)


class Outdated(Exception):
    """A guarded write found that something else had changed first: drop the decision."""


def changed(
    session: Session, statement: Executable, values: Mapping[str, Any] | None = None
) -> int:
    """Execute a guarded write; how many rows it changed. values: of its parameters."""
    return cast("CursorResult[Any]", session.execute(statement, values)).rowcount


def require_one(session: Session, statement: Executable, what: str) -> None:
    """Execute a guarded write of one row. Raises Outdated when it was not there as expected."""
    if changed(session, statement) != 1:
        raise Outdated(what)


def build_spec(
    experiment: ExperimentRow,
    trial: TrialRow,
    *,
    attempt_id: int,
    attempt_no: int,
    allocation_id: str,
    share: NodeShare,
    num_nodes: int,
    world_size: int,
    start: Start | None,
    cluster_id: str,
) -> AllocationSpec:
    """Everything an agent needs to run its part of an attempt."""
    config = experiment.config
    environment = config.get("environment") or {}
    resumes = start is not None and not start.weights_only
    return AllocationSpec(
        allocation_id=allocation_id,
        experiment_id=experiment.id,
        experiment_name=experiment.name,
        trial_id=trial.id,
        trial_no=trial.no,
        attempt_id=attempt_id,
        attempt_no=attempt_no,
        node_rank=share.node_rank,
        num_nodes=num_nodes,
        slots=list(share.slots),
        slot_type=(config.get("resources") or {}).get("slot_type", "cpu"),
        rank_offset=share.rank_offset,
        world_size=world_size,
        launcher=config.get("launcher") or "torchrun",
        entrypoint=_entrypoint(config),
        code=_code(experiment, config),
        python=environment.get("python"),
        environment={str(k): str(v) for k, v in (environment.get("variables") or {}).items()},
        hparams=trial.hparams,
        config=_with_hold(config),
        seed=trial.seed,
        cluster_id=cluster_id,
        checkpoint_dir=trial_folder(experiment.id, trial.no),
        checkpoint_url=url_of(config, cluster_id, trial_folder(experiment.id, trial.no)),
        resume_from=start.path if start is not None and resumes else None,
        resume_step=start.step if start is not None else 0,
        weights_from=start.path if start is not None and not resumes else None,
        stop_grace_s=float(config.get("stop_grace_s", 30.0)),
        on_disconnect=config.get("on_disconnect") or "continue",
        log_limit_bytes=int(config.get("log_limit_mb") or 100) * 1_000_000,
    )


def bump_assignments(session: Session, node_ids: Iterable[str]) -> None:
    """The desired set of these nodes changed: wake their agents. In id order, against deadlocks."""
    ids = sorted(set(node_ids))
    if not ids:
        return
    connection = session.connection()
    if len(ids) > 1 and connection.dialect.name != "sqlite":
        connection.execute(_LOCK_NODES, {"ids": ids}).all()
    connection.execute(_BUMP, {"ids": ids})
    touch(session, *(f"assignments:{node_id}" for node_id in ids))


def lock_nodes(session: Session, node_ids: Iterable[str]) -> None:
    """Nobody else changes these nodes until the end of the transaction."""
    session.connection().execute(_LOCK_NODES, {"ids": sorted(set(node_ids))}).all()


def lock_what_may_be_freed(
    session: Session, node_ids: Iterable[str], *, states: Iterable[str]
) -> set[str]:
    """Lock the allocations of these nodes that are in one of `states`, and what `clean` changes with
    them; their ids.

    For whoever changes a node and then cleans allocations of it. Everybody locks allocations, then
    the slots they hold, then what their experiments have spent, and nodes at last; two who did it
    in opposite orders would wait for each other.
    """
    ids = sorted(set(node_ids))
    connection = session.connection()
    found = connection.execute(_OF_NODES, {"ids": ids, "states": sorted(states)}).all()
    if found and connection.dialect.name != "sqlite":
        connection.execute(_LOCK_HELD, {"ids": ids}).all()
        lock_accounts(session, (row.trial_id for row in found if row.observed == "LOST"))
    return {row.id for row in found}


def clean(
    session: Session, allocation_ids: Sequence[str], *, before: str, now: dt.datetime
) -> set[str]:
    """`before` → CLEANED: free the slots, settle what they cost, drop them from their nodes' sets.

    Returns the ids of the nodes; the caller bumps them. Raises Outdated when one is not in `before`
    any more.
    """
    session.flush()
    connection = session.connection()
    ids = list(allocation_ids)
    members = connection.execute(_MEMBERS, {"ids": ids}).all()
    cleaned = connection.execute(_CLEAN, {"ids": ids, "before": before, "now": now})
    if cleaned.rowcount != len(ids):
        raise Outdated(f"of allocations {ids} some are not {before}")
    connection.execute(_FREE, {"ids": ids, "now": now})
    connection.execute(_DROP_GONE, {"ids": sorted({member.node_id for member in members})})
    connection.execute(_END_WORKERS, {"ids": ids, "now": now})
    by_trial: dict[int, list[Used]] = defaultdict(list)
    for member in members:
        lost_at = member.ended_at if before == "LOST" else None
        seconds = slot_seconds(member.created_at, lost_at or now, len(member.slots))
        by_trial[member.trial_id].append(Used(seconds, member.price_per_slot_hour))
    for trial_id, used in sorted(by_trial.items()):
        settle(session, trial_id, used)
        touch(session, f"trial:{trial_id}")
    touch(session, "cluster", "loops")
    return {member.node_id for member in members}


HOLD_S = {"population": 60.0, "synchronous": 5.0, "promotion": 5.0}
"""By rule: how long a trial waits at its rung for word of the search. A population always rests
there; under the other rules a trial may go on at once, of which nobody sends word."""


def _with_hold(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration, with where the built-in trainer waits for what its search decides."""
    if config.get("trainer") is None or config["search"]["method"] not in STOPPING:
        return config
    spec = search_spec(config)
    if spec.rule not in HOLD_S:
        return config
    at = [mark for mark in spec.marks if mark != spec.max_units]
    hold = {"at": at, "unit": spec.unit, "for_s": HOLD_S[spec.rule]}
    return {**config, "search": {**config["search"], "hold": hold}}


def _entrypoint(config: dict[str, Any]) -> list[str]:
    if config.get("trainer") is not None:
        return list(BUILT_IN_TRAINER)
    return [str(part) for part in config.get("entrypoint") or []]


def _code(experiment: ExperimentRow, config: dict[str, Any]) -> CodeSpec:
    if experiment.blob_sha256:
        return CodeSpec(kind="bundle", sha256=experiment.blob_sha256)
    installed = (config.get("code") or {}).get("installed")
    return CodeSpec(kind="installed", path=installed) if installed else CodeSpec(kind="none")
