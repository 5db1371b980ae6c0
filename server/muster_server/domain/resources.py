"""What a trial asks for, what nodes have, and the words both are described with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .saying import Said, say

TopologyMode = Literal["prefer", "require"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """The slots one gang needs, all at once or not at all."""

    slots: int
    min_slots: int | None = None
    """Elastic: it may run on any number of slots from here to `slots`. None: on `slots` only."""
    slot_type: str = "cpu"
    pool: str = "default"
    nodes: int | None = None
    """Exactly so many nodes; None: as few as possible."""
    max_nodes: int | None = None
    uneven: bool = False
    """Allow nodes to carry different numbers of slots."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Node labels, with their values, that every node of the gang must have."""
    allow_nodes: tuple[str, ...] = ()
    """Names of the only nodes it may use; empty: any."""
    deny_nodes: tuple[str, ...] = ()
    """Names of nodes it must not use."""
    avoid_nodes: tuple[str, ...] = ()
    """Names of nodes it keeps away from for now, in order; `avoid_reason` says why."""
    avoid_reason: str = ""
    topology_key: str | None = None
    """A node label (`rack`, `zone`) of which all nodes of the gang should have the same value."""
    topology_mode: TopologyMode = "prefer"
    """require: wait rather than spread over several values. prefer: spread when one is not enough."""

    @property
    def least_slots(self) -> int:
        """The fewest slots it can start with: `min_slots` of an elastic request, else `slots`."""
        return self.slots if self.min_slots is None else min(self.min_slots, self.slots)

    @property
    def elastic(self) -> bool:
        return self.least_slots < self.slots

    def describe(self) -> Said:
        """ "4 cpu slots on exactly 2 nodes in pool default with rack=a"."""
        where = {"slot_type": self.slot_type, "pool": self.pool}
        slots, at_most = count(self.slots, f"{self.slot_type} slot"), Said()
        if self.nodes is not None:
            at_most = say(
                "wish.nodes", f" on exactly {count(self.nodes, 'node')}", nodes=self.nodes
            )
        elif self.max_nodes is not None:
            words = f" on at most {count(self.max_nodes, 'node')}"
            at_most = say("wish.max_nodes", words, nodes=self.max_nodes)
        if self.elastic:
            words = f"{self.least_slots:,} to {slots}"
            said = say(
                "wish.elastic_slots", words, least=self.least_slots, slots=self.slots, **where
            )
        else:
            said = say("wish.slots", slots, slots=self.slots, **where)
        return said + at_most + f" in pool {self.pool}" + self._where()

    def _where(self) -> Said:
        said = Said()
        if self.labels:
            labels = ", ".join(f"{k}={v}" for k, v in sorted(self.labels.items()))
            said += say("wish.labels", f" with {labels}", labels=labels)
        if self.topology_key is not None and self.topology_mode == "require":
            said += say("wish.within", f" within one {self.topology_key}", key=self.topology_key)
        if self.allow_nodes:
            nodes = _some(self.allow_nodes)
            said += say("wish.only_on", f" on {nodes} only", nodes=nodes)
        if self.deny_nodes:
            nodes = _some(self.deny_nodes)
            said += say("wish.not_on", f" but not on {nodes}", nodes=nodes)
        if self.avoid_nodes:
            nodes = _some(self.avoid_nodes)
            words = f", without {nodes} ({self.avoid_reason})"
            said += say("wish.without", words, nodes=nodes, reason=self.avoid_reason)
        return said


@dataclass(frozen=True, kw_only=True)
class SlotView:
    idx: int
    slot_type: str
    allocation_id: str | None = None
    """The allocation that holds it; None: free."""
    free_since: dt.datetime | None = None
    """Since when nothing holds it; None: held, or not known. Elastic trials grow only into slots
    that have been free for a while."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeView:
    """A node as the scheduler sees it. Compared by identity, see `scheduler.Scheduler`."""

    id: str
    name: str
    pool: str
    state: str = "ONLINE"
    scheduling: str = "open"
    health: str = "ok"
    problem: str = ""
    """What is wrong with it that keeps new work away; "" when nothing does."""
    host: str = ""
    """Machine name: nodes of one host share their local storage."""
    strikes: int = 0
    """Prepare failures in a row; other nodes are preferred while there are any."""
    labels: Mapping[str, str] = field(default_factory=dict)
    slots: tuple[SlotView, ...] = ()

    @property
    def unavailable(self) -> str | None:
        """Why nothing may be placed here now, in a word; None when it may."""
        if self.state != "ONLINE":
            return self.state.lower()
        if self.scheduling != "open":
            return self.scheduling
        if self.health == "quarantined":
            return "quarantined"
        return "unhealthy" if self.problem else None


def request_from_config(config: Mapping[str, Any]) -> Request:
    """The request in a resolved experiment document (absent keys take the document's defaults)."""
    resources = config.get("resources") or {}
    topology = resources.get("topology") or {}
    return Request(
        slots=int(resources.get("slots") or 1),
        min_slots=resources.get("min_slots"),
        slot_type=str(resources.get("slot_type") or "cpu"),
        pool=str(resources.get("pool") or "default"),
        nodes=resources.get("nodes"),
        max_nodes=resources.get("max_nodes"),
        uneven=bool(resources.get("uneven", False)),
        labels=dict(resources.get("labels") or {}),
        allow_nodes=tuple(sorted(resources.get("allow_nodes") or ())),
        deny_nodes=tuple(sorted(resources.get("deny_nodes") or ())),
        topology_key=topology.get("key"),
        topology_mode=topology.get("mode") or "prefer",
    )


def preemptible_from_config(config: Mapping[str, Any]) -> bool:
    """Whether more important trials may stop this one (with a checkpoint) for its slots."""
    return bool((config.get("resources") or {}).get("preemptible", True))


def count(number: int | None, noun: str) -> str:
    """ "1 slot", "2 slots", "10,000 slots"."""
    return f"{number or 0:,} {noun}{'' if number == 1 else 's'}"


def _some(names: tuple[str, ...]) -> str:
    """ "n1, n2, n3 and 4 more"."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
