"""What somebody needs to run a trial again: where its settings come from, the commit of its code, and
what its processes ran with."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, AttemptRow, BlobRow, ExperimentRow
from muster_server.schemas.reproduction import CodeVersionOut, JobEnvironmentOut, ReproductionOut

from ..core.lookup import get_trial
from ..documents import resolve
from ..documents.entrypoints import planned_command

_UNTOLD = {"image": "", "image_id": "", "image_digest": "", "variables": {}}
"""What an environment lacks that an older agent has told."""


def of_trial(session: Session, trial_id: int) -> ReproductionOut:
    """Return what is known about the newest attempt that has told its environment. Raises NotFound."""
    trial = get_trial(session, trial_id)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    origins = (
        {} if experiment.unmanaged else resolve(experiment.document, experiment.overrides).origins
    )
    if experiment.num_guards and origins.get("guards") == "default":
        origins["guards"] = "project"
    blob = session.scalar(
        select(BlobRow.size_bytes).where(BlobRow.sha256 == experiment.blob_sha256)
    )
    told = session.execute(
        select(AllocationRow, AttemptRow.num_nodes, AllocationRow.environment)
        .join(AttemptRow, AttemptRow.id == AllocationRow.attempt_id)
        .where(AllocationRow.trial_id == trial_id, AllocationRow.node_rank == 0)
        .order_by(AllocationRow.attempt_no.desc())
        .limit(1)
    ).one_or_none()
    version = experiment.code_version
    command: list[str] = []
    environment = None
    if told is not None:
        allocation, num_nodes, found = told
        command = planned_command(
            experiment.config,
            num_nodes=num_nodes,
            node_rank=0,
            num_local=len(allocation.slots),
            role=allocation.role,
        )
        if found is not None:
            environment = JobEnvironmentOut(
                attempt_no=allocation.attempt_no,
                node_name=allocation.node_name,
                **{**_UNTOLD, **found},
            )
    return ReproductionOut(
        origins=origins,
        command=command,
        code_sha256=experiment.blob_sha256,
        code_size_bytes=blob,
        code_version=None if version is None else CodeVersionOut(**version),
        environment=environment,
    )
