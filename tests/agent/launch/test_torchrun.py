"""Real torchrun under real shims. Slow (torch is imported several times), hence few."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.records.logs import find_logs

pytestmark = pytest.mark.torch

ALL_REDUCE = """
import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(os.environ["RANK"], os.environ["GROUP_RANK"], dist.get_world_size(), int(total), flush=True)
"""


def out(shim: Any, local_rank: int, stream: str = "stdout") -> str:
    for file in find_logs(shim.folder.logs):
        if (file.local_rank, file.stream) == (local_rank, stream):
            return file.path.read_text()
    return ""


def test_torchrun_on_one_node_finishes(shims: Any) -> None:
    shim = shims(ALL_REDUCE + "dist.destroy_process_group()\n", launcher="torchrun")
    shim.start()
    info = shim.wait_exit(timeout_s=120)
    assert info.cause == "success", info
    assert [w.exit_code for w in info.workers] == [0, 0]
    assert sorted(out(shim, i) for i in (0, 1)) == ["0 0 2 2\n", "1 0 2 2\n"]
    assert "RUNNING" in shim.states()
    workers = shim.of(wire.WorkerRecord)
    assert sorted({(w.rank, w.world_size, w.reports, w.attached) for w in workers}) == [
        (0, 2, False, False),  # found by the shim
        (0, 2, True, True),  # said by itself, which Muster has put itself into
        (1, 2, False, False),
        (1, 2, True, True),
    ]
    assert all(w.master_port > 0 for w in workers)


def test_torchrun_root_cause_is_the_rank_that_failed_first(shims: Any) -> None:
    script = ALL_REDUCE + (
        "if os.environ['RANK'] == '1':\n    raise ValueError('bad batch')\ntime.sleep(600)\n"
    )
    shim = shims(script, launcher="torchrun")
    shim.start()
    info = shim.wait_exit(timeout_s=120)
    assert info.cause == "user_error", info
    # Now and then gloo's threads abort Python while it ends: the exception is the cause all the same.
    assert re.fullmatch(
        "rank 1 (exited with code 1:|ended with) ValueError: bad batch", info.message
    ), info
    assert info.first_failure is not None
    assert info.first_failure.at_ms > 0
    assert any(line.endswith("ValueError: bad batch") for line in info.log_tail)
    signals = {w.rank: w.signal for w in info.workers}
    assert signals.pop(1) in (None, signal.SIGABRT)
    assert signals == {0: signal.SIGTERM}


def test_torchrun_worker_killed_by_sigkill(shims: Any) -> None:
    shim = shims("import time; time.sleep(600)", launcher="torchrun")
    shim.start()
    shim.wait_state("RUNNING", timeout_s=120)
    victim = next(w for w in shim.of(wire.WorkerRecord) if w.rank == 1)
    os.kill(victim.pid, signal.SIGKILL)
    info = shim.wait_exit(timeout_s=120)
    assert info.cause == "killed_by_signal"
    assert info.first_failure is not None
    assert (info.first_failure.rank, info.first_failure.signal) == (1, signal.SIGKILL)


def test_killed_torchrun_leaves_no_worker_behind(shims: Any) -> None:
    shim = shims("import time; time.sleep(600)", launcher="torchrun")
    shim.start()
    shim.kill_torchrun()


def test_script_that_torchrun_cannot_run_is_a_user_error(shims: Any) -> None:
    shim = shims("import no_such_module_xyz", launcher="torchrun")
    shim.start()
    info = shim.wait_exit(timeout_s=120)
    assert info.cause == "user_error"
    assert "ModuleNotFoundError: No module named 'no_such_module_xyz'" in info.message


def gang(shims: Any, script: str, *, kills_host: bool = False, **changes: Any) -> list[Any]:
    nodes = []
    for node_rank in (0, 1):
        nodes.append(
            shims(
                script,
                allocation_id=f"gang{node_rank}",
                launcher="torchrun",
                node_rank=node_rank,
                num_nodes=2,
                slots=[0],
                rank_offset=node_rank,
                world_size=2,
                **changes,
            )
        )
    ready = nodes[0].wait_state("READY", timeout_s=120)
    nodes[1].wait_state("READY")
    assert ready.rendezvous is not None
    assert ready.rendezvous.host == "127.0.0.1"
    if kills_host:
        (host,) = [
            process
            for process in psutil.process_iter(["cmdline"])
            if "muster.launch.rendezvous" in (process.info["cmdline"] or ())
            and str(nodes[0].folder.path) == process.cwd()
        ]
        host.kill()
    for node in nodes:
        node.start(ready.rendezvous)
    return nodes


def test_gang_of_two_nodes_meets_at_the_rendezvous_host(shims: Any) -> None:
    nodes = gang(shims, ALL_REDUCE + "dist.destroy_process_group()\n")
    infos = [node.wait_exit(timeout_s=120) for node in nodes]
    assert [info.cause for info in infos] == ["success", "success"], infos
    assert sorted(out(node, 0) for node in nodes) == ["0 0 2 2\n", "1 1 2 2\n"]


def test_the_rendezvous_host_can_be_reached_before_it_has_imported_torch(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    os.mkfifo(tmp_path / "never_written")
    (tmp_path / "torch" / "__init__.py").write_text(f"open({str(tmp_path / 'never_written')!r})\n")
    host = subprocess.Popen(
        [sys.executable, "-m", "muster.launch.rendezvous", "--host=127.0.0.1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with host:
        assert host.stdout is not None
        port = json.loads(host.stdout.readline())["port"]
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            assert host.poll() is None
        host.kill()


def test_the_end_of_the_rendezvous_host_is_named_as_the_cause(shims: Any) -> None:
    nodes = gang(shims, ALL_REDUCE, kills_host=True)
    info = nodes[0].wait_exit(timeout_s=60)
    assert info.cause == "launcher_failed", info
    assert info.message == "the rendezvous host was killed by SIGKILL"


def test_gang_of_two_nodes_can_be_stopped(shims: Any) -> None:
    nodes = gang(shims, ALL_REDUCE + "time.sleep(600)\n")
    for node in nodes:
        node.wait_state("RUNNING", timeout_s=120)
    for node in nodes:
        node.command("stop", reason="enough")
    assert [node.wait_exit().cause for node in nodes] == ["stopped", "stopped"]
