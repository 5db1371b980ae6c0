"""What the controller makes of heartbeats that it sees from pass to pass."""

import datetime as dt

import pytest

from muster_server.domain.lifecycle import LifecycleSnapshot, NodeLease
from muster_server.loops.heartbeats import Sightings
from muster_server.settings import Settings

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("late_s", [0.03, 0.4])
@pytest.mark.parametrize("controller_interval_s", [1.0, 5.0, 30.0])
def test_regular_heartbeats_never_look_like_an_outage(controller_interval_s, late_s):
    settings = Settings(controller_interval_s=controller_interval_s, node_suspect_missed=2)
    away_after_s = settings.heartbeat_s * settings.node_suspect_missed
    passed_s = 0.0
    sightings = Sightings(monotonic=lambda: passed_s)
    for _ in range(200):
        now = START + dt.timedelta(seconds=passed_s)
        beat_s = settings.heartbeat_s + late_s
        heard_at = START + dt.timedelta(seconds=passed_s // beat_s * beat_s)
        snapshot = LifecycleSnapshot(
            leader_since=START,
            nodes=(
                NodeLease(
                    id="n1", name="n1", state="ONLINE", last_seen_at=heard_at,
                    registered_at=START, heard_by="a",
                ),
            ),
        )  # fmt: skip
        seen = sightings.put_on_our_clock(snapshot, now, away_after_s=away_after_s)
        assert seen.hearing_since is None
        passed_s += settings.pass_interval_s
