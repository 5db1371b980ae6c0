"""What must hold when everything has come to rest."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from sqlalchemy import select

from muster import wire
from muster_server import clock
from muster_server.db.models import AllocationRow, AttemptRow
from muster_server.db.queries.metrics_codec import decode_batch
from muster_server.domain.goodput.ledger import allocated_s, summed
from muster_server.domain.lifecycle.avoidance import AVOID_S
from muster_server.domain.states import (
    TERMINAL_ATTEMPT,
    TERMINAL_EXPERIMENT,
    TERMINAL_TRIAL,
    TERMINATIONS,
    AttemptState,
    RetryClass,
    Termination,
)
from muster_server.services.goodput.loading import account
from muster_server.services.metrics import series as metrics_series

from .shim import METRIC

if TYPE_CHECKING:
    from .world import World


def is_at_rest(world: World) -> bool:
    """Every experiment has ended, and nothing of any is left anywhere."""
    if len(world.submitted) < len(world.scenario.submissions):
        return False
    if world.loop.time() < world.scenario.lasts_s:
        return False
    if any(computer.specs for computer in world.computers) or world.witness.num_living:
        return False
    terminal = ", ".join(f"'{state}'" for state in sorted(TERMINAL_EXPERIMENT))
    (num_open,) = world.witness.rows(
        f"SELECT (SELECT count(*) FROM experiments WHERE state NOT IN ({terminal})) "
        "+ (SELECT count(*) FROM node_slots WHERE allocation_id IS NOT NULL)"
    )[0]
    return bool(num_open == 0)


def judge_loss(world: World, node_id: str) -> None:
    """A node was declared LOST: it has been in trouble of its own for some of the time that counts. That
    of a control plane that could not hear it is no reason."""
    ((name,),) = world.witness.rows(f"SELECT name FROM nodes WHERE id = '{node_id}'")
    computer = next(c for c in world.computers if c.name == name)
    now_s = world.lost_at_s[name] = world.loop.time()
    # Who waits for the answer to a late request asks for nothing else, even when all is well again.
    well_s = now_s - max(computer.trouble_at_s, computer.link.late_until_s)
    if computer.is_well and well_s > world.settings.node_lost_s:
        world.violation(f"{name} is LOST, although it has been well for {well_s:.0f} s")


def _the_silent_one_was_lost(world: World) -> None:
    """A node that is silent alone is LOST in the usual time, whatever happened before."""
    crash = world.scenario.crash
    if crash is None:
        return
    name = world.scenario.nodes[crash.target].name
    timings = world.scenario.timings
    usual_s = (
        timings.heartbeat_s * timings.node_suspect_missed
        + timings.node_lost_s
        + 4 * timings.controller_interval_s
    )
    late_s = world.lost_at_s.get(name, float("inf")) - crash.at_s - usual_s
    if late_s > 0:
        world.violation(
            f"{name} crashed alone and was LOST {late_s:.0f} s later than usual, or never"
        )


def judge_outages(world: World) -> None:
    """Where only the control plane was away: every attempt that has ended went well, made room as it
    was asked to, or was stopped by the searcher; no restart is charged."""
    for trial, no, state, termination, desired, reason in world.witness.rows(
        "SELECT a.trial_id, a.no, a.state, a.termination, t.desired, a.reason FROM attempts a "
        "JOIN trials t ON t.id = a.trial_id"
    ):
        is_stopped_early = (state, termination, desired) == (
            AttemptState.CANCELED,
            Termination.STOPPED_EARLY,
            "early",
        )
        # The searcher lets trials pause at their rungs.
        is_well = state in (AttemptState.SUCCEEDED, AttemptState.PREEMPTED) or is_stopped_early
        if state in TERMINAL_ATTEMPT and not is_well:
            world.violation(f"attempt {no} of trial {trial} is {state}: {reason}")
    for trial, user, infra in world.witness.rows(
        "SELECT id, failures_user, failures_infra FROM trials"
    ):
        if user or infra:
            world.violation(f"trial {trial} was charged {user} user and {infra} infra failures")


def judge(world: World) -> None:
    """Find every promise that was broken."""
    if world.scenario.are_only_outages:
        if world.scenario.crash is None:  # or it was judged before the crash, which costs attempts
            judge_outages(world)
        _the_silent_one_was_lost(world)
    _everything_has_ended(world)
    _every_slot_is_free(world)
    _nothing_lives(world)
    _every_acknowledged_record_is_there_once(world)
    _every_curve_is_the_true_one(world)
    _every_attempt_says_where_it_went_on(world)
    _every_log_is_whole(world)
    _no_gang_is_mixed(world)
    _budgets_are_exact(world)
    _every_ledger_closes(world)
    _every_change_has_its_event(world)


def _everything_has_ended(world: World) -> None:
    rows = world.witness.rows(
        "SELECT t.id, t.state, t.desired, t.reason, t.pending_reason, e.id, e.state FROM trials t "
        "JOIN experiments e ON e.id = t.experiment_id ORDER BY t.id"
    )
    outcomes: dict[str, int] = defaultdict(int)
    for trial, state, desired, reason, pending, experiment, experiment_state in rows:
        outcomes[state] += 1
        if state not in TERMINAL_TRIAL:
            world.violation(
                f"trial {trial} is still {state} ({desired} wanted): {pending or reason}"
            )
        elif experiment_state not in TERMINAL_EXPERIMENT:
            world.violation(f"experiment {experiment} is still {experiment_state}")
    world.history.outcomes = dict(outcomes)
    for attempt, state in world.witness.rows("SELECT id, state FROM attempts"):
        if state not in TERMINAL_ATTEMPT:
            world.violation(f"attempt {attempt} is still {state}")
    num = len(world.witness.rows("SELECT id FROM experiments"))
    if num != len(world.scenario.submissions):
        world.violation(
            f"{len(world.scenario.submissions)} experiments were submitted, there are {num}"
        )


def _every_slot_is_free(world: World) -> None:
    for node, idx, allocation in world.witness.rows(
        "SELECT node_id, idx, allocation_id FROM node_slots WHERE allocation_id IS NOT NULL"
    ):
        world.violation(f"slot {idx} of {node} is still held by {allocation}")
    for allocation, observed in world.witness.rows(
        "SELECT id, observed FROM allocations WHERE observed <> 'CLEANED'"
    ):
        world.violation(f"allocation {allocation} is still {observed}")


def _nothing_lives(world: World) -> None:
    for computer in world.computers:
        for shim in computer.living():
            world.violation(f"workers of {shim.gang.key} still live on {computer.name}")
        for allocation_id in computer.specs:
            world.violation(f"{computer.name} still keeps {allocation_id}")


def _every_acknowledged_record_is_there_once(world: World) -> None:
    # Records that came together are stored as one: what counts is each point.
    stored: Counter[tuple[str, int, int, float]] = Counter()
    for allocation, rank, body in world.witness.rows(
        "SELECT allocation_id, rank, body FROM metric_batches"
    ):
        points = decode_batch(body)[METRIC]
        pairs = zip(points.steps.tolist(), points.values.tolist(), strict=True)
        stored.update((allocation, rank, step, value) for step, value in pairs)
    acked_at_server = dict(world.witness.rows("SELECT id, acked_seq FROM allocations"))
    for (allocation, seq), numbered in world.witness.sent.items():
        if seq > acked_at_server.get(allocation, 0):
            world.violation(f"record {seq} of {allocation} was acknowledged and is forgotten")
        if isinstance(numbered.record, wire.MetricsRecord):
            (series,) = numbered.record.series
            for step, value in zip(series.steps, series.values, strict=True):
                times = stored[allocation, numbered.record.rank, step, float(value)]
                if times != 1:
                    world.violation(
                        f"step {step} (record {seq} of {allocation}) was acknowledged; "
                        f"it is stored {times} times"
                    )


def _every_attempt_says_where_it_went_on(world: World) -> None:
    """Whether it has made progress is judged by the step of its checkpoint."""
    for trial, no, said, step in world.witness.rows(
        "SELECT a.trial_id, a.no, a.resume_step, c.step FROM attempts a "
        "JOIN checkpoints c ON c.id = a.resume_checkpoint_id WHERE a.resume_step <> c.step"
    ):
        world.violation(
            f"attempt {no} of trial {trial} says step {said}, and its checkpoint is of {step}"
        )


def _every_curve_is_the_true_one(world: World) -> None:
    """What people see: each step once, with its true value, from the first to the last."""
    rows = world.witness.rows(
        "SELECT t.id, t.state, t.termination, e.name FROM trials t "
        "JOIN experiments e ON e.id = t.experiment_id"
    )
    for trial, state, _, name in rows:
        with world.database.read() as session:
            reply = metrics_series.series(session, trial, names=[METRIC], ranks=[0])
        steps = list(reply.series[0].step) if reply.series else []
        values = list(reply.series[0].last) if reply.series else []
        if steps != list(range(1, len(steps) + 1)):
            world.violation(f"trial {trial} shows steps {steps}")
        elif values != [world.loss(trial, step) for step in steps]:
            world.violation(f"trial {trial} shows wrong values")
        elif state == "COMPLETED" and len(steps) != world.scripts[name].num_steps:
            world.violation(
                f"trial {trial} is COMPLETED with {len(steps)} of "
                f"{world.scripts[name].num_steps} steps"
            )


def _every_log_is_whole(world: World) -> None:
    """A stream marked complete holds every byte that was written."""
    for allocation, size, is_complete in world.witness.rows(
        "SELECT allocation_id, size_bytes, is_complete FROM log_streams"
    ):
        written = world.witness.logged[allocation]
        if is_complete and size != len(written):
            world.violation(
                f"the log of {allocation} is complete with {size} of {len(written)} bytes"
            )


def _misfits(world: World, attempt: int) -> list[str]:
    """Nodes of a gang that have another version than most of it; of two, the one named later."""
    plans = {plan.name: plan for plan in world.scenario.nodes}
    names = [
        name
        for (name,) in world.witness.rows(
            f"SELECT node_name FROM allocations WHERE attempt_id = {attempt} ORDER BY node_name"
        )
    ]
    versions = [plans[name].torch_version for name in names]
    most = max(versions, key=versions.count, default="")
    return [name for name, version in zip(names, versions, strict=True) if version != most]


def _no_gang_is_mixed(world: World) -> None:
    """Workers of different versions never meet, and a node that did not fit into a gang is left out
    of what its trial tries for a while after."""
    kept_away: dict[int, dict[str, dt.datetime]] = defaultdict(dict)
    # An attempt has ended some time before that is decided, and the clock may be set in between.
    decided = {
        (trial, no): dt.datetime.fromisoformat(at)
        for trial, no, at in world.witness.rows(
            "SELECT trial_id, attempt_no, at FROM events WHERE type = 'trial.state' "
            "AND json_extract(data, '$.after') = 'RETRY_WAIT'"
        )
    }
    for attempt, trial, no, termination, began, started in world.witness.rows(
        "SELECT id, trial_id, no, termination, created_at, started_at FROM attempts "
        "ORDER BY trial_id, no"
    ):
        odd = _misfits(world, attempt)
        if odd and started is not None:
            world.violation(f"attempt {no} of trial {trial} ran with another version on {odd}")
        for (name,) in world.witness.rows(
            f"SELECT node_name FROM allocations WHERE attempt_id = {attempt}"
        ):
            until = kept_away[trial].get(name)
            if until is not None and dt.datetime.fromisoformat(began) < until:
                world.violation(
                    f"attempt {no} of trial {trial} is on {name}, avoided until {until}"
                )
        if termination == Termination.VERSIONS_DIFFER:
            world.history.num_avoided += len(odd)
            if (at := decided.get((trial, no))) is not None:
                until = at + dt.timedelta(seconds=AVOID_S)
                kept_away[trial] |= dict.fromkeys(odd, until)


def _budgets_are_exact(world: World) -> None:
    """Every failed attempt is charged to one budget, none twice, and no budget is overdrawn. That a
    node does not fit is charged from the second time on."""
    charged: dict[int, dict[RetryClass, int]] = defaultdict(lambda: defaultdict(int))
    left_out: dict[int, set[str]] = defaultdict(set)
    for attempt, trial, termination, no, last_no, trial_state in world.witness.rows(
        "SELECT a.id, a.trial_id, a.termination, a.no, t.attempt_no, t.state FROM attempts a "
        "JOIN trials t ON t.id = a.trial_id WHERE a.state IN ('FAILED', 'LOST') "
        "ORDER BY a.no"
    ):
        if no == last_no and trial_state != "FAILED":
            continue  # its trial was stopped meanwhile: nobody asked for a restart
        if termination == Termination.VERSIONS_DIFFER:
            odd = set(_misfits(world, attempt))
            if odd - left_out[trial]:
                left_out[trial] |= odd
                continue
        charged[trial][TERMINATIONS[Termination(termination)][1]] += 1
    for trial, state, termination, user, infra, desired, config in world.witness.rows(
        "SELECT t.id, t.state, t.termination, t.failures_user, t.failures_infra, "
        "t.desired, e.config FROM trials t JOIN experiments e ON e.id = t.experiment_id"
    ):
        allowed = json.loads(config)["restarts"]
        if desired != "run":
            continue
        for retry_class, used, budget in (
            (RetryClass.USER, user, allowed["user"]),
            (RetryClass.INFRA, infra, allowed["infra"]),
        ):
            num = charged[trial][retry_class]
            if used != num:
                world.violation(
                    f"trial {trial} was charged {used} {retry_class.value} failures, {num} happened"
                )
            if used > budget + (state == "FAILED"):
                world.violation(
                    f"trial {trial} used {used} of {budget} {retry_class.value} restarts"
                )
        if state == "FAILED" and termination != "no_progress":
            over = user > allowed["user"] or infra > allowed["infra"]
            if not over and TERMINATIONS[Termination(termination)][1] is not RetryClass.NONE:
                world.violation(f"trial {trial} FAILED although restarts were left")


_EVENTS = {
    "trial.state": "trial",
    "attempt.state": "attempt",
    "experiment.state": "experiment",
    "node.state": "node",
    "node.registered": "node",
}


def _every_ledger_closes(world: World) -> None:
    """Every slot-second that an attempt held is in one class, none of them below 0."""
    with world.database.read() as session:
        for attempt in session.scalars(select(AttemptRow).order_by(AttemptRow.id)):
            allocations = session.scalars(
                select(AllocationRow).where(AllocationRow.attempt_id == attempt.id)
            ).all()
            held = sum(
                len(a.slots) * max((a.ended_at - a.created_at).total_seconds(), 0.0)
                for a in allocations
                if a.ended_at is not None
            )
            found = account(session, attempt, None, now=clock.now())
            totals = summed(found.days.values()) if found is not None else {}
            if abs(allocated_s(totals) - held) > 1e-3 + 5e-3 * held:
                world.violation(
                    f"attempt {attempt.no} of trial {attempt.trial_id} held {held:.3f} slot-seconds, and "
                    f"its ledger says {totals}"
                )
            elif any(value < 0 for value in totals.values()):
                world.violation(f"the ledger of attempt {attempt.id} says {totals}")


def _every_change_has_its_event(world: World) -> None:
    """What people read tells every change of state, in order, without a gap."""
    attempts = {
        (trial, no): str(attempt)
        for attempt, trial, no in world.witness.rows("SELECT id, trial_id, no FROM attempts")
    }
    told: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for kind, experiment, trial, no, node, data in world.witness.rows(
        "SELECT type, experiment_id, trial_id, attempt_no, node_id, data FROM events ORDER BY id"
    ):
        if kind == "trial.placed":
            told["trial", str(trial)].append(("QUEUED", "STARTING"))
        elif kind in _EVENTS:
            fields = json.loads(data)
            what = _EVENTS[kind]
            subject = {
                "trial": str(trial),
                "attempt": attempts.get((trial, no), ""),
                "experiment": str(experiment),
                "node": str(node),
            }[what]
            if fields["before"] != fields["after"]:
                told[what, subject].append((fields["before"], fields["after"]))
    happened: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for change in world.witness.changes:
        if change.before is not None and change.what in _EVENTS.values():
            happened[change.what, change.subject].append((change.before, change.after))
    for key in sorted({*told, *happened}):
        if told[key] != happened[key]:
            world.violation(f"{' '.join(key)} went {happened[key]}, its events tell {told[key]}")
