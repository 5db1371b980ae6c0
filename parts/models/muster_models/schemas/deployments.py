"""Deployments, their revisions and replicas."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster.document.common import IDENTIFIER, MAX_SLOTS
from muster_server.schemas.base import Identifier, Input, Output, SafeStr

REPLICAS_MAX = 64
"""Replicas of one deployment."""
DEPLOYMENT_NAME = r"^[a-z0-9][a-z0-9-]{0,62}$"

DeploymentName = Annotated[str, Field(pattern=DEPLOYMENT_NAME)]
ReferenceText = Annotated[SafeStr, Field(min_length=1, max_length=120)]
"""`digits@production`, `digits:3`, or `digits` for the newest version."""
DeploymentReason = Annotated[SafeStr, Field(max_length=500)]
NumReplicas = Annotated[int, Field(ge=1, le=REPLICAS_MAX)]


class DeploymentOptions(Input):
    """How replicas run."""

    pool: Annotated[Identifier, Field(max_length=IDENTIFIER.max_length)] = "default"
    """Pool of nodes to run in."""
    slot_type: Literal["cpu", "cuda"] = "cpu"
    priority: Annotated[int, Field(ge=0, le=100)] = 50
    """Place in the queue, higher is more urgent. Replicas are not preempted."""
    listen: Literal["loopback", "node"] = "loopback"
    """Where replicas listen. `loopback`: on 127.0.0.1, so the router has to be on the same machine.
    `node`: on the address of their node."""
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 32
    """Samples that go through the model at once."""
    max_queue: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Requests that may wait at a replica; further ones get 503."""
    max_body_bytes: Annotated[int, Field(ge=1024, le=64 << 20)] = 8 << 20
    """Most bytes of a request."""
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 512
    """Most tokens that one completion may ask for."""
    ready_within_s: Annotated[int, Field(ge=5, le=86_400)] = 300
    """Seconds that the replicas of an update may take to be ready, waiting for slots included, before the
    update is given up."""


class DeploymentIn(DeploymentOptions):
    listen: Literal["loopback", "node"] | None = None  # type: ignore[assignment]
    """Where replicas listen. `loopback`: on 127.0.0.1, so the router has to be on the same machine.
    `node`: on the address of their node. Default: `MUSTER_DEPLOYMENTS_LISTEN`."""
    name: DeploymentName | None = None
    """Name in the address, lower-case letters, digits and hyphens. Default: that of the model."""
    model: ReferenceText
    """Version to serve: `digits@production`, `digits:3`, or `digits` for the newest one. Resolved
    once, now."""
    project: Annotated[SafeStr, Field(max_length=128)] = "default"
    replicas: NumReplicas = 1
    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = 1
    """Slots of one replica; its model computes with as many threads."""
    reason: DeploymentReason = ""


class DeploymentUpdateIn(Input):
    model: ReferenceText
    """Version to serve from now on. Resolved once, now."""
    reason: DeploymentReason = ""


class RollbackIn(Input):
    revision: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Number of the revision to return to. Default: the one that served before."""
    reason: DeploymentReason = ""


class ScaleIn(Input):
    replicas: NumReplicas


class AddressOut(Output):
    name: str
    url: str
    """Address below which it answers: `{url}/v2/models/{name}/infer`."""


class RevisionOut(Output):
    number: int
    reference: str
    """Reference as it was given, such as `digits@production`."""
    model: str
    version: int
    """Version that the reference meant at that moment."""
    state: Literal["rolling_out", "serving", "replaced", "failed"]
    reason: str
    message: str
    """Why it failed."""
    created_at: dt.datetime
    created_by: str
    settled_at: dt.datetime | None
    """When it first served with all its replicas, alone."""


class ReplicaOut(Output):
    id: int
    revision: int
    version: int
    phase: Literal["starting", "serving", "draining", "stopping", "ended"]
    phase_since: dt.datetime
    experiment_id: int | None
    trial_id: int | None
    trial_state: str | None
    node: str | None
    reason: str
    """Why it waits, or has ended."""
    num_requests: int
    """Requests that the router has sent to it since it last started."""
    num_errors: int
    """Number of them that failed or were answered with 500 and above."""
    requests_per_s: float | None
    """Last value that the replica reported; null before its first report, and so are the latencies."""
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None


class DeploymentItem(Output):
    name: str
    project: str
    owner: str | None
    state: Literal[
        "starting", "ready", "updating", "degraded", "unavailable", "stopping", "stopped"
    ]
    """State. `degraded`: fewer replicas serve than wanted. `unavailable`: none does."""
    message: str
    """What went wrong last."""
    url: str | None
    """Address to send requests to; null if the server has no router."""
    model: str
    version: int
    """Version of the target revision."""
    reference: str
    revision: int
    num_replicas: int
    """Replicas that are wanted."""
    num_ready: int
    """Replicas that serve."""
    slots: int
    requests_per_s: float
    """Sum over the replicas that serve, as they last reported."""
    num_requests: int
    num_errors: int
    latency_p50_ms: float | None
    """Latency of the slowest replica, as the others are; null before the first report."""
    latency_p95_ms: float | None
    latency_p99_ms: float | None
    created_at: dt.datetime
    created_by: str
    updated_at: dt.datetime
    may_change: bool
    """Whether the caller may update, scale and stop it."""


class DeploymentOut(DeploymentItem):
    options: DeploymentOptions
    revisions: list[RevisionOut]
    """The newest 50, newest first."""
    replicas: list[ReplicaOut]
    """Replicas that have not ended, and the last ten that have."""
