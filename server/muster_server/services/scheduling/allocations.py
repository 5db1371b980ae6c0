"""Allocations as agents get them, and their way out."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Table,
    bindparam,
    case,
    delete,
    select,
    update,
)
from sqlalchemy.orm import Session

from muster.document.codec import dump
from muster.document.experiment import ExperimentConfig
from muster.document.inference import UsedModel
from muster.document.roles import RoleMember, images_of
from muster.launch.variables import fill_in
from muster.wire import AllocationSpec, CodeSpec, LocalCheckpoint, ModelSpec
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    NodeSlotRow,
    WorkerRow,
)
from muster_server.domain.quota.budgets import slot_seconds
from muster_server.domain.scheduling import NodeShare
from muster_server.domain.search.methods import method_of
from muster_server.domain.states import AllocationState
from muster_server.services.core.writes import Outdated

from ..checkpoints.lookup import (
    StartCheckpoint,
    StartingExperiment,
    StartingTrial,
    trial_folder,
    url_of,
)
from ..documents import default_launcher, launcher_of_role, search_spec
from ..outputs.sources import outputs_spec
from ..quota.spending import Used, lock_accounts, settle


@dataclass(frozen=True)
class PlacedTrial(StartingTrial):
    """The columns of a trial that its allocations are made from."""

    experiment_id: int
    attempt_no: int
    hparams: dict[str, Any]
    seed: int
    rolled_back_step: int
    skipped_samples: int


@dataclass(frozen=True)
class PlacedExperiment(StartingExperiment):
    """The columns of an experiment that the allocations of its trials are made from."""

    name: str
    project_id: int
    owner_id: int | None
    blob_sha256: str | None


@dataclass(frozen=True)
class CodeFacts:
    """What a job is told of the repository that its code came from; None where nothing is known."""

    commit: str | None = None
    version: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the job, those of its build among them."""
        named = {"MUSTER_CODE_COMMIT": self.commit, "SETUPTOOLS_SCM_PRETEND_VERSION": self.version}
        return {name: value for name, value in named.items() if value}


# Written down once, like those of agents' calls: they are carried out for every member of every gang.

_allocations = cast(Table, AllocationRow.__table__)
_slots = cast(Table, NodeSlotRow.__table__)
_workers = cast(Table, WorkerRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_NOW: BindParameter[Any] = bindparam("now", type_=_allocations.c.ended_at.type)
_MEMBERS = select(
    _allocations.c.trial_id,
    _allocations.c.node_id,
    _allocations.c.slots,
    _allocations.c.created_at,
    _allocations.c.ended_at,
    _allocations.c.price_per_slot_hour,
).where(_allocations.c.id.in_(_IDS))
_CLEAN = (
    update(_allocations)
    .where(_allocations.c.id.in_(_IDS), _allocations.c.observed == bindparam("before"))
    .values(
        observed=AllocationState.CLEANED,
        desired="forget",
        state_since=_NOW,
        # The slots of a lost node were spent until it was lost.
        ended_at=case(
            (_allocations.c.observed == AllocationState.LOST, _allocations.c.ended_at), else_=_NOW
        ),
    )
)
_FREE = (
    update(_slots)
    .where(_slots.c.allocation_id.in_(_IDS))
    .values(allocation_id=None, free_since=_NOW)
)
_DROP_GONE = delete(_slots).where(
    _slots.c.node_id.in_(_IDS), _slots.c.is_gone, _slots.c.allocation_id.is_(None)
)
_OF_NODES = (
    select(_allocations.c.id, _allocations.c.trial_id, _allocations.c.observed)
    .where(
        _allocations.c.node_id.in_(_IDS),
        _allocations.c.observed.in_(bindparam("states", expanding=True)),
    )
    .order_by(_allocations.c.id)
    .with_for_update()
)
_LOCK_HELD = (
    select(_slots.c.idx)
    .where(_slots.c.node_id.in_(_IDS), _slots.c.allocation_id.is_not(None))
    .order_by(_slots.c.node_id, _slots.c.idx)
    .with_for_update()
)
_END_WORKERS = (
    update(_workers)
    .where(_workers.c.allocation_id.in_(_IDS), _workers.c.ended_at.is_(None))
    .values(ended_at=_NOW)
)


def build_spec(
    experiment: PlacedExperiment,
    trial: PlacedTrial,
    *,
    attempt_id: int,
    attempt_no: int,
    allocation_id: str,
    share: NodeShare,
    num_nodes: int,
    world_size: int,
    start: StartCheckpoint | None,
    cluster_id: str,
    code: CodeFacts,
    gang_key: str,
    here: Sequence[LocalCheckpoint] = (),
) -> AllocationSpec:
    """Return everything an agent needs to run its part of an attempt.

    here: checkpoints that its node may have on its own disk.
    """
    config = experiment.config
    element = {name: str(trial.hparams[name]) for name in config.array if name in trial.hparams}
    resumes = start is not None and not start.weights_only
    return AllocationSpec(
        allocation_id=allocation_id,
        experiment_id=experiment.id,
        experiment_name=experiment.name,
        project_id=experiment.project_id,
        trial_id=trial.id,
        trial_no=trial.no,
        attempt_id=attempt_id,
        attempt_no=attempt_no,
        node_rank=share.node_rank,
        num_nodes=num_nodes,
        slots=list(share.slots),
        slot_type=config.resources.slot_type,
        rank_offset=share.rank_offset,
        world_size=world_size,
        launcher=config.launcher or default_launcher(config),
        entrypoint=[fill_in(word, element) for word in _entrypoint(config)],
        code=_code(experiment, config),
        python=config.environment.python,
        environment={
            **code.variables,
            **{k: fill_in(v, element) for k, v in config.environment.variables.items()},
            **element,
        },
        secrets=list(config.environment.all_secrets),
        hparams=trial.hparams,
        config=_with_hold(config),
        seed=trial.seed,
        cluster_id=cluster_id,
        gang_key=gang_key,
        checkpoint_dir=trial_folder(experiment.id, trial.no),
        checkpoint_url=url_of(config, cluster_id, trial_folder(experiment.id, trial.no)),
        resume_from=start.path if start is not None and resumes else None,
        resume_step=start.step if start is not None else 0,
        skip_samples=trial.skipped_samples
        if start is not None and resumes and start.step == trial.rolled_back_step
        else 0,
        weights_from=start.path if start is not None and not resumes else None,
        stop_grace_s=config.stop_grace_s,
        on_disconnect=config.on_disconnect,
        log_limit_bytes=config.log_limit_mb * 1_000_000,
        outputs=outputs_spec(config),
        local_checkpoints=list(here),
        models=_models(config),
    )


def build_member(
    config: ExperimentConfig, member: RoleMember, common: Mapping[str, Any], slots: int
) -> dict[str, Any]:
    """Return the fields in which the spec of a member of a role differs from what all members share."""
    role = config.roles[member.role]
    elements = {name: common["environment"].get(name, "") for name in config.array}
    own = {name: fill_in(v, elements) for name, v in role.environment.variables.items()}
    shared = common["config"]
    environment = {
        **shared["environment"],
        "image": images_of(config.roles, config.environment.image)[member.role] or None,
    }
    return {
        "config": {**shared, "environment": environment},
        "entrypoint": [fill_in(word, elements) for word in role.entrypoint],
        "launcher": launcher_of_role(role.entrypoint),
        "environment": {**common["environment"], **own, **elements},
        "num_nodes": 1,
        "world_size": slots,
        "gang_key": "",
        "role": member.role,
        "role_index": member.index,
        "role_count": role.count,
        "max_restarts": role.max_restarts if role.on_failure == "restart" else 0,
    }


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
        lock_accounts(
            session, (row.trial_id for row in found if row.observed == AllocationState.LOST)
        )
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
        lost_at = member.ended_at if before == AllocationState.LOST else None
        seconds = slot_seconds(member.created_at, lost_at or now, len(member.slots))
        by_trial[member.trial_id].append(Used(seconds, member.price_per_slot_hour))
    for trial_id, used in sorted(by_trial.items()):
        settle(session, trial_id, used)
        touch(session, f"trial:{trial_id}")
    touch(session, "cluster", "loops")
    return {member.node_id for member in members}


HOLD_S = {"population": 60.0, "synchronous": 5.0, "promotion": 5.0}
"""Seconds that a trial waits at its rung for the search's decision, by rule.

A population always waits there. Under the other rules a trial may be allowed to go on at once, and
then nothing is sent.
"""


def _with_hold(config: ExperimentConfig) -> dict[str, Any]:
    """Return the configuration as JSON, with where the built-in trainer waits for what its search
    decides."""
    plain: dict[str, Any] = dump(config)
    if config.trainer is None or not method_of(config.search.method).compares:
        return plain
    spec = search_spec(config)
    if spec.rule not in HOLD_S:
        return plain
    at = [mark for mark in spec.marks if mark != spec.max_units]
    hold = {"at": at, "unit": spec.unit, "for_s": HOLD_S[spec.rule]}
    return {**plain, "search": {**plain["search"], "hold": hold}}


def _entrypoint(config: ExperimentConfig) -> list[str]:
    if config.built_in_module is not None:
        return ["-m", config.built_in_module]
    return list(config.entrypoint or ())


def _models(config: ExperimentConfig) -> dict[str, ModelSpec]:
    return {
        name: ModelSpec(model=used.model, version=used.version, digest=used.digest or "")
        for name, used in config.models.items()
        if isinstance(used, UsedModel)  # Others are references that nobody has resolved.
    }


def _code(experiment: PlacedExperiment, config: ExperimentConfig) -> CodeSpec:
    if experiment.blob_sha256:
        return CodeSpec(kind="bundle", sha256=experiment.blob_sha256)
    installed = config.code.installed if config.code is not None else None
    return CodeSpec(kind="installed", path=installed) if installed else CodeSpec(kind="none")
