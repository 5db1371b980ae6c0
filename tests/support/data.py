"""Rows that tests and benchmarks of the data path need: a trial with attempts and allocations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.wire import MetricsRecord, SeriesPoints, encode_number
from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    ProcessGroupRow,
    ProjectRow,
    TrialRow,
    WorkerRow,
)
from muster_server.services.documents import resolve
from muster_server.services.metrics import ingest

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
LATE_STEPS = range(1, 201)
"""Steps of `add_late_trial`."""
DOCUMENT = "name: data\nentrypoint: -m data\nresources: {slots: 2}\n"


@cache
def _config() -> ExperimentConfig:
    resolved = resolve(DOCUMENT)
    assert resolved.config is not None, resolved.problems
    return resolved.config


def add_experiment(
    session: Session, *, metric_name: str | None = None, project: str = "default"
) -> ExperimentRow:
    """One that runs, with the configuration that its document resolves to."""
    row = session.scalars(select(ProjectRow).where(ProjectRow.name == project)).first()
    if row is None:
        row = ProjectRow(name=project, submission="all", created_at=NOW)
        session.add(row)
        session.flush()
    experiment = ExperimentRow(
        project_id=row.id,
        name="data",
        state="RUNNING",
        document=DOCUMENT,
        config=_config(),
        priority=50,
        slots_per_trial=2,
        metric_name=metric_name,
        metric_goal="min" if metric_name else None,
        created_at=NOW,
    )
    session.add(experiment)
    session.flush()
    return experiment


def add_trial(session: Session, experiment: ExperimentRow, *, no: int = 1) -> TrialRow:
    trial = TrialRow(
        experiment_id=experiment.id,
        no=no,
        hparams={},
        seed=no,
        state="RUNNING",
        queued_at=NOW,
        created_at=NOW,
    )
    session.add(trial)
    session.flush()
    return trial


def add_attempt(
    session: Session,
    trial: TrialRow,
    *,
    no: int = 1,
    resume_step: int = 0,
    num_nodes: int = 1,
    slots: int = 2,
    log_limit_bytes: int = 1 << 30,
) -> list[AllocationRow]:
    """An attempt that is now the trial's current one; one allocation per node."""
    attempt = AttemptRow(
        trial_id=trial.id,
        no=no,
        state="RUNNING",
        world_size=num_nodes * slots,
        num_nodes=num_nodes,
        resume_step=resume_step,
        controller_epoch=1,
        created_at=NOW,
    )
    session.add(attempt)
    session.flush()
    trial.attempt_no = no
    allocations = []
    for node_rank in range(num_nodes):
        allocation = AllocationRow(
            id=f"t{trial.id}a{no}n{node_rank}",
            attempt_id=attempt.id,
            trial_id=trial.id,
            attempt_no=no,
            node_id=f"n{node_rank}",
            node_name=f"node-{node_rank + 1}",
            node_rank=node_rank,
            slots=list(range(slots)),
            rank_offset=node_rank * slots,
            desired="start",
            observed="RUNNING",
            spec={"log_limit_bytes": log_limit_bytes},
            created_at=NOW,
            state_since=NOW,
        )
        session.add(allocation)
        allocations.append(allocation)
    session.flush()
    return allocations


def add_worker(
    session: Session, allocation: AllocationRow, local_rank: int, *, rank: int | None = None
) -> WorkerRow:
    worker = WorkerRow(
        allocation_id=allocation.id,
        trial_id=allocation.trial_id,
        attempt_no=allocation.attempt_no,
        rank=allocation.rank_offset + local_rank if rank is None else rank,
        local_rank=local_rank,
        node_rank=allocation.node_rank,
        world_size=2,
        node_name=allocation.node_name,
        slot=local_rank,
        pid=100 + local_rank,
        host="localhost",
        master_addr="127.0.0.1",
        master_port=29500,
        started_at=NOW,
    )
    session.add(worker)
    session.flush()
    return worker


def metrics_record(
    points: dict[str, Sequence[tuple[int, float]]],
    *,
    rank: int = 0,
    local_rank: int | None = None,
    epoch: float | None = None,
    num_steps_planned: int | None = None,
) -> MetricsRecord:
    """A record of (step, value) pairs per name; step s is reported at 1,000,000 + 1,000 s ms."""
    return MetricsRecord(
        local_rank=rank if local_rank is None else local_rank,
        rank=rank,
        series=[
            SeriesPoints(
                name=name,
                steps=[s for s, _ in pairs],
                times_ms=[1_000_000 + 1_000 * s for s, _ in pairs],
                values=[encode_number(v) for _, v in pairs],
            )
            for name, pairs in points.items()
        ],
        step=max((s for pairs in points.values() for s, _ in pairs), default=0),
        epoch=epoch,
        num_steps_planned=num_steps_planned,
    )


def add_late_trial(
    database: Database, recorded: Sequence[int] = LATE_STEPS, *, windows: bool = False
) -> TrialRow:
    """Two ranks; the second one's data come 50 ms late in the newest half of 200 steps. recorded: steps
    of which the parts are known. windows: whether these are windows of the profiler."""
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row)
        session.add(
            ProcessGroupRow(
                trial_id=row.id,
                attempt_no=row.attempt_no,
                name="world",
                kind="world",
                backend="gloo",
                ranks=[0, 1],
            )
        )
        for rank in (0, 1):
            late = {s: 50.0 if s > 100 else 0.0 for s in LATE_STEPS}
            waits = {s: late[s] if rank == 0 else 0.0 for s in LATE_STEPS}
            values: dict[str, Sequence[tuple[int, float]]] = {
                "time/step_ms": [(s, 100.0 + late[s]) for s in LATE_STEPS],
                "time/forward_ms": [(s, 95.0) for s in recorded],
                "time/data_wait_ms": [(s, late[s] if rank == 1 else 0.0) for s in recorded],
                "comm/exposed_ms": [(s, 5.0 + waits[s]) for s in recorded],
                "comm/world/exposed_ms": [(s, 5.0 + waits[s]) for s in recorded],
                "comm/world/all_reduce/time_ms": [(s, 5.0 + waits[s]) for s in recorded],
                "comm/world/all_reduce/bytes": [(s, 1e6) for s in recorded],
                "comm/world/all_reduce/count": [(s, 3.0) for s in recorded],
                "train/loss": [(s, 1.0) for s in LATE_STEPS],
            }
            if windows:
                values["comm/timeline_steps"] = [(s, 1.0) for s in recorded]
            record = metrics_record(values, rank=rank)
            ingest.ingest(session, allocation=allocation, seq=rank + 1, record=record, at=NOW)
    return row
