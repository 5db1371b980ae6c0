"""Batch scripts of Slurm under real shims: steps on two nodes, their logs, reports, ends and stops."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.records.logs import find_logs, launcher_log


@pytest.fixture
def batch(shims: Any) -> Callable[..., list[Any]]:
    """Starts a gang of shims, one for each node, that run a batch script."""

    def start(script: str, *, nodes: int = 1, python_script: str = "", **changes: Any) -> list[Any]:
        (shims.code / "job.sbatch").write_text(script)
        gang = [
            shims(
                python_script,
                allocation_id=f"gang{rank}",
                launcher="shell",
                entrypoint=["sbatch", "job.sbatch", "one"],
                node_rank=rank,
                num_nodes=nodes,
                slots=[0],
                rank_offset=rank,
                world_size=nodes,
                gang_key="key",
                **changes,
            )
            for rank in range(nodes)
        ]
        rendezvous = gang[0].wait_state("READY").rendezvous if nodes > 1 else None
        for shim in gang:
            shim.start(rendezvous)
        return gang

    return start


def said(shim: Any, stream: Any = "stdout") -> str:
    path = launcher_log(shim.folder.logs, stream)
    return path.read_text() if path.exists() else ""


def of_task(shim: Any, stream: str = "stdout", local: int = 0) -> str:
    files = find_logs(shim.folder.logs)
    return "".join(f.path.read_text() for f in files if (f.local_rank, f.stream) == (local, stream))


def causes(gang: Sequence[Any]) -> list[str]:
    return [shim.wait_exit(timeout_s=60).cause for shim in gang]


REPORTS = """
import os, sys, muster
muster.init()
muster.log({"train/loss": 0.5}, step=int(os.environ["SLURM_PROCID"]))
print("rank", os.environ["SLURM_PROCID"], os.environ.get("RANK"), *sys.argv[1:], flush=True)
if "fail" in sys.argv and os.environ["SLURM_PROCID"] == "1":
    raise ValueError("bad batch")
"""


def test_a_step_starts_tasks_on_all_nodes_with_a_log_and_reports_of_each(batch: Any) -> None:
    script = """#!/bin/bash
head=$(srun -N1 -n1 hostname)
echo "on $SLURM_NNODES nodes: $1 $(cat /proc/sys/kernel/hostname | grep -cx "$head")"
OMP_NUM_THREADS=2 srun python main.py $1
"""
    gang = batch(script, nodes=2, python_script=REPORTS)
    assert causes(gang) == ["success", "success"], said(gang[0], "stderr")
    assert said(gang[0]) == "on 2 nodes: one 1\n"
    assert [of_task(shim) for shim in gang] == ["rank 0 None one\n", "rank 1 None one\n"]
    for rank, shim in enumerate(gang):
        (worker,) = {(w.rank, w.world_size, w.reports) for w in shim.of(wire.WorkerRecord)}
        assert worker == (rank, 2, True)
        (metrics,) = shim.of(wire.MetricsRecord)
        assert [s.name for s in metrics.series] == ["train/loss"]


def test_a_node_without_slurm_runs_a_batch_script(batch: Any, tmp_path: Path) -> None:
    """Whatever the machine of this test has installed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "echo"):
        (programs / name).symlink_to(str(shutil.which(name)))
    gang = batch("#!/bin/bash\nsrun echo up\n", environment={"PATH": str(programs)})
    assert causes(gang) == ["success"], said(gang[0], "stderr")
    assert of_task(gang[0]) == "up\n"


def test_a_task_that_fails_on_another_node_is_the_reason(batch: Any) -> None:
    gang = batch("#!/bin/bash\nsrun -K python main.py fail\n", nodes=2, python_script=REPORTS)
    first = gang[0].wait_exit(timeout_s=60)
    assert first.cause == "user_error"
    assert first.message.startswith("`job.sbatch one` exited with code ")
    assert first.message.endswith("task 1 exited with code 1: ValueError: bad batch"), first


def test_a_task_that_is_ended_for_another_one_is_not_the_reason(batch: Any) -> None:
    script = REPORTS.replace("import os, sys, muster", "import os, sys, time, muster")
    waits = script + "while os.environ['SLURM_PROCID'] == '0': time.sleep(0.1)\n"
    gang = batch("#!/bin/bash\nsrun -K python main.py fail\n", nodes=2, python_script=waits)
    first = gang[0].wait_exit(timeout_s=60)
    assert (first.cause, first.exit_code) == ("user_error", 143)  # the highest, as Slurm's
    assert first.message.endswith("task 1 exited with code 1: ValueError: bad batch"), first


def test_scratch_of_the_job_is_a_folder_that_goes_with_it(batch: Any) -> None:
    script = """#!/bin/bash
set -eu
for folder in "$SLURM_TMPDIR" "$TMPDIR" "$LOCAL_SCRATCH"; do
  test -d "$folder"; touch "$folder/x"; rm -rf "$folder"/*
done
echo "$SLURM_TMPDIR"
"""
    (shim,) = batch(script)
    assert causes([shim]) == ["success"], said(shim, "stderr")
    assert not Path(said(shim).strip()).exists()


SAVES = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.3)
    pathlib.Path("saved-" + os.environ["SLURM_PROCID"]).write_text("yes")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_stop_reaches_the_tasks_of_all_nodes_and_waits_for_them(
    batch: Any, shims: Any, wait_for: Any
) -> None:
    gang = batch("#!/bin/bash\nsrun python main.py\n", nodes=2, python_script=SAVES)
    wait_for(lambda: all("up" in of_task(shim) for shim in gang))
    for shim in gang:
        shim.command("stop", reason="enough")
    assert causes(gang) == ["stopped", "stopped"]
    assert sorted(p.name for p in shims.code.glob("saved-*")) == ["saved-0", "saved-1"]


def test_what_runs_when_the_script_ends_is_ended_on_all_nodes(
    batch: Any, shims: Any, wait_for: Any
) -> None:
    script = "#!/bin/bash\nsrun python main.py &\nwhile [ ! -e go ]; do sleep 0.05; done\n"
    gang = batch(script, nodes=2, python_script=SAVES.replace("signal.signal", "print"))
    wait_for(lambda: all("up" in of_task(shim) for shim in gang))
    pids = [int(of_task(shim).split()[-1]) for shim in gang]
    (shims.code / "go").touch()
    assert causes(gang) == ["success", "success"]
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


TRAINS = """
import os, sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()  # else one may leave while the other still connects
print("trained", os.environ["RANK"], dist.get_world_size(), *sys.argv[1:], flush=True)
dist.destroy_process_group()
time.sleep(0.5)  # torch 2.13: a thread of gloo may still need Python.
"""
MEETS = """
import os, socket, sys
# torchrun's own store, at which it has met; importing torch would take most of the time
socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=60).close()
print("trained", os.environ["RANK"], os.environ["WORLD_SIZE"], *sys.argv[1:], flush=True)
"""
TUTORIAL = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks=2
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
address=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" echo "$MASTER_ADDR")
srun torchrun --nnodes 2 --nproc_per_node 1 --rdzv_id $RANDOM --rdzv_backend c10d \\
  --rdzv_endpoint "$address:$MASTER_PORT" main.py 50
"""
COMPLETED = """#!/bin/bash
CMD="python -m torch.distributed.run --nnodes $SLURM_NNODES --nproc_per_node 1 --node_rank \\$SLURM_PROCID \\
  --master_addr $MASTER_ADDR --master_port $MASTER_PORT main.py"
srun --wait=60 --kill-on-bad-exit=1 --jobid $SLURM_JOB_ID bash -c "$CMD first" 2>&1 | tee -a log.txt
srun torchrun main.py second
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("script", "worker", "trained"),
    [
        (TUTORIAL, TRAINS, ["0 2 50", "1 2 50"]),
        (COMPLETED, MEETS, ["0 2 first", "0 2 second", "1 2 first", "1 2 second"]),
    ],
    ids=["tutorial", "completed"],
)
def test_torchrun_meets_over_nodes_under_srun(
    batch: Any, script: str, worker: str, trained: list[str]
) -> None:
    gang = batch(script, nodes=2, python_script=worker)
    assert [shim.wait_exit(timeout_s=200).cause for shim in gang] == ["success"] * 2, of_task(
        gang[1], "stderr"
    ) + said(gang[0], "stderr")
    text = "".join(f.path.read_text() for shim in gang for f in find_logs(shim.folder.logs))
    found = [line for line in text.splitlines() if line.startswith("trained")]
    assert sorted(line.removeprefix("trained ") for line in found) == trained, text
