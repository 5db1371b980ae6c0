"""Scaling reports: starting and canceling them, and what the controller does for them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, ScalingReportRow, TrialRow
from muster_server.domain.insight.cost_model.fitting import Transfer
from muster_server.domain.insight.cost_model.steps import MeasuredRun
from muster_server.domain.insight.scaling import (
    MIN_ROWS,
    SKIPPED_STEPS,
    Action,
    FinishReport,
    Impossible,
    Launch,
    Point,
    ReadMeasurements,
    Repeat,
    Report,
    StopRun,
    Underway,
    added,
    next_action,
    points,
    size_overrides,
)
from muster_server.domain.messages import english
from muster_server.domain.states import TERMINAL_EXPERIMENT
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.analysis.scaling import ScalingIn

from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from ..core.writes import Outdated
from ..experiments import operations
from ..quota import spending
from . import probes
from .scaling_runs import run_of


def start_report(session: Session, experiment_id: int, body: ScalingIn, caller: Caller) -> int:
    """Check all sizes and begin. Raises NotFound, Forbidden, and InvalidRequest with what cannot
    work at which size; Conflict while another report of the experiment goes on."""
    # Locked: of two that start at once, one sees what the other has begun.
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, caller.principal, experiment)
    going = session.scalar(
        select(ScalingReportRow.id).where(
            ScalingReportRow.experiment_id == experiment_id, ScalingReportRow.state == "running"
        )
    )
    if going is not None:
        raise Conflict(
            "scaling.running",
            f"Scaling report {going} of experiment {experiment_id} is still running.",
            hint="Wait for it, or cancel it.",
        )
    planned = points(body.slots, body.repeats)
    _check(session, experiment, planned, body, caller)
    row = ScalingReportRow(
        experiment_id=experiment_id,
        state="running",
        reason="",
        mode=body.mode,
        num_steps=body.steps,
        slot_hours=body.slot_hours,
        points=[_stored(point) for point in planned],
        user_id=caller.principal.user_id,
        requested_by=caller.principal.name,
        created_at=caller.now,
    )
    session.add(row)
    session.flush()
    sizes = ", ".join(str(s) for s in sorted(set(body.slots)))
    add_event(
        session,
        "experiment.scaling_started",
        f"{caller.principal.name} asked how it scales ({body.mode}) over {sizes} slots, "
        f"{len(planned)} runs.",
        now=caller.now,
        experiment_id=experiment_id,
        data={"report_id": row.id},
    )
    note(session, "scaling.started", experiment_id, caller, {"report_id": row.id})
    _tell(session, row)
    return row.id


def cancel_report(session: Session, report_id: int, caller: Caller) -> None:
    """End it and the run that goes on; what was measured stays. Harmless to repeat.

    Raises NotFound and Forbidden.
    """
    row = get_report(session, report_id, lock=True)
    experiment = get_experiment(session, row.experiment_id)
    require_charge(session, caller.principal, experiment)
    if row.state != "running":
        return
    row.state, row.ended_at = "canceled", caller.now
    row.reason = f"Canceled by {caller.principal.name}."
    index = _current(row)
    going = _probe(session, row, index) if index is not None else None
    if going is not None and going.state not in TERMINAL_EXPERIMENT:
        operations.KILL.apply(session, going, caller)
    note(session, "scaling.canceled", row.experiment_id, caller, {"report_id": row.id})
    _tell(session, row)


def get_report(session: Session, report_id: int, *, lock: bool = False) -> ScalingReportRow:
    """Raises NotFound."""
    row = session.get(ScalingReportRow, report_id, with_for_update=True if lock else None)
    if row is None:
        raise NotFound("scaling.not_found", f"There is no scaling report {report_id}.")
    get_experiment(session, row.experiment_id)
    return row


# ---------------------------------------------------------------- for the controller


ANY_RUNNING = exists().where(ScalingReportRow.state == "running")
"""Whether any scaling report is running."""


def find_actions(session: Session, *, now: dt.datetime) -> list[Action]:
    """Return the next action of each running report that needs one."""
    rows = session.scalars(
        select(ScalingReportRow)
        .where(ScalingReportRow.state == "running")
        .order_by(ScalingReportRow.id)
    )
    return [action for row in rows if (action := next_action(_seen(session, row, now))) is not None]


def carry_out(session: Session, action: Action, *, now: dt.datetime) -> None:
    """Raises Outdated when the report is past it."""
    row = session.get(ScalingReportRow, action.report_id, with_for_update=True)
    if row is None or row.state != "running" or next_action(_seen(session, row, now)) != action:
        raise Outdated(f"scaling report {action.report_id} is past it")
    if isinstance(action, FinishReport):
        row.state, row.reason, row.ended_at = action.state, action.reason, now
    elif isinstance(action, Launch):
        _launch(session, row, action.index, now)
    elif isinstance(action, StopRun):
        going = _probe(session, row, action.index)
        assert going is not None, "next_action has seen its state"
        probes.end_probe(session, going, action.reason, now=now)
    elif isinstance(action, Repeat):
        row.points = [*row.points, *map(_stored, added(stored_points(row), action.slots))]
    elif isinstance(action, ReadMeasurements):
        _measure(session, row, action.index)
    _tell(session, row)


def _launch(session: Session, row: ScalingReportRow, index: int, now: dt.datetime) -> None:
    source = session.get_one(ExperimentRow, row.experiment_id)
    stored = stored_points(row)
    point = stored[index]
    try:
        overrides = _overrides(session, source, point.slots, row.mode)
        if row.slot_hours is not None:
            whole = sum(p.slots for p in stored if not p.is_over)
            left = _slot_hours_left(session, row, now)
            overrides.append(f"budget.slot_hours={left * point.slots / whole:.9g}")
        with session.begin_nested():
            made = probes.launch_probe(
                session,
                source,
                overrides,
                purpose="scaling",
                name=f"{source.name}: scaling, {point.slots} slots, {point.repeat}"[:200],
                num_steps=row.num_steps + SKIPPED_STEPS,
                user_id=row.user_id,
                user_name=row.requested_by,
                now=now,
            )
    except (InvalidRequest, Impossible, Conflict, Forbidden) as error:
        _replace(row, index, replace(point, problem=f"It cannot be launched: {error}"))
        return
    _replace(row, index, replace(point, experiment_id=made))


def _measure(session: Session, row: ScalingReportRow, index: int) -> None:
    point = stored_points(row)[index]
    probe = _probe(session, row, index)
    if probe is None:
        _replace(row, index, replace(point, problem="Its experiment was deleted."))
        return
    trial = session.scalars(select(TrialRow).where(TrialRow.experiment_id == probe.id)).one()
    run = run_of(session, probe, trial, num_rows=row.num_steps)
    if run is None or run.num_steps < MIN_ROWS:
        why = trial.reason or probe.reason or "nothing says why"
        found = 0 if run is None else run.num_steps
        problem = (
            f"It measured {found} steps, and {MIN_ROWS} are needed; it is {probe.state}: {why}"
        )
        _replace(row, index, replace(point, problem=problem))
        return
    _replace(row, index, replace(point, run=run))


# ---------------------------------------------------------------- stored points


def stored_points(row: ScalingReportRow) -> list[Point]:
    return [_restored(entry) for entry in row.points]


def _stored(point: Point) -> dict[str, Any]:
    return asdict(point)


def _restored(entry: dict[str, Any]) -> Point:
    run = entry["run"]
    if run is not None:
        lists = {
            name: tuple(Transfer(**t) for t in run.get(name, ())) for name in ("transfers", "timed")
        }
        run = MeasuredRun(**{**run, **lists})
    return Point(**{**entry, "run": run})


def _replace(row: ScalingReportRow, index: int, point: Point) -> None:
    row.points = [*row.points[:index], _stored(point), *row.points[index + 1 :]]


def _current(row: ScalingReportRow) -> int | None:
    return next((i for i, p in enumerate(stored_points(row)) if not p.is_over), None)


def _seen(session: Session, row: ScalingReportRow, now: dt.datetime) -> Report:
    stored = stored_points(row)
    index = _current(row)
    underway = None
    if index is not None and stored[index].experiment_id is not None:
        probe = _probe(session, row, index)
        underway = Underway(state=None, step=0, is_stopping=False)
        if probe is not None:
            trials = session.execute(
                select(TrialRow.step, TrialRow.desired).where(TrialRow.experiment_id == probe.id)
            ).all()
            underway = Underway(
                state=probe.state,
                step=max((step for step, _ in trials), default=0),
                is_stopping=probe.desired != "run" or any(d != "run" for _, d in trials),
            )
    return Report(
        id=row.id,
        points=tuple(stored),
        num_steps=row.num_steps,
        underway=underway,
        has_slot_hours=_slot_hours_left(session, row, now) > 0,
    )


def _slot_hours_left(session: Session, row: ScalingReportRow, now: dt.datetime) -> float:
    """Return the slot hours left of the report's own budget, which its runs share; infinite without
    a budget, never below 0."""
    if row.slot_hours is None:
        return math.inf
    ids = [entry["experiment_id"] for entry in row.points if entry["experiment_id"] is not None]
    spent = spending.of_experiments(session, ExperimentRow.id.in_(ids), now)
    return max(row.slot_hours - sum(s.slot_hours for s in spent.values()), 0.0)


def _probe(session: Session, row: ScalingReportRow, index: int) -> ExperimentRow | None:
    probe = session.get(ExperimentRow, row.points[index]["experiment_id"] or 0)
    return probe if probe is not None and probe.deleting_at is None else None


# ---------------------------------------------------------------- documents


def _overrides(session: Session, source: ExperimentRow, slots: int, mode: str) -> list[str]:
    hparams = probes.chosen_hparams(session, source)
    return size_overrides(
        source.config, hparams, slots=slots, mode="strong" if mode == "strong" else "weak"
    )


def _check(
    session: Session,
    experiment: ExperimentRow,
    planned: Sequence[Point],
    body: ScalingIn,
    caller: Caller,
) -> None:
    problems: list[FieldProblem] = []
    for slots in sorted({p.slots for p in planned}):
        try:
            overrides = _overrides(session, experiment, slots, body.mode)
            probes.check_probe(
                session,
                experiment,
                overrides,
                purpose="scaling",
                num_steps=body.steps + SKIPPED_STEPS,
                user_id=caller.principal.user_id,
                role=caller.principal.role,
                now=caller.now,
            )
        except Impossible as error:
            problems.append(FieldProblem("slots", f"{slots}: {error}", error.hint))
        except InvalidRequest as error:
            problems += [
                FieldProblem("slots", f"{slots}: {f.path}: {english(f.message)}", f.hint)
                for f in error.fields
            ]
    if problems:
        raise InvalidRequest(
            "scaling.impossible",
            "The experiment cannot be run at all of these sizes.",
            fields=problems,
        )


def _tell(session: Session, row: ScalingReportRow) -> None:
    touch(session, "loops", f"experiment:{row.experiment_id}")
