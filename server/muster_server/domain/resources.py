"""What a trial asks for, what nodes have, and the words both are described with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Request:
    """The slots one gang needs, all at once or not at all."""

    slots: int
    slot_type: str = "cpu"
    pool: str = "default"
    nodes: int | None = None
    """Exactly so many nodes; None: as few as possible."""
    max_nodes: int | None = None
    uneven: bool = False
    """Allow nodes to carry different numbers of slots."""

    def describe(self) -> str:
        """ "4 cpu slots on exactly 2 nodes in pool default"."""
        spread = f" on exactly {count(self.nodes, 'node')}" if self.nodes is not None else ""
        limit = f" on at most {count(self.max_nodes, 'node')}" if self.max_nodes is not None else ""
        return f"{count(self.slots, f'{self.slot_type} slot')}{spread or limit} in pool {self.pool}"


@dataclass(frozen=True, kw_only=True)
class SlotView:
    idx: int
    slot_type: str
    allocation_id: str | None = None
    """The allocation that holds it; None: free."""
    experiment_id: int | None = None
    """Whose allocation that is, when known."""


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """A node as the scheduler sees it."""

    id: str
    name: str
    pool: str
    state: str = "ONLINE"
    scheduling: str = "open"
    health: str = "ok"
    host: str = ""
    """Machine name: nodes of one host share their local storage."""
    strikes: int = 0
    """Prepare failures in a row; other nodes are preferred while there are any."""
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
        return None


def request_from_config(config: Mapping[str, Any]) -> Request:
    """The request in a resolved experiment document (absent keys take the document's defaults)."""
    resources = config.get("resources") or {}
    return Request(
        slots=int(resources.get("slots") or 1),
        slot_type=str(resources.get("slot_type") or "cpu"),
        pool=str(resources.get("pool") or "default"),
        nodes=resources.get("nodes"),
        max_nodes=resources.get("max_nodes"),
        uneven=bool(resources.get("uneven", False)),
    )


def count(number: int | None, noun: str) -> str:
    """ "1 slot", "2 slots", "10,000 slots"."""
    return f"{number or 0:,} {noun}{'' if number == 1 else 's'}"
