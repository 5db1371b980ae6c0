"""Windows of the profiler: asked for, told to the node, answered rank by rank, kept for a while."""

import base64
import dataclasses
import gzip
import json

import pytest

from muster.wire import ProfileRecord, WorkerRecord
from muster_server.services.runtime import profiles, trace_figures
from support.agent import start

START = "2026-03-01T12:00:00Z"
TRACE = gzip.compress(b'{"traceEvents": []}')


def worker(rank, *, reports=True):
    return WorkerRecord(
        local_rank=rank,
        rank=rank,
        world_size=3,
        node_rank=0,
        pid=100 + rank,
        host="h",
        master_addr="127.0.0.1",
        master_port=1,
        reports=reports,
    )


@pytest.fixture
def running(controller, agent, submit, show, time_machine):
    """A fake agent with a trial of three ranks, the last of which does not report."""
    time_machine.move_to(START, tick=False)
    node = agent(slots=3)
    experiment_id = submit(slots=3)
    controller.tick()
    allocation_id = start(controller, node, worker(0), worker(1), worker(2, reports=False))
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return node, allocation_id, trial["id"]


@pytest.fixture
def ask(running, member_client):
    def post(**body):
        return member_client.post(f"/api/v1/trials/{running[2]}/profiles", json=body)

    return post


def pieces(no, rank, *, of=TRACE, size=40):
    whole = ProfileRecord(no=no, local_rank=rank, rank=rank, size_bytes=len(of))
    whole = dataclasses.replace(whole, first_step=8, last_step=12)
    parts = [of[at : at + size] for at in range(0, len(of), size)]
    return [
        dataclasses.replace(whole, index=index, data=base64.b64encode(part).decode())
        for index, part in enumerate(parts)
    ]


def failed(no, rank, problem):
    return ProfileRecord(no=no, local_rank=rank, rank=rank, problem=problem)


def test_a_window_goes_to_the_node_and_its_traces_come_back(
    running, ask, member_client, viewer_client, show, muster, tmp_path
):
    node, allocation_id, trial_id = running
    path = f"/api/v1/trials/{trial_id}/profiles"
    assert viewer_client.post(path, json={}).status_code == 403
    assert show(f"/trials/{trial_id}/profiles")["items"] == []
    assert node.poll()[allocation_id].profile is None
    index = node.index
    asked = ask(ranks=[1, 0], steps=5)
    assert asked.status_code == 201, asked.text
    assert [(r["rank"], r["state"]) for r in asked.json()["ranks"]] == [
        (0, "waiting"),
        (1, "waiting"),
    ]
    order = node.poll(index=index)[allocation_id].profile  # its poll was answered
    assert (order.no, order.ranks, order.num_steps) == (1, [0, 1], 5)
    again = ask()
    assert (again.status_code, again.json()["error"]["code"]) == (409, "profiles.running")

    parts = pieces(1, 0, size=4)
    node.send(allocation_id, *parts[:-1])
    assert viewer_client.get(f"{path}/1/ranks/0/trace").status_code == 404
    node.send(allocation_id, parts[-1], failed(1, 1, "the script has not imported torch"))
    found = show(f"/trials/{trial_id}/profiles/1")
    assert (found["is_complete"], found["requested_by"], found["attempt_no"]) == (True, "member", 1)
    first, second = found["ranks"]
    assert (first["state"], first["first_step"], first["last_step"]) == ("ready", 8, 12)
    assert first["size_bytes"] == len(TRACE)
    assert (second["state"], second["problem"]) == ("failed", "the script has not imported torch")
    got = viewer_client.get(f"{path}/1/ranks/0/trace")
    assert (got.content, got.headers["content-type"]) == (TRACE, "application/gzip")
    assert f"trial-{trial_id}-window-1-rank-0.json.gz" in got.headers["content-disposition"]
    assert "content-encoding" not in got.headers
    none = viewer_client.get(f"{path}/1/ranks/1/trace").json()["error"]
    assert (none["code"], "not imported torch" in none["message"]) == ("profiles.no_trace", True)
    (event,) = (
        e for e in show(f"/trials/{trial_id}/events")["items"] if e["type"] == "trial.profiled"
    )
    assert "5 steps of rank 0, 1" in event["message"]

    shown = muster(
        "profile",
        f"{show(f'/trials/{trial_id}')['experiment_id']}.1",
        "--last",
        "--output",
        str(tmp_path / "traces"),
    )
    assert shown.exit_code == 0, shown.output
    assert "8 to 12" in shown.output
    (file,) = (tmp_path / "traces").iterdir()
    assert file.read_bytes() == TRACE


def kernels(rank, *, wait):
    work = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 40, "args": {"stream": 7}}
    told = {"stream": 20, "Seq": 5, "Process Group Description": "default_pg"}
    sent = {**work, "name": "ncclDevKernel_AllReduce()", "ts": 30, "dur": 20 + wait, "args": told}
    mark = {**work, "cat": "user_annotation", "name": "step 8", "dur": 100, "args": {}}
    events = {"schemaVersion": 1, "traceEvents": [mark, work, sent]}
    return gzip.compress(json.dumps(events).encode())


def test_figures_of_a_windows_traces(running, ask, member_client, show):
    node, allocation_id, trial_id = running
    path = f"/api/v1/trials/{trial_id}/profiles/1/summary"
    assert ask(ranks=[0, 1]).status_code == 201
    none = member_client.get(path)
    assert (none.status_code, none.json()["error"]["code"]) == (404, "profiles.no_trace")
    node.send(allocation_id, *pieces(1, 0, of=kernels(0, wait=30)))
    alone = show(f"/trials/{trial_id}/profiles/1/summary")
    assert ([one["rank"] for one in alone["ranks"]], alone["waiting"]) == ([0], None)
    node.send(allocation_id, *pieces(1, 1, of=kernels(1, wait=0)))
    found = show(f"/trials/{trial_id}/profiles/1/summary")
    first, second = found["ranks"]
    assert (first["communication_us"], first["exposed_us"], first["idle_us"]) == (50, 40, 0)
    assert (second["communication_us"], second["exposed_us"], second["overlap_us"]) == (20, 10, 10)
    assert [(one["step"], one["idle_us"]) for one in first["steps"]] == [(8, 20)]
    assert (first["kinds"][0]["group"], first["kinds"][0]["kind"]) == ("world", "all_reduce")
    assert found["waiting"]["pairs"] == [{"rank": 0, "waits_for": 1, "waiting_us": 30}]


def test_hostile_traces_cost_their_reader_only(running, ask, member_client, show, monkeypatch):
    node, allocation_id, trial_id = running
    path = f"/api/v1/trials/{trial_id}/profiles/1/summary"
    bomb = gzip.compress(b'{"schemaVersion": 1,' + b" " * 300_000_000, compresslevel=1)
    assert ask(ranks=[0, 1]).status_code == 201
    node.send(allocation_id, *pieces(1, 0, of=bomb, size=400_000))
    node.send(allocation_id, *pieces(1, 1))
    assert show(f"/trials/{trial_id}/profiles/1/summary")["ranks"] == []
    (large, other) = show(f"/trials/{trial_id}/profiles/1/summary")["problems"]
    assert "longer than 268,435,456 bytes unpacked" in large["problem"]
    assert "not a trace of torch's profiler" in other["problem"]
    # A reader that takes too long is ended, and the next one has its turn.
    monkeypatch.setattr(trace_figures, "TIMEOUT_S", 0.01)
    for _ in range(2):
        refused = member_client.get(path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "profiles.too_large")


def test_what_cannot_be_profiled_is_named(running, ask, member_client, show):
    node, allocation_id, trial_id = running
    refused = ask(ranks=[0, 0, 2, 7])
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "profiles.impossible")
    fields = {f["path"]: f["message"] for f in refused.json()["error"]["fields"]}
    assert fields == {
        "ranks[1]": "has rank 0 twice",
        "ranks[2]": "rank 2 reports nothing: its script has not called muster.init(), and no optimizer "
        "of torch has made a step in it",
        "ranks[3]": "names rank 7, which is not running",
    }
    assert ask(steps=21).status_code == 422
    assert ask(ranks=[]).status_code == 422
    assert ask(ranks=[0, 1]).status_code == 201
    node.exit(allocation_id)
    ended = show(f"/trials/{trial_id}/profiles/1")
    assert ended["is_complete"]
    assert {r["problem"] for r in ended["ranks"]} == {
        "its worker ended before the window was complete"
    }
    over = ask()
    assert (over.status_code, over.json()["error"]["code"]) == (409, "trials.not_running")


def test_old_windows_go_and_a_silent_node_is_given_up(
    running, ask, show, time_machine, monkeypatch
):
    node, allocation_id, trial_id = running
    for no in range(1, profiles.KEEP_WINDOWS + 3):
        assert ask().json()["no"] == no
        node.send(allocation_id, *pieces(no, 0, size=100), failed(no - 1, 0, "late"))
    kept = [w["no"] for w in show(f"/trials/{trial_id}/profiles")["items"]]
    assert kept == [7, 6, 5, 4, 3]
    monkeypatch.setattr(profiles, "KEEP_BYTES", 2 * len(TRACE))
    ask()
    assert [w["no"] for w in show(f"/trials/{trial_id}/profiles")["items"]] == [8, 7, 6]
    damaged = dataclasses.replace(pieces(8, 0)[0], data="?")
    node.send(allocation_id, damaged)
    (rank,) = show(f"/trials/{trial_id}/profiles/8")["ranks"]
    assert rank["problem"] == "a piece of the trace was damaged on its way"
    ask()
    time_machine.shift(profiles.GIVEN_UP_AFTER.total_seconds() + 1)
    (rank,) = show(f"/trials/{trial_id}/profiles/9")["ranks"]
    assert rank["problem"] == "its node did not answer"
