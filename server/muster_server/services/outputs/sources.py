"""Where the next attempt of a trial finds the files of the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.byte_sizes import parse_size
from muster.document.experiment import ExperimentConfig
from muster.wire import OutputsSpec, WorkSource
from muster_server.db.models import AttemptRow, TrialOutputsRow

from ..checkpoints.lookup import OBJECT_STORE
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
    )


def work_sources(
    session: Session, trial_id: int, *, num_nodes: int, cluster_id: str
) -> Mapping[int, list[WorkSource]]:
    """Return what each node rank of the next attempt restores its work folder from: the files of its
    own rank, and those of rank 0. Empty for a first attempt.

    After an attempt on another number of nodes there is one set of files that makes sense to all,
    that of rank 0.
    """
    # Before its first manifest a node may have told of a problem: there is nothing to restore, as
    # there is not after retention has deleted it.
    rows = [row for row in rows_of(session, trial_id) if row.seq > 0 and row.deleted_at is None]
    if not rows:
        return {}
    newest = max(row.attempt_no for row in rows)
    num_before = session.scalar(
        select(AttemptRow.num_nodes).where(AttemptRow.trial_id == trial_id, AttemptRow.no == newest)
    )
    by_rank = {row.node_rank: _source(row, cluster_id) for row in rows}
    first = [by_rank[0]] if 0 in by_rank else []
    if num_before != num_nodes:
        return dict.fromkeys(range(num_nodes), first)
    return {
        rank: [by_rank[rank], *first] if rank and rank in by_rank else first
        for rank in range(num_nodes)
    }


def _source(row: TrialOutputsRow, cluster_id: str) -> WorkSource:
    url = f"{row.storage_url}/muster-{cluster_id}/{row.folder}" if row.storage_url else ""
    return WorkSource(
        node_rank=row.node_rank,
        attempt_no=row.attempt_no,
        seq=row.seq,
        node_id=row.node_id,
        storage_id="" if row.storage_id == OBJECT_STORE else row.storage_id,
        storage_url=url,
        folder=row.folder,
        size_bytes=row.size_bytes,
    )
