"""Trainings of the built-in trainer while what runs them is killed and cut off, on real agents.

All at once on one stack: each ends with the curve of a training that nothing happened to, bitwise,
because two workers do the same sums in the same order whatever the time between them.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from muster.sdk.checkpoints import folder_name
from support.chaos.faults import trial_of_shim
from support.chaos.links import Links
from support.ports import free_port
from support.stack import Stack, processes_of, wait_for
from support.training.strategies import CASES, document
from support.training.training_faults import names

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1800)]

NUM_AGENTS = 3
STEPS, SAVED_EVERY, STEP_MS = 200, 5, 120
"""Slow enough that none ends before the last fault has been seen, also on a busy machine."""
SETTINGS = {"MUSTER_HEARTBEAT_S": "2", "MUSTER_NODE_LOST_S": "12", "MUSTER_TAKEOVER_GRACE_S": "0"}
"""Leases of seconds, so that a node that is cut off is soon given up."""


def training(name: str, *, step_ms: int = STEP_MS) -> str:
    """Two workers that save often and take their time. How often it starts again is left to the
    defaults: what the tables promise is promised without a word about restarts."""
    made = document(next(case for case in CASES if case.name == "ddp"))
    options = {"rows_per_s": 0, "inject": [{"rank": 1, "ms": step_ms}] if step_ms else []}
    made["trainer"] |= {"steps": STEPS, "depth": 1, "test": False, "options": options}
    made["checkpoints"] = {"every": {"steps": SAVED_EVERY}}
    return json.dumps({"name": name, **made, "on_disconnect": "stop"})


class Training:
    def __init__(self, stack: Stack, client: Client, name: str, **more: Any) -> None:
        self.stack, self.client = stack, client
        self.experiment_id = client.submit(training(name, **more))["id"]

    @property
    def trial(self) -> dict[str, Any]:
        (trial,) = self.client.trials(self.experiment_id)
        return trial

    def checkpoints(self) -> list[dict[str, Any]]:
        """Registered ones, the newest first."""
        return list(self.client.pages(f"/trials/{self.trial['id']}/checkpoints"))

    def saved(self, *, attempt: int = 1) -> int:
        """Wait until an attempt has saved two; then its number, for it may be a later one."""

        def found() -> int | None:
            trial = self.trial
            assert trial["state"] != "COMPLETED", "it ended before the next fault"
            mine = [c for c in self.checkpoints() if c["attempt_no"] == trial["attempt_no"]]
            is_far = trial["state"] == "RUNNING" and len(mine) >= 2
            return int(trial["attempt_no"]) if is_far and trial["attempt_no"] >= attempt else None

        try:
            return wait_for(
                f"attempt {attempt} of {self.experiment_id} has saved twice", found, 240
            )
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.events()}") from None

    @property
    def node(self) -> str:
        attempts = self.client.get(f"/trials/{self.trial['id']}")["attempts"]
        return str(max(attempts, key=lambda a: a["no"])["nodes"][0])

    def pids(self) -> list[int]:
        """By rank, of the newest attempt."""
        found = self.client.pages(f"/trials/{self.trial['id']}/workers")
        return [w["pid"] for w in sorted(found, key=lambda w: w["rank"])]

    def kill_shim(self) -> None:
        trial_id = self.trial["id"]
        (shim,) = (p for p in processes_of(self.stack.home) if trial_of_shim(p) == trial_id)
        shim.kill()

    def _are_stopped(self) -> bool:
        """Stop the workers that the server lists, and return whether they were all alive."""
        try:
            for pid in self.pids():
                os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return False  # an attempt has ended meanwhile
        return True

    def damage_newest(self) -> None:
        """Change one byte of the newest checkpoint while all workers stand still. It may have been
        published and not be registered yet: then also of the one that is."""
        wait_for("all workers stand still", self._are_stopped)
        (folder,) = self.stack.home.glob(f"storage/**/experiment-{self.experiment_id}/trial-1")
        registered = folder_name(self.checkpoints()[0]["step"])
        for published in folder.glob("step-*"):
            if published.name >= registered:
                shard = published / "shard-00000.safetensors"
                content = bytearray(shard.read_bytes())
                content[-1] ^= 1
                shard.write_bytes(content)

    def curve(self, name: str) -> dict[str, tuple[list[int], list[float]]]:
        path = f"/trials/{self.trial['id']}/series"
        found = self.client.get(path, name=name, max_points=1000)["series"]
        return {str(s["rank"]): (s["step"], s["last"]) for s in found}

    def events(self) -> list[str]:
        return [e["message"] for e in self.client.pages(f"/trials/{self.trial['id']}/events")]

    def ended(self) -> dict[str, Any]:
        self.client.wait(self.experiment_id, timeout_s=600)
        trial = self.trial
        assert trial["state"] == "COMPLETED", (trial["reason"], self.events())
        return trial


@pytest.fixture
def linked(new_home: Path) -> Iterator[tuple[Stack, Links]]:
    """Nodes of two slots, each with a link of its own to the server."""
    port = free_port()
    with ExitStack() as undo:
        links = undo.enter_context(Links(port, num_links=NUM_AGENTS))
        environment = dict.fromkeys(("server", "controller", "worker"), SETTINGS) | {
            f"agent-local-{no}": {"MUSTER_AGENT_SERVER_URL": f"http://127.0.0.1:{link}"}
            for no, link in enumerate(links.ports, start=1)
        }
        stack = Stack(new_home, agents=NUM_AGENTS, port=port, environment=environment)
        undo.callback(stack.close)
        stack.start()
        yield stack, links


def test_whatever_is_lost_the_curve_is_the_one_of_a_training_without_it(
    linked: tuple[Stack, Links],
) -> None:
    stack, links = linked
    with stack.client() as client:
        whole = Training(stack, client, "nothing happens", step_ms=0)
        hit = Training(stack, client, "agent, worker, shim, shard")
        cut = Training(stack, client, "node cut off")

        cut_no = cut.saved()
        number = int(cut.node.removeprefix("local-")) - 1
        links.set(number, "reset")

        no = hit.saved()
        stack.kill_part(f"agent-{hit.node}")
        assert hit.saved(attempt=no) == no, "an agent's end costs its training nothing"

        os.kill(hit.pids()[1], signal.SIGKILL)
        no = hit.saved(attempt=no + 1)
        hit.damage_newest()
        hit.kill_shim()
        assert hit.saved(attempt=no + 1) > no

        assert hit.ended()["num_restarts"] >= 2
        assert cut.ended()["attempt_no"] > cut_no
        assert whole.ended()["attempt_no"] == 1, whole.events()
        links.set(number, "open")

        for name in ("train/loss", "val/loss"):
            expected = whole.curve(name)
            assert expected["0"][0][-1] == STEPS
            assert hit.curve(name) == expected
            assert cut.curve(name) == expected
        assert any("does not have the SHA-256" in text for text in hit.events()), hit.events()
    assert names("agents") == {"node", "agent", "worker", "shard", "shim"}, "what is done above"
