"""What another link would do, from the link that was measured. Pure.

A byte takes its time on the link, headers included, and time of the two hosts: gloo copies and adds it,
and the kernel moves it through a socket. Only the first changes with the link. At 270 Mbit/s the hosts
were 3 % of a transfer, at 900 Mbit/s 10 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .collectives import Network
from .fitting import NetworkFit

HEADERS_BYTES = 52
"""Headers within a packet: IPv4 20, TCP 20, its time stamps 12."""
FRAME_BYTES = 14
"""Ethernet's header before the packet. Interfaces and rate limiters count it; of what else Ethernet
puts between frames (24 bytes) they know nothing."""
DEFAULT_MTU_BYTES = 1500


@dataclass(frozen=True, kw_only=True)
class Link:
    """Nominal rates count everything that is sent, headers included.

    bytes_per_s: > 0, of the link in question. measured_bytes_per_s: > 0, of the link between the
    measured workers; None if unknown, infinite for workers of one node. latency_s: ≥ 0, per message.
    """

    bytes_per_s: float
    measured_bytes_per_s: float | None
    latency_s: float
    mtu_bytes: float = DEFAULT_MTU_BYTES


def payload_share(mtu_bytes: float) -> float:
    """Return the share of a link's bytes that is payload of a TCP stream, 0 to 1: 0.956 at 1500."""
    mtu_bytes = max(mtu_bytes, HEADERS_BYTES + 1)
    return (mtu_bytes - HEADERS_BYTES) / (mtu_bytes + FRAME_BYTES)


def over_link(fit: NetworkFit, link: Link) -> Network:
    """Return what `link` would do with the hosts that were measured.

    The hosts' time per byte is what the measured transfers took beyond the time on their link. If
    the rate of that link is unknown, it may be anything from nothing to all of the measured time: the
    bandwidth is then that of the link alone, and `slowest_bytes_per_s` that of all of it. A link that
    is faster than everything that was measured is at least as fast as that.
    """
    share = payload_share(link.mtu_bytes)
    on_link = 1 / (share * link.bytes_per_s)
    measured = fit.bandwidth_bytes_per_s
    took = 0.0 if measured is None else 1 / measured.value
    rate = link.measured_bytes_per_s
    if rate is not None:
        hosts = max(took - (0.0 if math.isinf(rate) else 1 / (share * rate)), 0.0)
        return Network(latency_s=link.latency_s, bandwidth_bytes_per_s=1 / (on_link + hosts))
    slowest = took if on_link < took else on_link + took
    return Network(
        latency_s=link.latency_s,
        bandwidth_bytes_per_s=1 / on_link,
        slowest_bytes_per_s=1 / slowest,
    )
