"""A stack that gives up silent nodes after seconds, not after minutes."""

from __future__ import annotations

from pathlib import Path

from support.stack import Stack

HEARTBEAT_S = 3.0
LEASE_S = 3 * HEARTBEAT_S
"""Three heartbeats: what an agent is granted, counted from before it asked."""
SETTINGS = {
    "MUSTER_HEARTBEAT_S": str(HEARTBEAT_S),
    "MUSTER_NODE_LOST_S": "12",
    "MUSTER_TAKEOVER_GRACE_S": "0",
}


class QuickStack(Stack):
    """Leases of seconds instead of minutes."""

    is_preloaded = True

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        return Stack.environment(home) | SETTINGS
