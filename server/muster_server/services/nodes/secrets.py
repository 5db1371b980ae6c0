"""Secrets that an agent asks for, for an allocation of its node."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import SecretsReply, SecretsRequest
from muster_server.db.models import AllocationRow, TrialRow
from muster_server.domain.states import AllocationState
from muster_server.errors import Conflict, NotFound
from muster_server.settings import Settings

from ..secrets.delivery import deliver
from ..secrets.encryption import key_ring
from .sessions import require_session

_OVER = frozenset({AllocationState.LOST, AllocationState.CLEANED, AllocationState.PREPARE_FAILED})


def deliver_secrets(
    session: Session,
    allocation_id: str,
    request: SecretsRequest,
    *,
    settings: Settings,
    now: dt.datetime,
) -> SecretsReply:
    """Return the secrets of an allocation.

    Raises Superseded for an older session of the node, NotFound for an allocation that is not this
    node's, and Conflict for one that is over or whose trial has a newer attempt, or when secrets
    are missing, unreadable or off.
    """
    node = require_session(session, request.node_id, request.session_epoch)
    allocation = session.get(AllocationRow, allocation_id)
    if (
        allocation is None
        or allocation.node_id != request.node_id
        or allocation.attempt_no != request.attempt_no
    ):
        raise NotFound("agent.unknown_allocation", f"No allocation {allocation_id[:64]!r} here.")
    present = session.scalar(select(TrialRow.attempt_no).where(TrialRow.id == allocation.trial_id))
    if present != request.attempt_no or allocation.observed in _OVER:
        raise Conflict(
            "agent.allocation_over",
            "This allocation is over: its secrets are not given out any more.",
        )
    keys = key_ring(settings)
    return deliver(session, allocation, node_name=node.name, keys=keys, now=now)
