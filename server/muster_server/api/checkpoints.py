"""Checkpoints of all trials; those of one are in api.trials, operations on them in api.operations."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from muster_server.api.http.deps import By, Cursor, Db, Id, Limit
from muster_server.api.http.routing import Router, Write
from muster_server.schemas.base import SafeStr
from muster_server.schemas.checkpoints import (
    CheckpointListItem,
    CheckpointListOut,
    CheckpointState,
)
from muster_server.services.checkpoints import listing, pins

router = Router(tags=["checkpoints"])


@router.get("/checkpoints")
def list_checkpoints(
    db: Db,
    experiment: Annotated[int | None, Query(ge=1, lt=2**31, description="Its id.")] = None,
    project: Annotated[SafeStr, Field(max_length=64)] | None = None,
    states: Annotated[
        list[CheckpointState], Query(alias="state", max_length=3, description="Absent: all.")
    ] = [],  # noqa: B006
    order: Annotated[
        listing.Order, Query(description="The last saved first, or the largest.")
    ] = "newest",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> CheckpointListOut:
    """List the checkpoints of all trials, with the storage they use."""
    wanted = listing.CheckpointFilter(experiment_id=experiment, project=project, states=states)
    with db.snapshot() as session:
        return listing.list_checkpoints(session, wanted, order=order, cursor=cursor, limit=limit)


@router.post("/checkpoints/{checkpoint_id}:pin")
def pin_checkpoint(checkpoint_id: Id, session: Write, by: By) -> CheckpointListItem:
    """Keep a checkpoint, whatever the policy of its experiment, which then cannot be deleted
    either."""
    return pins.pin(session, checkpoint_id, by)


@router.post("/checkpoints/{checkpoint_id}:unpin")
def unpin_checkpoint(checkpoint_id: Id, session: Write, by: By) -> CheckpointListItem:
    """Leave a checkpoint to the policy of its experiment again."""
    return pins.unpin(session, checkpoint_id, by)
