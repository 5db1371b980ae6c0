"""What one collective does on the slowest link: how many messages, how many bytes. Pure.

The ring algorithms that gloo and NCCL use for large messages (Patarasuk and Yuan 2009,
doi:10.1016/j.jpdc.2008.09.002), as nccl-tests' PERFORMANCE.md counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send",
    "recv", "ps_push", "ps_pull",
)  # fmt: skip
"""Kinds of which the time can be said. Barriers carry nothing; of a gather and a scatter one rank's
part is measured and not the whole."""


BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
"""Type of slot → what its workers send with."""
_ON_GLOO = {"reduce_scatter": "all_reduce"}


def moved_as(kind: str, backend: str) -> str:
    """Return the kind whose messages and bytes a collective has. gloo makes a reduce_scatter of
    torch an all_reduce of which each member keeps its part (ProcessGroupGloo.cpp): twice the
    bytes."""
    return _ON_GLOO.get(kind, kind) if backend == "gloo" else kind


@dataclass(frozen=True, kw_only=True)
class Network:
    """What a link does.

    latency_s: ≥ 0, from the start of a message to its first byte. bandwidth_bytes_per_s: > 0,
    payload in one direction. slowest_bytes_per_s: the least that this may be; None if it is known.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    slowest_bytes_per_s: float | None = None


def num_messages(kind: str, size: int) -> int:
    """Messages one after another on the slowest link of a collective over `size` members.

    all_reduce: 2(n-1), once around for the sums and once for the results. all_gather,
    reduce_scatter, all_to_all, broadcast and reduce around the ring: n-1. Messages between two
    ranks: 1. A parameter server takes and answers n-1 workers one by one. A group of one: 0.
    Raises ValueError for a kind that is not in KINDS and for a size below 1.
    """
    _check(kind, size)
    if size == 1:
        return 0
    if kind == "all_reduce":
        return 2 * (size - 1)
    if kind in ("send", "recv"):
        return 1
    return size - 1


def link_bytes(kind: str, size: int, num_bytes: float) -> float:
    """Return the bytes on the slowest link for a payload of `num_bytes`: the whole tensor reduced,
    the output of a gather, the input of a scatter; of a parameter server what one worker sends or
    gets.

    all_reduce: 2(n-1)/n of the payload. all_gather, reduce_scatter, all_to_all: (n-1)/n.
    broadcast, reduce and messages between two ranks: all of it. ps_push and ps_pull: n-1 times, all
    of them over the link of the server. A group of one: 0. Raises as `num_messages`.
    """
    _check(kind, size)
    if size == 1:
        return 0.0
    if kind == "all_reduce":
        return 2 * (size - 1) / size * num_bytes
    if kind in ("all_gather", "reduce_scatter", "all_to_all"):
        return (size - 1) / size * num_bytes
    if kind in ("ps_push", "ps_pull"):
        return (size - 1) * num_bytes
    return num_bytes


def _check(kind: str, size: int) -> None:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}")
    if size < 1:
        raise ValueError(f"a group has at least one member, not {size}")
