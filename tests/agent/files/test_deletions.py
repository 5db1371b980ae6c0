"""A real agent deletes what the server asks for, and says how that went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster import wire
from support.buckets import Buckets, buckets

CLUSTER = "aaaa1111"
SAVE = """
import os, pathlib
folder = pathlib.Path(os.environ["MUSTER_CHECKPOINT_DIR"]) / "step-00000001"
folder.mkdir()
(folder / "model.pt").write_bytes(b"x" * 1000)
"""


@pytest.fixture
def s3() -> Iterator[Buckets]:
    with buckets("bucket") as started:
        yield started


def trial(make_spec: Any, **changes: Any) -> wire.AllocationSpec:
    return make_spec(
        slots=[0],
        world_size=1,
        checkpoint_dir="experiment-3/trial-2",
        cluster_id=CLUSTER,
        **changes,
    )


def wanted(plane: Any, number: int = 1, **changes: Any) -> wire.Deletion:
    fields = {
        "id": number,
        "path": "experiment-3",
        "storage_id": plane.registrations[-1]["inventory"]["storage_id"],
        "cluster_id": CLUSTER,
        **changes,
    }
    return wire.Deletion(**fields)


def test_files_of_a_trial_are_deleted_on_request(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(trial(make_spec, code=code(SAVE)))
    assert agent.wait_exit("a1").cause == "success"
    folder = agent.home / "storage" / "experiment-3"
    assert (folder / "trial-2/step-00000001/model.pt").exists()
    plane.want_deleted(wanted(plane))
    (result,) = wait_for(lambda: plane.deletion_results)
    assert (result.outcome, result.freed_bytes) == ("done", 1000 + len(CLUSTER) + 1)
    assert not folder.exists()
    assert plane.deletions == {}


def test_a_request_for_another_servers_files_is_refused_once(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(trial(make_spec, code=code(SAVE)))
    agent.wait_exit("a1")
    plane.want_deleted(wanted(plane, 1, cluster_id="bbbb2222"))
    plane.want_deleted(wanted(plane, 2, path="../agent"))
    plane.want_deleted(wanted(plane, 3, storage_id="0" * 32))
    results = wait_for(lambda: len(plane.deletion_results) >= 3 and plane.deletion_results)
    assert {r.id: r.outcome for r in results} == {1: "refused", 2: "refused", 3: "refused"}
    assert len(results) == 3
    assert (agent.home / "storage/experiment-3/trial-2/step-00000001/model.pt").exists()


def test_what_is_in_use_is_not_deleted(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(trial(make_spec, code=code("import time\ntime.sleep(600)\n")))
    agent.wait_state("a1", "RUNNING")
    plane.want_deleted(wanted(plane))
    (result,) = wait_for(lambda: plane.deletion_results)
    assert (result.outcome, result.message) == ("failed", "something that uses it still runs here")
    assert (agent.home / "storage/experiment-3/trial-2").is_dir()
    assert 1 in plane.deletions


def test_what_has_ended_for_the_server_is_not_in_use_any_more(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    """The shim writes the last record first and shows its state to the agent afterwards: the server
    may know of the end, and ask for a deletion, in between."""
    script = (
        SAVE + "import time\nwhile not (folder.parent / 'go').exists():\n    time.sleep(0.01)\n"
    )
    plane.want(trial(make_spec, code=code(script)))
    agent.wait_state("a1", "RUNNING")
    folder = agent.folder("a1")
    in_the_way = folder.path / f".shim.json.{folder.read_state().pid}"
    in_the_way.mkdir()
    trial_folder = agent.home / "storage/experiment-3/trial-2"
    (trial_folder / "go").touch()
    assert agent.wait_exit("a1").cause == "success"
    assert folder.read_state().observed != "EXITED"
    plane.want_deleted(wanted(plane))
    (result,) = wait_for(lambda: plane.deletion_results)
    assert result.outcome == "done"
    assert not trial_folder.exists()
    in_the_way.rmdir()


def test_a_deletion_is_done_by_the_next_agent_when_the_first_one_dies(
    agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(trial(make_spec, code=code(SAVE)))
    agent.wait_exit("a1")
    deletion = wanted(plane)
    agent.kill()
    plane.want_deleted(deletion)
    agent.start()
    (result,) = wait_for(lambda: plane.deletion_results)
    assert result.outcome == "done"
    assert not (agent.home / "storage/experiment-3").exists()


def test_another_servers_experiment_of_the_same_number_is_not_written_into(
    agent: Any, plane: Any, make_spec: Any, code: Any
) -> None:
    plane.want(trial(make_spec, code=code("pass")))
    agent.wait_exit("a1")
    other = make_spec(
        "a2", slots=[0], world_size=1, code=code("pass"),
        checkpoint_dir="experiment-3/trial-1", cluster_id="bbbb2222",
    )  # fmt: skip
    plane.want(other)
    agent.wait_state("a2", "PREPARE_FAILED")
    assert "belongs to another Muster server" in plane.of("a2").records[-1].record.message


def test_files_in_an_object_store_are_deleted_below_this_servers_folder_alone(
    s3: Buckets, agent: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    script = """
import os, pathlib
assert os.environ["MUSTER_CHECKPOINT_URL"].startswith("s3://bucket/muster-")
pathlib.Path(os.environ["MUSTER_CHECKPOINT_DIR"], "on its way").write_bytes(b"x")
"""
    root = f"s3://bucket/muster-{CLUSTER}"
    plane.want(trial(make_spec, code=code(script), checkpoint_url=f"{root}/experiment-3/trial-2"))
    agent.wait_exit("a1")
    assert (agent.folder("a1").checkpoints / "on its way").exists()
    assert not (agent.home / "storage" / "experiment-3").exists()
    for name in ("experiment-3/trial-2/step-1/a", "experiment-30/trial-1/b"):
        s3.put(f"{root}/{name}", b"x" * 1000)
    plane.want_deleted(wanted(plane, 1, storage_url="s3://bucket"))
    plane.want_deleted(wanted(plane, 2, storage_url="s3://bucket", path="experiment-30/.."))
    plane.want_deleted(wanted(plane, 3, storage_url="s3://nowhere"))
    results = wait_for(lambda: len(plane.deletion_results) >= 3 and plane.deletion_results)
    found = {r.id: (r.outcome, r.freed_bytes) for r in results}
    assert found == {1: ("done", 1000), 2: ("refused", 0), 3: ("failed", 0)}
    assert "there is no such bucket" in next(r.message for r in results if r.id == 3)
    assert s3.keys("s3://bucket/") == [f"{root}/experiment-30/trial-1/b"]
