"""What tests of routes share: the controller's passes over what they have submitted."""

import pytest

from muster_server import clock
from muster_server.domain.lifecycle import LifecyclePolicy, decide
from muster_server.loops.search import search_pass
from muster_server.services.lifecycle import apply_step, load_lifecycle_snapshot


@pytest.fixture
def tick(database):
    """`tick()` lets the searchers and the lifecycle act once."""

    def run():
        now = clock.now()
        search_pass(database, now)
        with database.transaction() as session:
            snapshot = load_lifecycle_snapshot(session, leader_since=now, now=now)
            for step in decide(snapshot, now=now, policy=LifecyclePolicy()):
                apply_step(session, step, now=now)

    return run
