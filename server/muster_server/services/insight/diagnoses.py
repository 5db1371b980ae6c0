"""Diagnoses: probes launched, judged when they have ended, and what became of the advice.

All there is to know of a diagnosis under way is in its row and in the experiment of its probes, whose
trials run one at a time because its search says so: whichever process goes on with it needs
nothing else.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.document.training import TrainerSection
from muster_server.db.engine import touch
from muster_server.db.models import DiagnosisRow, ExperimentRow, NodeSlotRow, TrialRow, WorkerRow
from muster_server.domain.insight import diagnosis
from muster_server.domain.insight.diagnosis import Breakdown, Diagnosis, LeftOut, ProbeRun
from muster_server.domain.insight.diagnosis.planning import WARM_UP_STEPS
from muster_server.domain.scheduling.resources import request_for
from muster_server.domain.scheduling.room import num_fitting
from muster_server.domain.states import TERMINAL_EXPERIMENT, TrialState
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.analysis.diagnoses import DiagnoseIn, DiagnosisOut
from muster_server.schemas.base import Page
from muster_server.schemas.operations import ForkIn
from muster_server.settings import Settings

from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_experiment, get_trial
from ..core.paging import read_page
from ..core.writes import Outdated
from ..experiments import operations
from ..experiments.forks import as_submission
from ..experiments.submission import create_experiment
from ..runtime.process_groups import process_groups
from ..scheduling.rows import NODES, node_view
from .diagnosis_views import diagnosis_out
from .foreign_use import SHOWN_MAX, foreign_uses
from .performance import MeasuredRows, newest_rows
from .probes import launch_probe
from .throughput import samples_per_s

ROWS_MAX = 1000
UNCOUPLED = frozenset({"no_sync", "alone"})
"""Probes whose ranks do not wait for each other."""
OBSERVED_ROWS = 200
"""The newest rows of a training that is not probed."""
OBSERVED_BLOCKS = 10


def start(
    session: Session, trial_id: int, body: DiagnoseIn, by: Caller, *, settings: Settings
) -> DiagnosisOut:
    """Launch the probes of a trial of the built-in trainer; judge any other by what it has measured.

    Raises NotFound, Conflict while another diagnosis of it runs, and what a submission raises.
    """
    trial = get_trial(session, trial_id)
    # Locked: of two that start at once, one sees what the other has begun.
    experiment = get_experiment(session, trial.experiment_id, lock=True)
    _require_none_running(session, trial)
    row = DiagnosisRow(
        trial_id=trial_id,
        state="running",
        plan={},
        created_by=by.principal.name,
        created_at=by.now,
    )
    if experiment.config.trainer is None:
        session.add(row)
        found = _judge_observed(session, trial, experiment)
        _end(row, _with_foreign(session, [trial], found), by.now)
    else:
        _launch(session, row, trial, experiment, body, by, settings)
    session.flush()
    note(session, "trials.diagnosed", experiment.id, by, {"trial": trial_id, "diagnosis": row.id})
    touch(session, f"trial:{trial_id}")
    return diagnosis_out(session, row)


def _require_none_running(session: Session, trial: TrialRow) -> None:
    running = session.scalar(
        select(DiagnosisRow.id).where(
            DiagnosisRow.trial_id == trial.id, DiagnosisRow.state == "running"
        )
    )
    if running is not None:
        raise Conflict(
            "diagnoses.running",
            f"Trial {trial.address} is being diagnosed already (diagnosis {running}).",
            hint="Wait for it, or cancel it.",
        )


def _launch(
    session: Session,
    row: DiagnosisRow,
    trial: TrialRow,
    experiment: ExperimentRow,
    body: DiagnoseIn,
    by: Caller,
    settings: Settings,
) -> None:
    step_ms, num_bytes = _measured_so_far(session, trial)
    planned = diagnosis.plan(
        experiment.config,
        repeats=body.repeats or settings.diagnosis_repeats,
        max_steps=body.steps or settings.diagnosis_steps,
        max_probe_s=settings.diagnosis_probe_s,
        step_ms=step_ms,
        bytes_per_step=num_bytes,
    )
    changes = {
        "hyperparameters.probe": {"choice": list(planned.probes)},
        "search": {"method": "grid", "concurrent": 1},
        "budget": {"deadline": f"{settings.diagnosis_max_s:g}s"},
    }
    row.plan = asdict(planned)
    row.probes_id = launch_probe(
        session,
        experiment,
        [f"{path}={json.dumps(value)}" for path, value in changes.items()],
        purpose="diagnose",
        name=f"Diagnosis of trial {trial.address}",
        num_steps=planned.steps,
        user_id=by.principal.user_id,
        user_name=by.principal.name,
        role=by.principal.role,
        now=by.now,
        hparams=trial.hparams,
    )
    session.add(row)
    add_event(
        session,
        "trial.diagnosis_started",
        f"{by.principal.name} had it diagnosed, by {len(planned.probes)} probes of {planned.steps} "
        f"steps in experiment {row.probes_id}.",
        now=by.now,
        experiment_id=experiment.id,
        trial_id=trial.id,
        data={"experiment_id": row.probes_id},
    )


def _measured_so_far(session: Session, trial: TrialRow) -> tuple[float | None, float | None]:
    """Return its step time in ms and payload per step in bytes, where it has measured them."""
    rows = newest_rows(session, trial.id, trial.attempt_no, OBSERVED_ROWS)
    times = diagnosis.step_times(rows.ranks, skip=0)
    sent = [v for r in rows.ranks.values() for v in r.get("comm/bytes", {}).values()]
    return max(times.values(), default=None), max(sent, default=None)


# ---------------------------------------------------------------- the end


@dataclass(frozen=True, kw_only=True)
class Due:
    """A diagnosis whose probes have ended."""

    diagnosis_id: int
    reason: str


ANY_RUNNING = exists().where(DiagnosisRow.state == "running")
"""Whether any diagnosis is running."""


def due(session: Session) -> list[Due]:
    """Diagnoses to be judged: nothing of their probes is under way any more."""
    found = session.execute(
        select(DiagnosisRow.id, ExperimentRow.state, ExperimentRow.deleting_at)
        .outerjoin(ExperimentRow, ExperimentRow.id == DiagnosisRow.probes_id)
        .where(DiagnosisRow.state == "running")
    )
    return [
        Due(
            diagnosis_id=row_id,
            reason="its probes were deleted" if gone else f"its probes are {state}",
        )
        for row_id, state, deleting_at in found
        for gone in [state is None or deleting_at is not None]
        if gone or state in TERMINAL_EXPERIMENT
    ]


def finish(session: Session, decision: Due, *, now: dt.datetime) -> None:
    """Judge it. Raises Outdated when it has ended meanwhile."""
    row = session.get(DiagnosisRow, decision.diagnosis_id, with_for_update=True)
    if row is None or row.state != "running":
        raise Outdated(f"diagnosis {decision.diagnosis_id} has ended")
    trial = session.get_one(TrialRow, row.trial_id)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    runs = _runs(session, row)
    found = _judge(session, row, trial, experiment, runs)
    _end(row, _with_foreign(session, probe_trials(session, row), found), now)
    row.baseline = _baseline(session, row)
    assert row.result is not None
    add_event(
        session,
        "trial.diagnosed",
        f"Diagnosis: {row.result['verdict']}. {row.result['reason']}",
        now=now,
        experiment_id=experiment.id,
        trial_id=trial.id,
        data={"diagnosis_id": row.id},
    )
    touch(session, f"trial:{trial.id}")


def cancel(session: Session, diagnosis_id: int, by: Caller) -> DiagnosisOut:
    """End it and its probes. One that has ended stays as it is.

    Raises NotFound, and Forbidden when somebody else has begun it: the probes are theirs.
    """
    row = _get(session, diagnosis_id, lock=True)
    if by.principal.role != "admin" and row.created_by != by.principal.name:
        raise Forbidden(
            "diagnoses.not_yours",
            f"Diagnosis {diagnosis_id} was begun by {row.created_by}, who may cancel it, as "
            "administrators may.",
            hint="Wait for it to end.",
        )
    if row.state == "running":
        if row.probes_id is not None:
            probes = session.get(ExperimentRow, row.probes_id)
            if probes is not None and probes.deleting_at is None:
                operations.run(session, operations.KILL, row.probes_id, by)
        row.state, row.ended_at = "canceled", by.now
        touch(session, f"trial:{row.trial_id}", "loops")
    session.flush()
    return diagnosis_out(session, row)


def apply(session: Session, diagnosis_id: int, kind: str, by: Caller) -> DiagnosisOut:
    """Launch the training anew with an advice: a fork of its experiment that begins where it began,
    with the trial's hyperparameters and the advised changes.

    Raises NotFound, and InvalidRequest when there is no such advice, or nothing of it to launch.
    """
    row = _get(session, diagnosis_id, lock=True)
    advice = {a["kind"]: a for a in (row.result or {}).get("advice", [])}
    if kind not in advice or not advice[kind]["overrides"]:
        possible = [name for name, a in advice.items() if a["overrides"]]
        raise InvalidRequest(
            "diagnoses.no_such_advice",
            f"Diagnosis {diagnosis_id} has no advice {kind!r} that can be launched.",
            fields=[
                FieldProblem(
                    "advice",
                    "names no advice with a change of the document",
                    f"possible: {', '.join(possible)}" if possible else "it has none",
                )
            ],
        )
    trial = get_trial(session, row.trial_id)
    source = get_experiment(session, trial.experiment_id)
    fixed = [
        f"search={json.dumps({'method': 'single'})}",
        f"hyperparameters={json.dumps(trial.hparams)}",
        f"name={json.dumps(f'{source.name} ({kind})'[:200])}",
    ]
    made = create_experiment(
        session,
        as_submission(session, source, ForkIn(overrides=[*fixed, *advice[kind]["overrides"]])),
        user_id=by.principal.user_id,
        user_name=by.principal.name,
        role=by.principal.role,
        now=by.now,
        parent=source,
    )
    row.applied = [*row.applied, {"advice": kind, "experiment_id": made.experiment_id}]
    note(session, "diagnoses.applied", made.experiment_id, by, {"diagnosis": row.id})
    touch(session, f"trial:{row.trial_id}")
    session.flush()
    return diagnosis_out(session, row)


# ---------------------------------------------------------------- looking


def get(session: Session, diagnosis_id: int) -> DiagnosisOut:
    """Raises NotFound. While it runs: what its probes have measured so far."""
    row = _get(session, diagnosis_id)
    return _shown(session, row)


def list_of(
    session: Session, trial_id: int, *, cursor: str | None, limit: int
) -> Page[DiagnosisOut]:
    """Return one page of a trial's diagnoses, newest first. Raises NotFound."""
    get_trial(session, trial_id)
    query = select(DiagnosisRow).where(DiagnosisRow.trial_id == trial_id)
    rows, following = read_page(
        session, query, DiagnosisRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    return Page(items=[_shown(session, row) for row in rows], next=following)


def _shown(session: Session, row: DiagnosisRow) -> DiagnosisOut:
    if row.state != "running":
        return diagnosis_out(session, row)
    trial = session.get_one(TrialRow, row.trial_id)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    runs = _runs(session, row)
    so_far = _judge(session, row, trial, experiment, runs) if runs else None
    return diagnosis_out(session, row, so_far=so_far)


def _get(session: Session, diagnosis_id: int, *, lock: bool = False) -> DiagnosisRow:
    row = session.get(DiagnosisRow, diagnosis_id, with_for_update=True if lock else None)
    if row is None:
        raise NotFound("diagnoses.not_found", f"There is no diagnosis {diagnosis_id}.")
    get_trial(session, row.trial_id)
    return row


def _end(row: DiagnosisRow, found: Diagnosis, now: dt.datetime) -> None:
    row.state, row.ended_at = "complete", now
    row.result = asdict(found)


# ---------------------------------------------------------------- judging


def probe_trials(session: Session, row: DiagnosisRow) -> list[TrialRow]:
    """Return the trials of its probes, in the order in which they run."""
    if row.probes_id is None:
        return []
    query = select(TrialRow).where(TrialRow.experiment_id == row.probes_id)
    return list(session.scalars(query.order_by(TrialRow.no)))


def _runs(session: Session, row: DiagnosisRow) -> list[ProbeRun]:
    """Return the measurements of the probes that completed."""
    found = []
    for trial in probe_trials(session, row):
        if trial.state != TrialState.COMPLETED:
            continue
        rows = newest_rows(session, trial.id, trial.attempt_no, ROWS_MAX)
        times = diagnosis.step_times(rows.ranks, skip=WARM_UP_STEPS)
        if not times:
            continue
        probe = str(trial.hparams["probe"]).rpartition("/")[0]
        groups = process_groups(session, trial.id, trial.attempt_no)
        parts = (
            diagnosis.breakdown(
                rows.ranks, groups, skip=WARM_UP_STEPS, bucket_steps=rows.bucket_steps
            )
            if probe not in UNCOUPLED
            else None
        )
        found.append(ProbeRun(probe=probe, step_ms=times, breakdown=parts))
    return found


def _judge(
    session: Session,
    row: DiagnosisRow,
    trial: TrialRow,
    experiment: ExperimentRow,
    runs: Sequence[ProbeRun],
) -> Diagnosis:
    config = experiment.config
    trainer = config.trainer or TrainerSection()
    last = next((t for t in reversed(probe_trials(session, row)) if t.attempt_no), trial)
    nodes = _nodes(session, last)
    return diagnosis.judge(
        runs,
        left_out=[LeftOut(**o) for o in row.plan["left_out"]],
        strategy=config.strategy,
        prefetch=trial.hparams.get("prefetch", trainer.prefetch),
        slots=config.resources.slots,
        nodes=nodes,
        denied=config.resources.deny_nodes,
        spare=_spare(session, config, set(nodes.values())),
    )


def _judge_observed(session: Session, trial: TrialRow, experiment: ExperimentRow) -> Diagnosis:
    rows = newest_rows(session, trial.id, trial.attempt_no, OBSERVED_ROWS)
    groups = process_groups(session, trial.id, trial.attempt_no)
    blocks = [
        found
        for first, last in _edges(rows)
        if (found := _block(rows, groups, first, last)) is not None
    ]
    return diagnosis.judge_observed(
        blocks, slots=experiment.config.resources.slots, nodes=_nodes(session, trial)
    )


def _with_foreign(session: Session, trials: Sequence[TrialRow], found: Diagnosis) -> Diagnosis:
    """Return a diagnosis that also says who used the devices of what was measured."""
    uses = [use for trial in trials for use in foreign_uses(session, trial.id, trial.attempt_no)]
    notes = [f"{use}: its steps may be slower for that." for use in dict.fromkeys(uses)]
    return replace(found, notes=(*found.notes, *notes[:SHOWN_MAX]))


def _edges(rows: MeasuredRows) -> list[tuple[int, int]]:
    """First and last steps of equal blocks of the window; none without rows."""
    if rows.first_step is None or rows.last_step is None:
        return []
    num = rows.last_step - rows.first_step + 1
    edges = [rows.first_step + num * i // OBSERVED_BLOCKS for i in range(OBSERVED_BLOCKS + 1)]
    return [(a, b - 1) for a, b in itertools.pairwise(edges) if b > a]


def _block(rows: MeasuredRows, groups: Sequence[Any], first: int, last: int) -> Breakdown | None:
    cut = {
        rank: {
            name: {s: v for s, v in series.items() if first <= s <= last}
            for name, series in of_rank.items()
        }
        for rank, of_rank in rows.ranks.items()
    }
    return diagnosis.breakdown(cut, groups, skip=0, bucket_steps=rows.bucket_steps)


def _nodes(session: Session, trial: TrialRow) -> dict[int, str]:
    """Rank → node of a trial's current attempt."""
    found = session.execute(
        select(WorkerRow.rank, WorkerRow.node_name).where(
            WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == trial.attempt_no
        )
    )
    return {row.rank: row.node_name for row in found}


def _spare(session: Session, config: ExperimentConfig, names: Iterable[str]) -> set[str]:
    """Return the nodes without which the cluster, were it empty, could train a configuration."""
    request = request_for(config)
    nodes = [node_view(row, ()) for row in session.execute(NODES)]
    per_node = (
        select(NodeSlotRow.node_id, func.count().label("num"))
        .where(NodeSlotRow.slot_type == request.slot_type, NodeSlotRow.is_gone.is_(False))
        .group_by(NodeSlotRow.node_id)
    )
    slots = {row.node_id: row.num for row in session.execute(per_node)}
    found = set()
    for name in names:
        without = replace(request, deny_nodes=(*request.deny_nodes, name))
        if num_fitting(without, nodes, slots, at_most=1):
            found.add(name)
    return found


def _baseline(session: Session, row: DiagnosisRow) -> float | None:
    rates = [
        rate.value
        for trial in probe_trials(session, row)
        if trial.hparams["probe"].startswith("as_is/") and trial.state == TrialState.COMPLETED
        if (rate := samples_per_s(session, trial)) is not None
    ]
    return sum(rates) / len(rates) if rates else None
