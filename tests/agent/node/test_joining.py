"""A real agent joins, loses answers, and gets another credential while it works."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.agent_control_plane import JOIN_TOKEN


@pytest.fixture
def stored(agent: Any) -> Any:
    def read() -> str:
        path = agent.home / "credential.json"
        return str(json.loads(path.read_text())["credential"]) if path.exists() else ""

    return read


def test_a_lost_answer_is_asked_for_again_by_the_same_joining(
    plane: Any, agent: Any, wait_for: Any, stored: Any
) -> None:
    agent.kill()
    for name in ("credential.json", "join_id"):
        (agent.home / name).unlink(missing_ok=True)
    del plane.joinings[:]
    plane.drop_answers = 2
    agent.start()
    wait_for(lambda: plane.drop_answers == 0)
    agent.kill()  # and the agent itself dies before it has its credential
    agent.start()
    wait_for(stored)
    assert len(plane.joinings) >= 3
    assert len(set(plane.joinings)) == 1
    assert re.fullmatch("[0-9a-f]{32}", plane.joinings[0])
    assert not (agent.home / "join_id").exists()


def test_a_credential_is_replaced_while_training_goes_on(
    plane: Any, agent: Any, make_spec: Any, code: Any, wait_for: Any, stored: Any
) -> None:
    script = "import time\nfor i in range(10**9): print(i, flush=True); time.sleep(0.01)\n"
    plane.want(make_spec(code=code(script)))
    agent.wait_state("a1", "RUNNING")
    for number in range(3):
        secret = f"mst_agt_{number}"
        with plane.lock:
            plane.next_credential = secret
        wait_for(lambda: plane.credentials == {secret})  # noqa: B023
        assert stored() == secret
        seen = len(plane.of("a1").log_text(0))
        wait_for(lambda: len(plane.of("a1").log_text(0)) > seen)  # noqa: B023
    assert len(plane.registrations) == 1
    said = [json.loads(line) for line in agent.words().splitlines()]
    assert not [event for event in said if "401" in str({**event, "timestamp": ""})]


def test_a_credential_that_a_late_heartbeat_made_void_locks_nobody_out(
    plane: Any, agent: Any, make_spec: Any, code: Any, wait_for: Any, stored: Any
) -> None:
    plane.want(make_spec(code=code("import time; time.sleep(600)")))
    agent.wait_state("a1", "RUNNING")
    first = stored()
    joinings = len(plane.joinings)
    with plane.lock:
        plane.next_credential, plane.late_heartbeats = "mst_agt_void", 1
    wait_for(lambda: stored() == "mst_agt_void")
    wait_for(lambda: len(plane.registrations) == 2)
    assert plane.registrations[1]["running"][0]["observed"] == "RUNNING"
    # It works on with the one before, with which it is given the next.
    wait_for(lambda: plane.credentials == {"instead of mst_agt_void"})
    assert stored() == "instead of mst_agt_void" != first
    with plane.lock:
        plane.next_credential, plane.late_heartbeats = "mst_agt_also_void", 1
    wait_for(lambda: stored() == "mst_agt_also_void")
    agent.kill()
    agent.start()  # and so does the agent after it
    wait_for(lambda: plane.credentials == {"instead of mst_agt_also_void"})
    assert len(plane.joinings) == joinings


def test_numbers_that_go_backwards_make_the_agent_register_again(
    plane: Any, agent: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code("import time; time.sleep(600)")))
    agent.wait_state("a1", "RUNNING")
    with plane.changed:  # a database restored from before
        plane.index = 0
        plane.changed.notify_all()
    wait_for(lambda: len(plane.registrations) == 2)
    assert plane.registrations[1]["running"][0]["observed"] == "RUNNING"
    assert JOIN_TOKEN not in agent.words()
