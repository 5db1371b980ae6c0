"""Reservations: whole nodes that for a time are for the trials of one user or one project alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster_server.domain.messages import shortened

from .periods import Period

LEAVE_MARGIN_S = 10.0
"""Past its stop grace a trial that must leave is gone after about this long."""


@dataclass(frozen=True, kw_only=True)
class NodeReservation(Period):
    """A time during which only its beneficiary's trials may use some nodes. Exactly one of `user_id` and
    `project_id` is set."""

    ends_at: dt.datetime
    nodes: tuple[str, ...]
    """Names."""
    beneficiary: str
    """Name of the user or project; "" for a project that not everybody sees."""
    user_id: int | None = None
    project_id: int | None = None
    reason: str = ""

    def is_for(self, *, user_id: int | None, project_id: int | None) -> bool:
        """Return whether the trials of a user in a project may use the nodes."""
        if self.project_id is not None:
            return self.project_id == project_id
        return self.user_id is not None and self.user_id == user_id

    @property
    def label(self) -> str:
        """Who, when and why: "vision, 2026-12-01 18:00–19:00 UTC: paper deadline"."""
        when = ", ".join(filter(None, (self.beneficiary, self.span)))
        return f"{when}: {self.reason}" if self.reason else when

    @property
    def _what(self) -> str:
        return f"Reservation {self.id} of {shortened(self.nodes)} for {self.label}"

    @property
    def planned(self) -> str:
        return f"{self._what}. From its start to its end, only these trials run there."

    @property
    def changed(self) -> str:
        return f"{self._what} was changed. These are its nodes and times now."

    @property
    def started(self) -> str:
        return f"{self._what} has begun. Trials submitted now start there."

    @property
    def ended(self) -> str:
        return f"{self._what} has ended. What runs there goes on; the nodes are open to everybody."

    @property
    def cancelled(self) -> str:
        return f"{self._what} was cancelled. The nodes are open to everybody."

    def takes_from(self, trials: Sequence[str]) -> str:
        """Return what the owner of running trials is told of it beforehand."""
        return (
            f"{self._what} takes slots of {shortened(trials)} at its start. An elastic trial continues "
            "on other nodes, with fewer slots if need be; any other saves a checkpoint and waits "
            "in the queue."
        )


def on_nodes(reservations: Iterable[NodeReservation]) -> dict[str, tuple[NodeReservation, ...]]:
    """Return the reservations of each node that has any, the first to start first."""
    found: dict[str, tuple[NodeReservation, ...]] = {}
    for one in sorted(reservations, key=lambda r: (r.starts_at, r.id)):
        for node in one.nodes:
            found[node] = (*found.get(node, ()), one)
    return found


def overlapping(
    node: str, starts_at: dt.datetime, ends_at: dt.datetime, others: Iterable[NodeReservation]
) -> NodeReservation | None:
    """Return the first of the reservations that has the node at some moment of this time."""
    found = (
        r for r in others if node in r.nodes and r.starts_at < ends_at and starts_at < r.ends_at
    )
    return min(found, key=lambda r: (r.starts_at, r.id), default=None)


@dataclass(frozen=True, kw_only=True)
class ReservableNode:
    """A node of a pool from which some are to be chosen."""

    name: str
    slots: int
    takes_work: bool
    """Whether it is online and open."""
    num_held: int = 0
    """Slots that trials of others hold now."""


def choose(
    nodes: Iterable[ReservableNode], *, num_nodes: int | None, num_slots: int | None
) -> tuple[str, ...] | None:
    """Return the names of `num_nodes` nodes, or of as many as have `num_slots` slots; None if there are
    too few.

    Nodes that take work come first, then those from which least is taken, then the largest.
    """
    ordered = sorted(nodes, key=lambda n: (not n.takes_work, n.num_held, -n.slots, n.name))
    chosen: list[ReservableNode] = []
    for node in ordered:
        if _is_enough(chosen, num_nodes, num_slots):
            break
        chosen.append(node)
    if not _is_enough(chosen, num_nodes, num_slots):
        return None
    return tuple(sorted(node.name for node in chosen))


def _is_enough(
    chosen: Sequence[ReservableNode], num_nodes: int | None, num_slots: int | None
) -> bool:
    return len(chosen) >= (num_nodes or 0) and sum(n.slots for n in chosen) >= (num_slots or 0)
