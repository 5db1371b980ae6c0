"""Nodes, their slots, and who leads the control loops."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from muster_server.domain.states import NodeState

from .base import Base, BigId, StateOf, belongs_to


class ControllerLeaseRow(Base):
    """One row per loop family. `epoch` grows by one with every new holder and fences its writes."""

    __tablename__ = "controller_leases"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    holder: Mapped[str] = mapped_column(String(128))
    epoch: Mapped[int]
    acquired_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    passed_at: Mapped[dt.datetime | None]
    """When this holder last worked through all of its loops; null: not once yet."""
    failing_loop: Mapped[str] = mapped_column(String(32), default="")
    """Where its latest round broke off; "": it did not."""


class ApiServerRow(Base):
    """An API server that serves. It stamps its row as long as it can hear agents and write what they
    say, and takes the row away when it stops in good order."""

    __tablename__ = "api_servers"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    """Settings.own_name: the same after a restart."""
    started_at: Mapped[dt.datetime]
    stamped_at: Mapped[dt.datetime]
    """Time of the last sign of life on the server's own clock. Readers only check that it
    changes."""


class NodeRow(Base):
    __tablename__ = "nodes"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    pool: Mapped[str] = mapped_column(String(64), index=True)
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict)
    state: Mapped[NodeState] = mapped_column(StateOf(NodeState), index=True)
    state_reason: Mapped[str] = mapped_column(default="")
    """Why it is SUSPECT or LOST, and what follows; "" in any other state."""
    state_parts: Mapped[list[Any] | None]
    """The parts of `state_reason` (domain.messages)."""
    scheduling: Mapped[str] = mapped_column(String(16), default="open")
    """open | cordoned | draining."""
    is_pilot: Mapped[bool] = mapped_column(default=False)
    """Whether the node leaves the cluster with its agent (wire.PilotFacts)."""
    ends_at: Mapped[dt.datetime | None]
    """When a pilot is killed at the latest; None if that is not known, and for machines that stay."""
    provider_ref: Mapped[str] = mapped_column(String(255), default="")
    """What its batch system calls the pilot; "" for other nodes."""
    health: Mapped[str] = mapped_column(String(16), default="ok")
    """ok | degraded | quarantined: what `problems` and `quarantine_reason` add up to."""
    health_reason: Mapped[str] = mapped_column(default="")
    problems: Mapped[list[Any]] = mapped_column(default=list)
    """wire.NodeProblem as plain values: what the checks find wrong with it now."""
    quarantine_reason: Mapped[str] = mapped_column(default="")
    """Why nothing is placed here until somebody releases it; "" when nobody has to."""
    strikes: Mapped[int] = mapped_column(default=0)
    """Consecutive prepare failures that were the node's fault."""
    strike_reason: Mapped[str] = mapped_column(default="")
    """The last of them."""
    clock_offset_ms: Mapped[float | None]
    """The database's clock (Unix time) minus the node's boot clock; None: not measured yet."""
    clock_error_ms: Mapped[float | None]
    """The offset is right to within this: half the round trip it was measured in."""
    clock_skew_s: Mapped[float | None]
    """The node's wall clock minus the database's."""
    hostname: Mapped[str] = mapped_column(String(255), default="")
    address: Mapped[str] = mapped_column(String(255), default="")
    boot_id: Mapped[str] = mapped_column(String(64), default="")
    instance_id: Mapped[str] = mapped_column(String(64), default="")
    registration_no: Mapped[int] = mapped_column(default=0)
    """RegisterRequest.number of the last one that was accepted."""
    old_instances: Mapped[list[Any]] = mapped_column(default=list)
    """Agent processes that were replaced by a later one, the latest last. While that one is heard
    none of them may come back: two agents with one identity would replace each other for ever."""
    session_epoch: Mapped[int] = mapped_column(default=0)
    """Fence: a new registration adds one and makes every older session of the node void."""
    credential_hash: Mapped[str] = mapped_column(String(64), unique=True)
    credential_at: Mapped[dt.datetime | None]
    """When the newest one was given; it is replaced when it is old."""
    next_credential_hash: Mapped[str | None] = mapped_column(String(64), unique=True, index=True)
    """Given to the agent and not used by it yet. Both are valid until it is."""
    join_id: Mapped[str] = mapped_column(String(64), default="")
    """ID of the join request whose credential has not been used yet. Its reply may have been lost,
    so repeating the same request does not use up the join token again."""
    join_token_id: Mapped[int | None]
    agent_version: Mapped[str] = mapped_column(String(32), default="")
    inventory: Mapped[dict[str, Any]] = mapped_column(default=dict)
    storage_id: Mapped[str] = mapped_column(String(64), default="")
    """ID of the storage folder, equal on all nodes that share it; "" if the agent reported none."""
    usage: Mapped[dict[str, Any] | None]
    """wire.NodeUsage of the last heartbeat."""
    sampled_at: Mapped[dt.datetime | None]
    """When such a one was last kept, as a NodeSampleRow."""
    assignments_index: Mapped[int] = mapped_column(default=0)
    """Grows whenever the node's desired set changes; agents long-poll on it."""
    registered_at: Mapped[dt.datetime]
    last_seen_at: Mapped[dt.datetime]
    heard_by: Mapped[str] = mapped_column(String(128), default="")
    """The API server that took its last heartbeat (ApiServerRow.name); "" before the first."""
    lease_expires_at: Mapped[dt.datetime]


class NodeSampleRow(Base):
    """How busy a node was."""

    __tablename__ = "node_samples"

    node_id: Mapped[str] = belongs_to("nodes.id", primary_key=True)
    at: Mapped[dt.datetime] = mapped_column(primary_key=True, index=True)
    usage: Mapped[dict[str, Any]]
    """wire.NodeUsage."""


class NodeSlotRow(Base):
    """One row per slot. The primary key makes the database itself refuse a double allocation."""

    __tablename__ = "node_slots"

    node_id: Mapped[str] = belongs_to("nodes.id", primary_key=True)
    idx: Mapped[int] = mapped_column(primary_key=True)
    slot_type: Mapped[str] = mapped_column(String(16))
    device: Mapped[dict[str, Any]] = mapped_column(default=dict)
    allocation_id: Mapped[str | None] = mapped_column(String(32), index=True)
    """Taken with `UPDATE … WHERE allocation_id IS NULL`: zero rows means somebody was faster."""
    free_since: Mapped[dt.datetime | None]
    """Since when nothing holds it; null: held."""
    is_gone: Mapped[bool] = mapped_column(default=False)
    """The agent does not report it any more. It is deleted when its holder frees it, and nobody gets
    it again."""
    problem: Mapped[str] = mapped_column(default="")
    """What keeps new work off this slot alone, from the node's `problems` and the settings of its pool
    (services.core.slot_problems); "" for nothing."""


class PreflightRow(Base):
    """What some nodes try together: on demand, or before a gang is started."""

    __tablename__ = "preflights"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    """running | passed | failed."""
    stage: Mapped[str] = mapped_column(String(16))
    """domain.nodes.preflight.Stage; of one that has ended, the last it got to."""
    stage_since: Mapped[dt.datetime]
    message: Mapped[str] = mapped_column(default="")
    """The verdict."""
    token: Mapped[str] = mapped_column(String(32))
    """What the nodes show each other."""
    python: Mapped[str | None]
    members: Mapped[list[Any]]
    """Members in the order of their ranks: node_id, node_name, rank, slots to try, and reports
    (stage → wire.PreflightReport)."""
    requested_by: Mapped[str] = mapped_column(String(160))
    trial_id: Mapped[int | None] = mapped_column(BigInteger)
    """Trial whose gang the preflight checks before it starts; at most one preflight per `trial_id`
    and `attempt_no`. Null for a preflight that a user requested."""
    attempt_no: Mapped[int | None]
    created_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no"),)
