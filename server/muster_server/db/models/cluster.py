"""Nodes, their slots, and who leads the control loops."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base


class ControllerLeaseRow(Base):
    """One row per loop family. `epoch` grows by one with every new holder and fences its writes."""

    __tablename__ = "controller_leases"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    holder: Mapped[str] = mapped_column(String(128))
    epoch: Mapped[int]
    acquired_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]


class NodeRow(Base):
    __tablename__ = "nodes"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    pool: Mapped[str] = mapped_column(String(64), index=True)
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    state: Mapped[str] = mapped_column(String(16), index=True)
    """domain.states.NodeState."""
    scheduling: Mapped[str] = mapped_column(String(16), default="open")
    """open | cordoned | draining."""
    health: Mapped[str] = mapped_column(String(16), default="ok")
    health_reason: Mapped[str] = mapped_column(default="")
    strikes: Mapped[int] = mapped_column(default=0)
    """Consecutive prepare failures."""
    hostname: Mapped[str] = mapped_column(String(255), default="")
    address: Mapped[str] = mapped_column(String(255), default="")
    boot_id: Mapped[str] = mapped_column(String(64), default="")
    instance_id: Mapped[str] = mapped_column(String(64), default="")
    session_epoch: Mapped[int] = mapped_column(default=0)
    """Fence: a new registration adds one and makes every older session of the node void."""
    credential_hash: Mapped[str] = mapped_column(String(64), unique=True)
    agent_version: Mapped[str] = mapped_column(String(32), default="")
    inventory: Mapped[dict[str, Any]] = mapped_column(default=dict)
    storage_id: Mapped[str] = mapped_column(String(64), default="")
    """Of its storage folder; nodes that share one have the same. "" for an agent that said none."""
    usage: Mapped[dict[str, Any] | None]
    assignments_index: Mapped[int] = mapped_column(default=0)
    """Grows whenever the node's desired set changes; agents long-poll on it."""
    registered_at: Mapped[dt.datetime]
    last_seen_at: Mapped[dt.datetime]
    lease_expires_at: Mapped[dt.datetime]


class NodeSlotRow(Base):
    """One row per slot. The primary key makes the database itself refuse a double allocation."""

    __tablename__ = "node_slots"

    node_id: Mapped[str] = mapped_column(
        ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True
    )
    idx: Mapped[int] = mapped_column(primary_key=True)
    slot_type: Mapped[str] = mapped_column(String(16))
    device: Mapped[dict[str, Any]] = mapped_column(default=dict)
    allocation_id: Mapped[str | None] = mapped_column(String(32), index=True)
    """Taken with `UPDATE … WHERE allocation_id IS NULL`: zero rows means somebody was faster."""
