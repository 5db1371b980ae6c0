"""The control plane is taken away from trainings, part by part, for longer than any node is given: nothing
follows from it. A node that is silent alone is lost in the usual time, also after all that.

Leases of seconds, on real processes; `bench/outage.py --control-plane …` does it with default settings.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from support.outages import KINDS, ControlPlane, measure
from support.postgres import find_binaries
from support.stack import wait_for

pytestmark = pytest.mark.postgres

LOST_S = 5.0
AWAY_S = 2.5 * LOST_S
SETTINGS = {
    "MUSTER_HEARTBEAT_S": "1",  # a lease of 3 s
    "MUSTER_NODE_LOST_S": str(LOST_S),
    "MUSTER_TAKEOVER_GRACE_S": "2",
}
LATE_S = 20.0
"""What a loaded machine may add."""


def test_an_outage_of_the_control_plane_changes_nothing(tmp_path: Path) -> None:
    assert find_binaries() is not None, "PostgreSQL is needed: the test group's package brings it"
    with ControlPlane(tmp_path / "plane", database="postgres", settings=SETTINGS) as plane:
        plane.train()
        for kind in KINDS:
            measure(plane, kind, AWAY_S)
        found = plane.finish()
        assert found.num_nodes_lost == 0, found.events
        assert (found.num_lost, found.num_charged, found.num_missing) == (0, 0, 0)
        assert found.num_points > 2 * len(KINDS) * AWAY_S
        suspected = [text for text in found.events if "No heartbeat from any node since" in text]
        assert len(suspected) >= len(KINDS) - 1, (
            found.events
        )  # without a database nothing is written

        agent = plane.stack.part_pid("agent-local-2")
        os.kill(agent, signal.SIGSTOP)
        began = time.monotonic()
        try:
            wait_for(
                "the silent node is LOST",
                lambda: sorted(plane.states().values()) == ["LOST", "ONLINE"],
                LOST_S + 3 + LATE_S,
            )
        finally:
            os.kill(agent, signal.SIGCONT)
        assert time.monotonic() - began > LOST_S - 1
