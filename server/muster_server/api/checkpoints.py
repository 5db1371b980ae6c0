"""Checkpoints of all trials; those of one are in api.trials, what is done with them in api.operations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from muster_server.api.deps import By, Cursor, Db, Id, Limit
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.schemas.base import SafeStr
from muster_server.schemas.checkpoints import (
    CheckpointListItem,
    CheckpointListOut,
    CheckpointState,
)
from muster_server.services import checkpoint_lists, checkpoint_pins

router = APIRouter(tags=["checkpoints"])


@router.get("/checkpoints", operation_id="list_checkpoints")
def list_checkpoints(
    db: Db,
    experiment: Annotated[int | None, Query(ge=1, lt=2**31, description="Its id.")] = None,
    project: Annotated[SafeStr, Field(max_length=64)] | None = None,
    states: Annotated[
        list[CheckpointState], Query(alias="state", max_length=3, description="Absent: all.")
    ] = [],  # noqa: B006
    order: Annotated[
        checkpoint_lists.Order, Query(description="The last saved first, or the largest.")
    ] = "newest",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> CheckpointListOut:
    """Checkpoints of all trials, with the storage that they take."""
    wanted = checkpoint_lists.CheckpointFilter(
        experiment_id=experiment, project=project, states=states
    )
    with db.read() as session:
        begin_snapshot(session)
        return checkpoint_lists.list_checkpoints(
            session, wanted, order=order, cursor=cursor, limit=limit
        )


@router.post("/checkpoints/{checkpoint_id}:pin", operation_id="pin_checkpoint")
def pin_checkpoint(checkpoint_id: Id, db: Db, by: By) -> CheckpointListItem:
    """Have it stay, whatever the policy of its experiment, which then cannot be deleted either."""
    with db.transaction() as session:
        return checkpoint_pins.pin(session, checkpoint_id, by)


@router.post("/checkpoints/{checkpoint_id}:unpin", operation_id="unpin_checkpoint")
def unpin_checkpoint(checkpoint_id: Id, db: Db, by: By) -> CheckpointListItem:
    """Leave it to the policy of its experiment again."""
    with db.transaction() as session:
        return checkpoint_pins.unpin(session, checkpoint_id, by)
