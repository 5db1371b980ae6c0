"""Where the next attempt of a trial finds the files of the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from muster.byte_sizes import parse_size
from muster.document.experiment import ExperimentConfig
from muster.document.running import CodeSection
from muster.wire import ADOPTED_SEQ, OutputsSpec, WorkSource
from muster_server.db.models import AttemptRow, CheckpointRow, TrialOutputsRow, TrialRow
from muster_server.db.rows import from_row

from ..checkpoints.lookup import ADOPTED, OBJECT_STORE
from .manifests import rows_of


def outputs_spec(config: ExperimentConfig) -> OutputsSpec | None:
    """Return what agents keep of a job's files; None: nothing."""
    outputs = config.outputs
    if outputs is None:
        return None
    return OutputsSpec(
        include=list(outputs.include),
        exclude=list(outputs.exclude),
        max_bytes=parse_size(outputs.max_size),
        every_s=outputs.every_s,
        adopt=(config.code or CodeSection()).within(config.checkpoints.adopt or ""),
    )


def work_sources(
    session: Session,
    trial_id: int,
    *,
    source_checkpoint_id: int | None,
    num_members: int,
    is_of_roles: bool,
    cluster_id: str,
) -> Mapping[int, list[WorkSource]]:
    """Return what each node rank of the next attempt restores its work folder from: the files of its
    own rank, and those of rank 0. Empty for a first attempt, unless it starts from a checkpoint that
    another trial's script saved. After retention has deleted its files, a trial starts from the newest
    checkpoint of its own script.

    After an attempt on another number of nodes there is one set of files that makes sense to all,
    that of rank 0. Members of a gang of roles have their own files alone.
    """
    # Before its first manifest a node may have told of a problem: there is nothing to restore, as
    # there is not after retention has deleted it.
    rows = [row for row in rows_of(session, trial_id) if row.seq > 0 and row.deleted_at is None]
    if not rows:
        own_id = session.scalar(
            select(CheckpointRow.id)
            .where(
                CheckpointRow.trial_id == trial_id,
                CheckpointRow.kind == ADOPTED,
                CheckpointRow.state == "complete",
            )
            .order_by(CheckpointRow.step.desc(), CheckpointRow.id.desc())
            .limit(1)
        )
        return _of_checkpoint(
            session, own_id or source_checkpoint_id, num_nodes=num_members, cluster_id=cluster_id
        )
    newest = max(row.attempt_no for row in rows)
    num_before = session.scalar(
        select(AttemptRow.num_nodes).where(AttemptRow.trial_id == trial_id, AttemptRow.no == newest)
    )
    by_rank = {row.node_rank: _source(row, cluster_id) for row in rows}
    if is_of_roles:
        return {rank: [source] for rank, source in by_rank.items()}
    first = [by_rank[0]] if 0 in by_rank else []
    if num_before != num_members:
        return dict.fromkeys(range(num_members), first)
    return {
        rank: [by_rank[rank], *first] if rank and rank in by_rank else first
        for rank in range(num_members)
    }


def _of_checkpoint(
    session: Session, checkpoint_id: int | None, *, num_nodes: int, cluster_id: str
) -> Mapping[int, list[WorkSource]]:
    """Return the files of an adopted checkpoint; empty for any other."""
    row = session.scalar(
        select(CheckpointRow)
        .options(undefer(CheckpointRow.parts))
        .where(CheckpointRow.id == (checkpoint_id or 0), CheckpointRow.kind == ADOPTED)
    )
    if row is None:
        return {}
    trial = session.get_one(TrialRow, row.trial_id)
    found = {}
    for part in row.parts:
        place = f"{part['storage_url']}/muster-{cluster_id}/{part['path']}"
        found[part["node_rank"]] = WorkSource(
            node_rank=part["node_rank"],
            attempt_no=0,
            seq=ADOPTED_SEQ,
            node_id=part["node_id"],
            storage_id="" if part["storage_url"] else part["storage_id"],
            storage_url=place if part["storage_url"] else "",
            folder=part["path"],
            size_bytes=part["size_bytes"],
            source=f"step {row.step:,} of trial {trial.address}",
        )
    first = found[min(found)]
    return {rank: [found.get(rank, first)] for rank in range(num_nodes)}


def _source(row: TrialOutputsRow, cluster_id: str) -> WorkSource:
    url = f"{row.storage_url}/muster-{cluster_id}/{row.folder}" if row.storage_url else ""
    storage_id = "" if row.storage_id == OBJECT_STORE else row.storage_id
    return from_row(WorkSource, row, storage_id=storage_id, storage_url=url, source="")
