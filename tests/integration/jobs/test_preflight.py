"""Nodes try each other: real agents, real sockets, a real all-reduce over gloo."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.client import Client
from support.stack import Stack, scripted, wait_for

UNREACHABLE = "192.0.2.77"
"""Reserved for documentation: no machine has it."""


@pytest.fixture
def join(stack: Stack, client: Client) -> Iterator[Callable[..., str]]:
    """`join("name", MUSTER_AGENT_ADDRESS=…)` starts one more agent in a pool of its own."""
    started: list[tuple[subprocess.Popen[bytes], str, Path]] = []
    folders: list[tempfile.TemporaryDirectory[str]] = []

    def start(name: str, **settings: str) -> str:
        token = client.post("/join-tokens", {"pool": "tried", "uses": 1, "expires_in_s": 600})
        folder = tempfile.TemporaryDirectory(prefix="muster-pf-", ignore_cleanup_errors=True)
        folders.append(folder)
        home = Path(folder.name) / "home"
        with (Path(folder.name) / "words").open("wb") as words:
            process = subprocess.Popen(
                [sys.executable, "-m", "muster_agent.cli", "run"],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
                env={
                    **stack.environment(stack.home),
                    "MUSTER_AGENT_SERVER_URL": stack.url,
                    "MUSTER_AGENT_JOIN_TOKEN": token["secret"],
                    "MUSTER_AGENT_NAME": name,
                    "MUSTER_AGENT_HOME": str(home),
                    "MUSTER_AGENT_POOL": "tried",
                    "MUSTER_AGENT_SLOTS": "1",
                    "MUSTER_AGENT_SLOT_TYPE": "cpu",
                    "MUSTER_AGENT_ADDRESS": "127.0.0.1",
                    "MUSTER_AGENT_STOP_ALLOCATIONS": "true",
                    **settings,
                },
            )
        started.append((process, name, home))
        wait_for(f"{name} is online", lambda: node(client, name)["state"] == "ONLINE")
        return name

    yield start
    for process, _, _ in started:
        process.terminate()
    for process, name, home in started:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"{name} did not end:\n{(home.parent / 'words').read_text()}")
        found = node(client, name)
        client.patch(f"/nodes/{found['id']}", {"scheduling": "cordoned"})
        wait_for(f"{name} is removed", lambda found=found: _remove(client, found["id"]))
    for folder in folders:
        folder.cleanup()


def _remove(client: Client, node_id: str) -> bool:
    try:
        client.delete(f"/nodes/{node_id}")
    except Exception as error:
        if "in_use" in str(getattr(error, "code", "")):
            return False
        raise
    return True


def node(client: Client, name: str) -> dict[str, Any]:
    found = {n["name"]: n for n in client.pages("/nodes")}
    return dict(found.get(name, {"state": "unknown"}))


def children_of_preflights() -> list[psutil.Process]:
    """Those of the agents that were started here."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # somebody else's, or gone
            if "muster.launch.preflight" in process.cmdline() and "muster-pf-" in process.cwd():
                found.append(process)
    return found


@pytest.mark.torch
def test_every_connection_and_a_real_all_reduce(
    stack: Stack, client: Client, join: Callable[..., str]
) -> None:
    names = [join(f"tried-{i}") for i in range(3)]
    done = stack.cli("node", "preflight", *names, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["state"] == "passed"
    assert {(x["from_node"], x["to_node"]) for x in found["links"]} == {
        (a, b) for a in names for b in names if a != b
    }
    for link in found["links"]:
        assert link["message"] == ""
        assert 0 < link["round_trip_ms"] < 5000
        assert 0 < link["allreduce_ms"] < 20_000
    assert 0 < found["allreduce_ms"] < 60_000
    assert "all 6 connections between 3 nodes work" in found["message"]
    assert "all-reduce of 1 MiB over gloo takes" in found["message"]
    wait_for("nothing of it is left", lambda: not children_of_preflights())


@pytest.mark.torch
def test_a_wrong_address_is_found_and_the_pair_is_named(
    stack: Stack, client: Client, join: Callable[..., str]
) -> None:
    good, bad = join("tried-good"), join("tried-bad", MUSTER_AGENT_ADDRESS=UNREACHABLE)
    done = stack.cli("node", "preflight", good, bad)
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = done.stdout.splitlines()[-1]
    assert f"failed: {good} → {bad}: no connection to {UNREACHABLE}:" in verdict
    assert f"{bad}: it advertises {UNREACHABLE}, which it cannot listen on" in done.stdout
    # The other direction works, and is not blamed.
    assert f"{bad} → {good}" not in verdict
    events = client.get(f"/nodes/{node(client, bad)['id']}/events")["items"]
    assert any(e["type"] == "node.preflight_failed" for e in events)


@pytest.mark.torch
def test_a_gang_that_wants_it_does_not_start_over_a_broken_network(
    stack: Stack, client: Client, join: Callable[..., str]
) -> None:
    # The first of them hosts the rendezvous: with an address that is not its own it could not even
    # prepare, so it is the other one's that is wrong.
    join("tried-1")
    join("tried-2", MUSTER_AGENT_ADDRESS=UNREACHABLE)
    trial = run(stack, client, "broken network")
    assert trial["state"] == "FAILED"
    assert trial["termination"] == "preflight_failed"
    assert "the preflight failed: " in trial["reason"]
    assert "tried-1 → tried-2: no connection to" in trial["reason"]
    assert trial["attempts"][0]["started_at"] is None


@pytest.mark.torch
def test_a_gang_that_wants_it_starts_when_all_is_well(
    stack: Stack, client: Client, join: Callable[..., str]
) -> None:
    join("tried-1")
    join("tried-2")
    trial = run(stack, client, "sound network")
    assert trial["state"] == "COMPLETED", trial["reason"]
    events = [e["message"] for e in client.get(f"/trials/{trial['id']}/events")["items"]]
    assert any("passed: all 2 connections between 2 nodes work" in words for words in events)


@pytest.fixture
def stuck_gang(client: Client) -> Iterator[Callable[[], tuple[int, psutil.Process]]]:
    """Submits a gang of the default document, the meeting point of which accepts connections and
    answers none, as behind a link that loses packets; its id and that process."""
    stopped: list[psutil.Process] = []

    def start() -> tuple[int, psutil.Process]:
        resources = {"slots": 2, "nodes": 2, "pool": "tried"}
        document = scripted("stuck", [{"log": "here"}], launcher="torchrun", resources=resources)
        experiment_id = client.submit(document)["id"]
        (trial,) = client.trials(experiment_id)
        # torchrun takes longer to import torch than this to be seen.
        wait_for("it starts", lambda: attempt(client, trial["id"])["state"] == "STARTING", 120)
        (store,) = meeting_points()
        store.suspend()
        stopped.append(store)
        return trial["id"], store

    yield start
    for store in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            store.resume()


def attempt(client: Client, trial_id: int) -> dict[str, Any]:
    """The first one."""
    attempts = client.get(f"/trials/{trial_id}")["attempts"]
    return dict(min(attempts, key=lambda a: a["no"])) if attempts else {"state": ""}


def meeting_points() -> list[psutil.Process]:
    """Those of the agents that were started here."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "muster.launch.rendezvous" in process.cmdline() and "muster-pf-" in process.cwd():
                found.append(process)
    return found


def messages(client: Client, trial_id: int) -> list[str]:
    return [e["message"] for e in client.pages(f"/trials/{trial_id}/events")]


@pytest.mark.torch
def test_a_gang_that_does_not_start_finds_the_pair_and_goes_elsewhere(
    client: Client,
    join: Callable[..., str],
    stuck_gang: Callable[[], tuple[int, psutil.Process]],
) -> None:
    join("tried-1")
    join("tried-2", MUSTER_AGENT_ADDRESS=UNREACHABLE)
    trial_id, _ = stuck_gang()
    wait_for("the attempt has ended", lambda: attempt(client, trial_id)["state"] == "FAILED", 120)
    assert attempt(client, trial_id)["termination"] == "preflight_failed"
    said = "did not start all workers within 10 s"
    reason = attempt(client, trial_id)["reason"]
    assert f"{said}, for its nodes cannot reach each other: tried-1 → tried-2: no con" in reason
    assert any(
        f"{said}: the nodes now try to reach each other" in e for e in messages(client, trial_id)
    )
    join("tried-3")
    trial = wait_for("the trial has ended", lambda: over(client, trial_id), 240)
    assert trial["state"] == "COMPLETED", trial["reason"]
    attempts = sorted(trial["attempts"], key=lambda a: a["no"])
    assert [a["nodes"] for a in attempts] == [
        ["tried-1", "tried-2"],
        ["tried-1", "tried-3"],
    ]


@pytest.mark.torch
def test_a_gang_that_is_only_slow_is_not_disturbed(
    client: Client,
    join: Callable[..., str],
    stuck_gang: Callable[[], tuple[int, psutil.Process]],
) -> None:
    join("tried-1")
    join("tried-2")
    trial_id, store = stuck_gang()
    wait_for(
        "its preflight has passed",
        lambda: any("passed: all 2 connections" in e for e in messages(client, trial_id)),
        120,
    )
    store.resume()
    trial = wait_for("the trial has ended", lambda: over(client, trial_id), 240)
    assert (trial["state"], len(trial["attempts"])) == ("COMPLETED", 1), trial["reason"]


def over(client: Client, trial_id: int) -> dict[str, Any] | None:
    trial = client.get(f"/trials/{trial_id}")
    return trial if trial["state"] in ("COMPLETED", "FAILED", "CANCELED") else None


def run(stack: Stack, client: Client, name: str) -> dict[str, Any]:
    document = scripted(
        name,
        [{"log": "here"}],
        slots=2,
        resources={"slots": 2, "nodes": 2, "pool": "tried"},
        restarts={"infra": 0},
        preflight={"network": True},
    )
    experiment_id = client.submit(document)["id"]

    (trial,) = client.trials(experiment_id)
    return wait_for("the trial has ended", lambda: over(client, trial["id"]), timeout_s=240)
