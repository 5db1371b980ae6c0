"""Jobs that use more than their document lets them, and what the kernel is asked to keep."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.jobs import process
from muster_agent.jobs.process import Cgroup, delegate
from muster_agent.shim.limits import Limits, ProcessUse, disk_use_bytes, limits_of, tree

NEIGHBOUR = "import os, time\nwhile not os.path.exists('end'): time.sleep(0.02)\nprint('well')\n"
HOG = "import time\nheld = []\nfor _ in range(20):\n    held.append(bytearray(b'x' * 20_000_000)); time.sleep(0.05)\ntime.sleep(60)\n"
# Bounded by itself: 40 processes that end after a minute.
FORKS = "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep(60); os._exit(0)\ntime.sleep(60)\n"
MANY_FILES = "import time\nfor i in range(30):\n    open(f'f{i}', 'wb').write(b'x' * 1_000_000); time.sleep(0.05)\ntime.sleep(60)\n"
ONE_FILE = "f = open('grows', 'wb')\nfor _ in range(100): f.write(b'x' * 1_000_000)\n"
ONE_FILE_OF_A_SHELL = ["bash", "-c", "head -c 100000000 /dev/zero > grows", "fill"]


def limited(shims: Any, script: str | None, resources: dict[str, Any], **changes: Any) -> Any:
    fields = {"slots": [0], "world_size": 1, "allocation_id": "limited", **changes}
    return shims(script, config={"name": "digits", "resources": resources}, **fields)


@pytest.mark.parametrize(
    ("script", "resources", "words"),
    [
        (HOG, {"memory": "150MB"}, "of memory of the 150.0 MB declared in resources.memory"),
        (
            FORKS,
            {"processes": 20},
            "processes and threads, more than the 20 declared in resources.processes",
        ),
        (MANY_FILES, {"disk": "10MB"}, "of disk of the 10.0 MB declared in resources.disk"),
    ],
    ids=["memory", "processes", "disk"],
)
def test_a_job_that_exceeds_a_limit_ends_with_it_as_the_reason_and_its_neighbour_goes_on(
    shims: Any, script: str, resources: dict[str, Any], words: str
) -> None:
    neighbour = shims(NEIGHBOUR, slots=[0], world_size=1)
    neighbour.start()
    neighbour.wait_state("RUNNING")
    job = limited(
        shims, None, resources, entrypoint=[sys.executable, "-c", script], launcher="plain"
    )
    job.start()
    info = job.wait_exit()
    assert info.cause == "limit_exceeded"
    assert words in info.message
    assert info.first_failure is not None
    assert (info.first_failure.message, info.first_failure.rank) == (info.message, 0)
    assert info.first_failure.at_ms > 0
    assert neighbour.states()[-1] == "RUNNING"
    (shims.code / "end").touch()
    assert neighbour.wait_exit().cause == "success"


def test_the_user_is_told_once_before_the_disk_limit_is_reached(shims: Any, wait_for: Any) -> None:
    script = (
        "import os, time\nopen('most', 'wb').write(b'x' * 8_500_000)\n"
        f"while not os.path.exists({str(shims.code / 'end')!r}): time.sleep(0.02)\n"
    )
    job = limited(
        shims,
        None,
        {"disk": "10MB"},
        entrypoint=[sys.executable, "-c", script],
        launcher="plain",
    )
    job.start()

    def told() -> list[wire.MessageRecord]:
        return [m for m in job.of(wire.MessageRecord) if m.event == wire.NEAR_LIMIT]

    wait_for(told)
    (shims.code / "end").touch()
    assert job.wait_exit().cause == "success"
    (message,) = told()
    assert message.level == "warning"
    assert message.text.startswith(
        "its files take 8.5 MB of the 10.0 MB declared in resources.disk. The trial ends when"
    )


@pytest.mark.parametrize(
    ("entrypoint", "launcher"),
    [([sys.executable, "-c", ONE_FILE], "plain"), (ONE_FILE_OF_A_SHELL, "shell")],
    ids=["python", "shell"],
)
def test_no_single_file_grows_past_the_disk_limit(
    shims: Any, entrypoint: list[str], launcher: str
) -> None:
    job = limited(shims, None, {"disk": "10MB"}, entrypoint=entrypoint, launcher=launcher)
    job.start()
    info = job.wait_exit()
    assert info.cause == "limit_exceeded"
    # The kernel refuses the write, and whichever sees that first says so: the script or the shim.
    seen_first = ("a file of it grew past the", "it used 10.0 MB of disk of the")
    assert any(f"{how} 10.0 MB declared in resources.disk" in info.message for how in seen_first)


def test_a_job_within_its_limits_is_left_alone(shims: Any) -> None:
    script = "import os\nopen('file', 'wb').write(b'x' * 1000)\nprint(os.getpid())\n"
    resources = {"memory": "4GB", "processes": 200, "disk": "1GB"}
    job = limited(
        shims, None, resources, entrypoint=[sys.executable, "-c", script], launcher="plain"
    )
    job.start()
    assert job.wait_exit().cause == "success"


def test_the_share_of_the_slots_is_the_limit_of_a_document_without_one(shims: Any) -> None:
    job = limited(
        shims,
        None,
        {},
        entrypoint=[sys.executable, "-c", HOG],
        launcher="plain",
        options={"memory_share_bytes": 150_000_000},
    )
    job.start()
    info = job.wait_exit()
    assert info.cause == "limit_exceeded"
    assert "of the 150.0 MB of its slots' share" in info.message


# ---------------------------------------------------------------- measuring


def test_only_what_is_below_the_shim_counts() -> None:
    use = [ProcessUse(parent, 1, 10) for parent in (0, 1, 2, 3, 1)]
    processes = dict(enumerate(use, start=1))
    assert set(tree({2}, processes)) == {3, 4}
    assert set(tree({2, 1}, processes)) == {2, 3, 4, 5}


def test_disk_counts_blocks_once_and_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 5_000_000)
    work = tmp_path / "work"
    (work / "inner").mkdir(parents=True)
    (work / "inner" / "file").write_bytes(b"x" * 1_000_000)
    os.link(work / "inner" / "file", work / "again")
    (work / "away").symlink_to(outside)
    with (work / "sparse").open("wb") as file:
        file.truncate(10**9)
    assert 1_000_000 <= disk_use_bytes([work, tmp_path / "absent"]) < 1_100_000


# ---------------------------------------------------------------- what the kernel is asked to keep


def files(folder: Path, **content: str) -> Path:
    """Lay out a folder as cgroup v2 does; names have `_` for the dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


def test_a_group_is_given_the_limits_as_the_kernel_documents_them(tmp_path: Path) -> None:
    path = files(
        tmp_path / "job",
        memory_max="max",
        memory_events="low 0\noom 3\noom_kill 2\noom_group_kill 1\n",
        pids_max="max",
        pids_events="max 4\n",
    )
    (path / "memory.swap.max").write_text("max")
    (path / "memory.oom.group").write_text("0")
    group = Cgroup(path)
    assert group.limit(memory_bytes=8 * 10**9, processes=512)
    told = {p.name: p.read_text() for p in path.iterdir() if not p.name.endswith("events")}
    assert told == {
        "memory.max": "8000000000",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "512",
    }
    assert (group.num_oom_kills(), group.num_forks_refused()) == (2, 4)


def test_a_group_without_a_controller_is_left_to_the_shim(tmp_path: Path) -> None:
    path = files(tmp_path / "job", pids_max="max")
    assert not Cgroup(path).limit(memory_bytes=10**9, processes=512)
    assert (path / "pids.max").read_text() == "max"


def test_an_agent_alone_in_its_group_steps_into_a_leaf_and_passes_the_controllers_on(
    tmp_path: Path,
) -> None:
    me = str(os.getpid())
    home = files(
        tmp_path / "service",
        cgroup_controllers="cpu memory pids",
        cgroup_procs=me,
        cgroup_subtree_control="",
    )
    assert delegate(home)
    assert (home / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (home / "muster-agent" / "cgroup.procs").read_text() == me
    assert delegate(home / "muster-agent")  # Where systemd has made the leaf.


@pytest.mark.parametrize(
    ("controllers", "members"),
    [("cpu pids", "{me}"), ("memory pids", "{me}\n1")],
    ids=["no memory controller", "not alone"],
)
def test_a_group_that_is_not_the_agents_own_stays_as_it_is(
    tmp_path: Path, controllers: str, members: str
) -> None:
    home = files(
        tmp_path / "session",
        cgroup_controllers=controllers,
        cgroup_procs=members.format(me=os.getpid()),
        cgroup_subtree_control="",
    )
    assert not delegate(home)
    assert (home / "cgroup.subtree_control").read_text() == ""
    assert not (home / "muster-agent").exists()


JOINS = """
import os, sys
from pathlib import Path
from muster_agent.jobs import process
home = Path(sys.argv[1])
(home / "cgroup.procs").write_text(str(os.getpid()))
assert process.delegate(), "not delegated"
group = process.Cgroup.create("test")
assert group is not None and group.limit(memory_bytes=100_000_000, processes=30)
children = process.Children({})
words = open("/dev/null", "wb")
child, _ = children.start(
    [sys.executable, "-c", "held = bytearray(b'x' * 300_000_000)"],
    environment=os.environ, folder=Path("/"), stdout=words, stderr=words, cgroup=group,
)
import time
while not child.has_ended:
    children.reap()
    time.sleep(0.01)
print(child.signal, group.num_oom_kills() > 0, group.path.parent == home)
group.remove()
"""


def test_the_kernel_ends_a_job_past_its_memory(tmp_path: Path) -> None:
    own = process._own_cgroup()
    mount = next((p for p in (own, *own.parents) if (p / "cgroup.controllers").exists()), None) if own else None  # fmt: skip
    root = mount
    while root is not None and (root.parent / "cgroup.controllers").exists():
        root = root.parent
    if root is None or "memory" not in (root / "cgroup.controllers").read_text().split():
        pytest.skip("this machine has no cgroup v2 with the controller for memory")
    if "memory" not in (root / "cgroup.subtree_control").read_text().split():
        pytest.skip("the root of cgroup v2 does not pass the controller for memory on")
    home = root / f"muster-test-{os.getpid()}"
    try:
        home.mkdir()
    except OSError:
        pytest.skip("no cgroup can be made on this machine")
    try:
        done = subprocess.run(
            [sys.executable, "-c", JOINS, str(home)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.split() == ["9", "True", "True"], done.stderr
    finally:
        for path in (*home.iterdir(), home):
            if path.is_dir():
                _remove(path)


def _remove(path: Path) -> None:
    deadline = time.monotonic() + 5
    while True:
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def test_limits_are_read_from_the_document() -> None:
    from conftest import make_spec

    resources = {"memory": "8GB", "processes": 512, "disk": "20GB"}
    spec = make_spec(config={"name": "n", "resources": resources})
    found = limits_of(spec, memory_share_bytes=5)
    assert found == Limits(memory_bytes=8 * 10**9, processes=512, disk_bytes=20 * 10**9)
    bare = limits_of(make_spec(), memory_share_bytes=5)
    assert bare == Limits(memory_bytes=5, is_memory_of_node=True)
