"""Which checkpoints on the disk of a node an attempt starts from.

Those that no storage has are worth a restart where they are, and nothing elsewhere: all workers have to
read them. An attempt on one node is offered what is whole there; one on several nodes what they have
together, if its workers can give each other what they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OFFERED_MAX = 4
"""Most checkpoints that a node is asked for; training waits while two are not stored."""


@dataclass(frozen=True, kw_only=True)
class LocalCopy:
    """A checkpoint that is on the disks of nodes alone."""

    id: int
    step: int
    nodes: tuple[str, ...]
    """Nodes of the attempt that saved it, by node rank. Each may have a part."""
    is_abandoned: bool
    """A guard has gone back to before it, so no attempt starts from it."""


@dataclass(frozen=True, kw_only=True)
class LocalOffer:
    """What the node of an attempt is told."""

    wanted: tuple[int, ...] = ()
    """Checkpoints to start from rather than from the storage, the best first. The node verifies them."""
    dropped: tuple[int, ...] = ()
    """Checkpoints that the node deletes, because nobody starts from them any more."""


def offer(
    copies: Iterable[LocalCopy],
    *,
    nodes: Sequence[str],
    stored_step: int | None,
    is_exchanged: bool = False,
) -> LocalOffer:
    """Return which copies an attempt on these nodes may start from.

    stored_step: step of the trial's newest checkpoint in the storage; None without one.
    is_exchanged: whether workers on several nodes give each other the parts that they lack.
    """
    if len(nodes) > 1 and not is_exchanged:
        return LocalOffer()
    here = sorted((c for c in copies if set(c.nodes) & set(nodes)), key=lambda c: -c.step)
    wanted = tuple(
        copy.id
        for copy in here
        if set(copy.nodes) <= set(nodes)
        and not copy.is_abandoned
        and (stored_step is None or copy.step > stored_step)
    )[:OFFERED_MAX]
    return LocalOffer(wanted=wanted, dropped=tuple(c.id for c in here if c.id not in wanted))
