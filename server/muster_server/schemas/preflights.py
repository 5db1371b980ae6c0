"""Preflights: what nodes tried together, and what came of it."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.nodes.preflight import MAX_NODES

from .base import Input, Output, SafeStr

NodeRef = Annotated[SafeStr, Field(min_length=1, max_length=128)]


class PreflightIn(Input):
    nodes: Annotated[list[NodeRef], Field(min_length=1, max_length=MAX_NODES)]
    """Names of the nodes. With one, only its disk and devices are tried."""


class PreflightNode(Output):
    node_id: str
    node_name: str
    rank: int
    """Its number among them; 0 hosts the store of the all-reduce."""
    address: str
    """`host:port` at which the others try it; "" while it does not listen."""
    torch_version: str
    """"" when it is not known yet, or torch is not installed."""
    problems: list[str]
    """What is wrong with the node itself."""


class PreflightLink(Output):
    from_node: str
    to_node: str
    message: str
    """What went wrong; "" when nothing did."""
    round_trip_ms: float | None
    """Of the smallest of three pings over the connection; null: it was not made."""
    allreduce_ms: float | None
    """1 MiB between these two over gloo; null: not tried, or failed."""


class PreflightOut(Output):
    id: int
    state: Literal["running", "passed", "failed"]
    stage: Literal["listen", "connect", "reduce"]
    message: str
    """The verdict; of a failure it names the nodes, or the pairs of nodes."""
    nodes: list[PreflightNode]
    links: list[PreflightLink]
    """One per direction, as far as they are tried."""
    allreduce_ms: float | None
    """1 MiB among all of them over gloo, as the slowest node saw it; null: not tried, or failed."""
    requested_by: str
    trial_id: int | None
    """Of one made before the start of a gang."""
    attempt_no: int | None
    created_at: dt.datetime
    ended_at: dt.datetime | None
