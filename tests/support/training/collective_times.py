"""Times of collectives on a network whose latency and bandwidth are known exactly."""

from __future__ import annotations

from muster_server.domain.insight.cost_model.collectives import Network, link_bytes, num_messages


def collective_s(
    kind: str, size: int, num_bytes: float, network: Network, *, count: float = 1.0
) -> float:
    """Return the seconds that `count` collectives with `num_bytes` together take one after
    another."""
    return (
        count * num_messages(kind, size) * network.latency_s
        + link_bytes(kind, size, num_bytes) / network.bandwidth_bytes_per_s
    )
