"""Trials that hold slots and do nothing: noticed once per silence, stopped where a rule says so, and kept
running where their owner does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select, type_coerce
from sqlalchemy.orm import Session

from muster.document.codec import load
from muster.document.inference import PROGRAMS
from muster.document.running import WasteSection
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    NodeRow,
    NodeSampleRow,
    PoolRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.models.base import Json
from muster_server.db.queries.metrics import chunked
from muster_server.domain.quota.budgets import moment
from muster_server.domain.runtime.waste import (
    EXEMPT_PHASES,
    GAP_MAX,
    WasteDecision,
    WasteFacts,
    idle_since,
)
from muster_server.domain.states import TERMINAL_TRIAL, AllocationState, AttemptState, NodeState
from muster_server.errors import Conflict
from muster_server.schemas.experiments import WasteNoticeOut

from ..core import callers
from ..core.callers import Caller
from ..core.events import add_event
from ..core.lookup import get_trial
from ..core.ownership import require_charge
from ..core.writes import Outdated

_CONFIG = type_coerce(ExperimentRow.config, Json)
_RUNNING = (
    AttemptRow.state == AttemptState.RUNNING,
    AttemptRow.started_at.is_not(None),
    AttemptRow.yield_kind.is_(None),
    AttemptRow.stuck_reason == "",
    TrialRow.desired == "run",
    ExperimentRow.desired == "run",
)


# ---------------------------------------------------------------- what is seen


@dataclass
class _LastSeen:
    """What allocations and workers of a running trial say."""

    nodes: list[Any] = field(default_factory=list)
    moved_at: list[dt.datetime] = field(default_factory=list)
    phases: set[str] = field(default_factory=set)


def load_facts(
    session: Session, *, listening_since: dt.datetime, now: dt.datetime
) -> list[WasteFacts]:
    """Return the running trials that may waste their slots, or of which that was noticed.

    listening_since: steps before may have been made and not heard of.
    """
    of_pools = {row.name: row.waste for row in session.execute(select(PoolRow.name, PoolRow.waste))}
    rows = session.execute(
        select(
            TrialRow.id,
            TrialRow.progress_at,
            TrialRow.keep_until,
            AttemptRow.no,
            AttemptRow.started_at,
            AttemptRow.waste,
            _CONFIG["resources"]["pool"].as_string().label("pool"),
            _CONFIG["resources"]["slot_type"].as_string().label("slot_type"),
            _CONFIG["waste"].label("own"),
        )
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            *_RUNNING,
            AttemptRow.no == TrialRow.attempt_no,
            ExperimentRow.purpose.is_(None),
            *(
                _CONFIG[name].as_string().is_(None)
                for name, program in PROGRAMS.items()
                if program.use is not None
            ),
        )
    ).all()
    rules = {
        row.id: [
            load(WasteSection, w) for w in (of_pools.get(row.pool) or {}, row.own) if w is not None
        ]
        for row in rows
    }
    rows = [row for row in rows if _may_be(row, rules[row.id], now)]
    seen = _look(session, {row.id: row.no for row in rows})
    found = []
    for row in rows:
        mine = seen.get(row.id, _LastSeen())
        if not mine.nodes or any(node.state != NodeState.ONLINE for node in mine.nodes):
            continue  # What is not heard may have made a step.
        has_stepped = row.progress_at is not None and row.progress_at >= row.started_at
        found.append(
            WasteFacts(
                trial_id=row.id,
                attempt_no=row.no,
                rules=tuple(rules[row.id]),
                started_at=row.started_at,
                moved_at=max(row.progress_at, listening_since, *mine.moved_at)
                if has_stepped
                else None,
                idle_since=_idle(session, mine.nodes, rules[row.id], now)
                if row.slot_type != "cpu"
                else {},
                is_exempt=not mine.phases.isdisjoint(EXEMPT_PHASES),
                noticed_at=_noticed_at(row.waste),
                kept_until=row.keep_until,
            )
        )
    return found


def _may_be(row: Any, rules: Sequence[WasteSection], now: dt.datetime) -> bool:
    """Return whether a trial is worth a closer look. Most trials make steps and are not."""
    if row.waste is not None or row.slot_type != "cpu":
        return True
    quiet_s = (now - (row.progress_at or now)).total_seconds()
    return any(r.no_step_for_min is not None and quiet_s >= 60 * r.no_step_for_min for r in rules)


def _noticed_at(waste: Mapping[str, Any] | None) -> dt.datetime | None:
    return None if waste is None else dt.datetime.fromisoformat(waste["at"])


def _look(session: Session, attempts: Mapping[int, int]) -> dict[int, _LastSeen]:
    seen: dict[int, _LastSeen] = {}
    for some in chunked(attempts):
        nodes = session.execute(
            select(
                AllocationRow.trial_id,
                AllocationRow.attempt_no,
                AllocationRow.node_id,
                AllocationRow.slots,
                AllocationRow.created_at,
                NodeRow.state,
                NodeRow.usage,
            )
            .join(NodeRow, NodeRow.id == AllocationRow.node_id)
            .where(
                AllocationRow.trial_id.in_(some), AllocationRow.observed == AllocationState.RUNNING
            )
        )
        for row in nodes:
            if row.attempt_no == attempts[row.trial_id]:
                seen.setdefault(row.trial_id, _LastSeen()).nodes.append(row)
        workers = session.execute(
            select(
                WorkerRow.trial_id,
                WorkerRow.attempt_no,
                WorkerRow.moved_at,
                WorkerRow.progress["phase"].as_string().label("phase"),
            ).where(WorkerRow.trial_id.in_(some), WorkerRow.ended_at.is_(None))
        )
        for row in workers:
            if row.attempt_no == attempts[row.trial_id]:
                mine = seen.setdefault(row.trial_id, _LastSeen())
                mine.phases.add(row.phase or "")
                mine.moved_at += [row.moved_at] if row.moved_at is not None else []
    return seen


def _idle(
    session: Session, nodes: Sequence[Any], rules: Sequence[WasteSection], now: dt.datetime
) -> dict[float, dt.datetime]:
    """Return since when every GPU of a trial has been idle, by the percentage that a rule calls so."""
    wanted = {r.device_below_percent for r in rules if r.device_below_percent is not None}
    window = max(dt.timedelta(minutes=r.device_for_min + r.act_after_min) for r in rules) + GAP_MAX
    busiest = [_use(node.usage or {}, node.slots) for node in nodes]
    now_pct = None if None in busiest else max(use for use in busiest if use is not None)
    idle = {pct for pct in wanted if now_pct is not None and now_pct < pct}
    if not idle:
        return {}
    samples = [
        [
            (at, _use(usage, node.slots))
            for at, usage in session.execute(
                select(NodeSampleRow.at, NodeSampleRow.usage)
                .where(
                    NodeSampleRow.node_id == node.node_id,
                    NodeSampleRow.at >= max(node.created_at, now - window),
                )
                .order_by(NodeSampleRow.at.desc())
            )
        ]
        for node in nodes
    ]
    found = {pct: [idle_since(of_node, pct, now=now) for of_node in samples] for pct in idle}
    return {
        pct: max(at for at in since if at is not None)
        for pct, since in found.items()
        if None not in since
    }


def _use(usage: Mapping[str, Any], slots: Sequence[int]) -> float | None:
    """Return the use of the busiest of the GPUs, in percent; None where one is not measured."""
    of_slot = {gpu.get("index"): gpu.get("use_pct") for gpu in usage.get("gpus") or ()}
    use = [of_slot.get(slot) for slot in slots]
    return None if None in use else max((float(u) for u in use if u is not None), default=None)


# ---------------------------------------------------------------- what is done


def carry_out(session: Session, decision: WasteDecision, *, now: dt.datetime) -> None:
    """Say that a trial wastes its slots, stop it, or take the notice back.

    Raises Outdated when the trial is not as the decision saw it any more.
    """
    of = decision.of
    trial = get_trial(session, of.trial_id, lock=True)
    row = session.execute(
        select(AttemptRow, ExperimentRow.desired)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(AttemptRow.trial_id == trial.id, AttemptRow.no == trial.attempt_no, *_RUNNING)
        .execution_options(populate_existing=True)
    ).first()
    is_same = row is not None and (
        trial.attempt_no,
        trial.keep_until,
        _noticed_at(row[0].waste),
    ) == (
        of.attempt_no,
        of.kept_until,
        of.noticed_at,
    )
    if row is None or not is_same:
        raise Outdated(f"trial {of.trial_id} is not as it was seen any more")
    attempt = row[0]
    touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}")
    acts_at = None if decision.acts_at is None else decision.acts_at.isoformat()
    if decision.kind == "clear":
        attempt.waste = None
        return
    told = decision.text.english
    if decision.kind == "notice":
        attempt.waste = {
            "at": now.isoformat(),
            "text": told,
            "parts": list(decision.text.parts),
            "action": decision.action,
            "acts_at": acts_at,
        }
    else:
        saves = decision.action == "checkpoint_and_stop"
        trial.desired = "stop" if saves else "kill"
        trial.guard_reason = f"waste: {told[:1].lower()}{told[1:].rstrip('.')}"
        told += " The trial is stopped" + (" after a last checkpoint." if saves else ".")
        touch(session, "loops")
    add_event(
        session,
        "waste.noticed" if decision.kind == "notice" else "waste.ended",
        told,
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=of.attempt_no,
        data={"action": decision.action, "acts_at": acts_at},
    )


def keep(session: Session, trial_id: int, *, hours: float, by: Caller) -> None:
    """Let a trial run on for some hours, whatever it does; a longer extension stays as it is. Raises
    NotFound, Forbidden for a trial of somebody else, and Conflict for one that has ended or is to."""
    trial = get_trial(session, trial_id, lock=True)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    require_charge(session, by.principal, experiment)
    if trial.state in TERMINAL_TRIAL or trial.attempt_no == 0 or trial.desired in ("stop", "kill"):
        raise Conflict(
            "trials.not_running",
            f"Trial {trial.address} is {trial.state}"
            + (" and is being stopped." if trial.desired in ("stop", "kill") else "."),
            hint=f"Continue the experiment to go on: `muster continue {experiment.id}`.",
        )
    until = by.now + dt.timedelta(hours=hours)
    trial.keep_until = max(until, trial.keep_until or until)
    attempt = _attempt(session, trial)
    if attempt is not None:
        attempt.waste = None
    add_event(
        session,
        "waste.kept",
        f"{by.principal.name} keeps it running until {moment(trial.keep_until)}, whatever it does.",
        now=by.now,
        experiment_id=experiment.id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no,
    )
    callers.record(session, "trials.kept", f"trial:{trial_id}", by)
    touch(session, f"trial:{trial.id}", f"experiment:{experiment.id}")


def notice_out(session: Session, trial: TrialRow) -> WasteNoticeOut | None:
    """Return the notice of a trial; None if it does not run or wastes nothing."""
    attempt = _attempt(session, trial)
    if attempt is None or attempt.state != AttemptState.RUNNING or attempt.waste is None:
        return None
    return WasteNoticeOut.model_validate(attempt.waste)


def _attempt(session: Session, trial: TrialRow) -> AttemptRow | None:
    return session.scalar(
        select(AttemptRow).where(AttemptRow.trial_id == trial.id, AttemptRow.no == trial.attempt_no)
    )
