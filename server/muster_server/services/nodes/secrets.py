"""Secrets that an agent asks for, for an allocation of its node."""

from __future__ import annotations

import datetime as dt

from sqlalchemy.orm import Session

from muster.wire import SecretsReply, SecretsRequest
from muster_server.security.encryption import key_ring
from muster_server.settings import Settings

from ..secrets.delivery import deliver
from .sessions import require_allocation


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
    node, allocation = require_allocation(
        session, allocation_id, request.node_id, request.session_epoch, request.attempt_no
    )
    keys = key_ring(settings)
    return deliver(session, allocation, node_name=node.name, keys=keys, now=now)
