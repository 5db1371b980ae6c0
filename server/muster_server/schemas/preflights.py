"""Preflights: checks that nodes run together, and their results."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.nodes.preflight import MAX_NODES

from .base import Input, Output, SafeStr

NodeRef = Annotated[SafeStr, Field(min_length=1, max_length=128)]


class PreflightIn(Input):
    nodes: Annotated[list[NodeRef], Field(min_length=1, max_length=MAX_NODES)]
    """Names of the nodes. With only one, only its disk and devices are checked."""


class PreflightNode(Output):
    node_id: str
    node_name: str
    rank: int
    """Index of the node in the preflight; node 0 hosts the store of the all-reduce."""
    address: str
    """`host:port` at which the other nodes reach it; empty while it does not listen."""
    torch_version: str
    """Version of torch; empty if it is not known yet, or if torch is not installed."""
    problems: list[str]
    """Problems of the node itself."""


class PreflightLink(Output):
    from_node: str
    to_node: str
    message: str
    """What went wrong; "" when nothing did."""
    round_trip_ms: float | None
    """Round-trip time of the fastest of three pings over the connection; null if it was not
    made."""
    allreduce_ms: float | None
    """Time of an all-reduce of 1 MiB between the two nodes over gloo; null if not tried or
    failed."""


class PreflightOut(Output):
    id: int
    state: Literal["running", "passed", "failed"]
    stage: Literal["listen", "connect", "reduce"]
    message: str
    """Verdict; after a failure it names the nodes, or the pairs of nodes."""
    nodes: list[PreflightNode]
    links: list[PreflightLink]
    """Connections, one per direction, as far as they have been tried."""
    allreduce_ms: float | None
    """Time of an all-reduce of 1 MiB among all nodes over gloo, as the slowest node measured it;
    null if not tried or failed."""
    requested_by: str
    trial_id: int | None
    """ID of the trial before whose start the preflight was made; null if somebody requested it."""
    attempt_no: int | None
    created_at: dt.datetime
    ended_at: dt.datetime | None
