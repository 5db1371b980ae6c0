"""The lines that launchers of users become. Users reproduce them by hand, so each is written out."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.launch import commands
from muster.launch.commands import CommandConflict, GangPlace, complete, entry_file, hostfile


def place(**changes: Any) -> GangPlace:
    given: dict[str, Any] = {
        "num_nodes": 2,
        "node_rank": "1",
        "num_local": 4,
        "world_size": 8,
        "master_addr": "10.0.0.4",
        "master_port": "40123",
        "is_cpu": False,
        "hostfile": "/a/hostfile",
    }
    return GangPlace(**{**given, **changes})


ONE = {"num_nodes": 1, "node_rank": "0", "num_local": 2, "world_size": 2}
LONE = {"num_nodes": 1, "node_rank": "0", "num_local": 1, "world_size": 1}


@pytest.mark.parametrize(
    ("line", "changes", "completed"),
    [
        # torchrun
        ("torchrun train.py --lr 1", {}, "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --master-addr=10.0.0.4 --master-port=40123 train.py --lr 1"),
        ("torchrun --nproc_per_node 2 --nnodes=2 -m pkg.train --nnodes 9", {}, "torchrun --node-rank=1 --master-addr=10.0.0.4 --master-port=40123 --nproc_per_node 2 --nnodes=2 -m pkg.train --nnodes 9"),
        ("torchrun --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint h:1 a.py", {}, "torchrun --nproc-per-node=4 --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint h:1 a.py"),
        ("torchrun --standalone --nproc_per_node=gpu a.py", ONE, "torchrun --nnodes=1 --standalone --nproc_per_node=2 a.py"),
        ("torchrun --standalone --nproc-per-node auto a.py --nproc-per-node auto", ONE, "torchrun --nnodes=1 --standalone --nproc-per-node=2 a.py --nproc-per-node auto"),
        ("torchrun --standalone --max-restarts=3 a.py", ONE, "torchrun --nnodes=1 --nproc-per-node=2 --standalone --max-restarts=3 a.py"),
        ("python -m torch.distributed.launch --use_env a.py", ONE, "python -m torch.distributed.launch --nnodes=1 --nproc-per-node=2 --node-rank=0 --master-addr=10.0.0.4 --master-port=40123 --use_env a.py"),
        ("torchrun a.py", ONE, "torchrun --nnodes=1 --nproc-per-node=2 --node-rank=0 --master-addr=10.0.0.4 --master-port=40123 a.py"),
        ("/opt/bin/torchrun --master_port 5 a.py", ONE, "/opt/bin/torchrun --nnodes=1 --nproc-per-node=2 --node-rank=0 --master-addr=10.0.0.4 --master_port 5 a.py"),
        ("python3 -m torch.distributed.run a.py", ONE, "python3 -m torch.distributed.run --nnodes=1 --nproc-per-node=2 --node-rank=0 --master-addr=10.0.0.4 --master-port=40123 a.py"),
        # accelerate
        ("accelerate launch train.py --num_processes 99", {}, "accelerate launch --multi_gpu --num_machines=2 --num_processes=8 --machine_rank=1 --main_process_ip=10.0.0.4 --main_process_port=40123 train.py --num_processes 99"),
        ("accelerate launch --mixed_precision bf16 --use_fsdp train.py", {}, "accelerate launch --num_machines=2 --num_processes=8 --machine_rank=1 --main_process_ip=10.0.0.4 --main_process_port=40123 --mixed_precision bf16 --use_fsdp train.py"),
        ("accelerate launch --config_file c.yaml train.py", ONE, "accelerate launch --num_machines=1 --num_processes=2 --main_process_port=40123 --config_file c.yaml train.py"),
        ("accelerate launch --cpu train.py", LONE, "accelerate launch --num_machines=1 --num_processes=1 --main_process_port=40123 --cpu train.py"),
        ("accelerate launch -m pkg.train", LONE, "accelerate launch --num_machines=1 --num_processes=1 --main_process_port=40123 -m pkg.train"),
        ("accelerate config", {}, "accelerate config"),
        # deepspeed
        ("deepspeed train.py --deepspeed ds.json", {}, "deepspeed --hostfile=/a/hostfile --no_ssh --node_rank=1 --master_addr=10.0.0.4 --master_port=40123 train.py --deepspeed ds.json"),
        ("deepspeed train.py", {"device_ids": ("1", "3", "4", "5")}, "deepspeed --hostfile=/a/hostfile --include=node1:1,3,4,5@node0 --no_ssh --node_rank=1 --master_addr=10.0.0.4 --master_port=40123 train.py"),
        ("deepspeed --include localhost:0 train.py", ONE, "deepspeed --master_port=40123 --include localhost:0 train.py"),
        ("deepspeed train.py", {**ONE, "is_cpu": True}, "deepspeed --num_gpus=2 --master_port=40123 train.py"),
        # anything else
        ("bash run.sh torchrun", {}, "bash run.sh torchrun"),
        ("mpirun -np 2 python train.py", ONE, "mpirun -np 2 python train.py"),
    ],
)  # fmt: skip
def test_missing_options_are_added_and_given_ones_kept(
    line: str, changes: dict[str, Any], completed: str
) -> None:
    assert shlex.join(complete(shlex.split(line), place(**changes))) == completed
    # What was completed stays as it is: a script's torchrun may be completed twice.
    assert shlex.join(complete(shlex.split(completed), place(**changes))) == completed


@pytest.mark.parametrize(
    ("line", "changes", "problem"),
    [
        ("torchrun --nnodes 4 train.py", {}, "has --nnodes 4, but the trial has 2 nodes"),
        ("torchrun --nnodes=2:3 train.py", ONE, "has --nnodes 2:3, but the trial has 1 node"),
        ("torchrun --standalone train.py", {}, "has --standalone, but the trial has 2 nodes"),
        ("torchrun --nproc-per-node=8 a.py", {}, "has --nproc-per-node 8, but the trial has 4 slots on a node"),
        ("torchrun --node_rank 0 a.py", {}, "has --node-rank 0, which would be the same on every node"),
        ("accelerate launch --num_machines 1 a.py", {}, "has --num_machines 1, but the trial has 2 nodes"),
        ("accelerate launch --num_processes 9 a.py", {}, "has --num_processes 9, but the trial has 8 slots"),
        ("accelerate launch --cpu a.py", {}, "has --cpu, with which accelerate trains without the other workers"),
        ("accelerate launch a.py", {"world_size": 7}, "starts as many workers on each node"),
        ("deepspeed --num_nodes 3 a.py", {}, "has --num_nodes 3, but the trial has 2 nodes"),
        ("deepspeed --num_gpus 5 a.py", {}, "has --num_gpus 5, but the trial has 4 slots on a node"),
        ("deepspeed a.py", {"world_size": 7}, "starts as many workers on each node"),
    ],
)  # fmt: skip
def test_contradictions_are_named(line: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(CommandConflict) as caught:
        complete(shlex.split(line), place(**changes))
    assert problem in caught.value.problem
    assert "leave" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("train.py --x", "train.py"),
        ("-m pkg.train", ""),
        ("bash run.sh a", "run.sh"),
        ("bash -euo pipefail scripts/run.sh", "scripts/run.sh"),
        ("bash -ec 'python a.py'", ""),
        ("sh", ""),
        ("./run.sh", "./run.sh"),
        ("python -u train.py", "train.py"),
        ("python -W error -m pkg", ""),
        ("python -O -X dev train.py 1", "train.py"),
        ("bash -O extglob run.sh", "run.sh"),
        ("torchrun --nproc-per-node 2 train.py x.py", "train.py"),
        ("torchrun --virtual-local-rank train.py", "train.py"),
        ("torchrun -m pkg.train", ""),
        ("accelerate launch --unknown_flag train.py", "train.py"),
        ("deepspeed --num_gpus 2 src/train.py", "src/train.py"),
        ("mytool --config a.yaml", ""),
    ],
)
def test_the_file_that_a_command_runs(line: str, file: str) -> None:
    assert entry_file(shlex.split(line)) == file


def test_hostfile_has_as_many_slots_as_the_highest_device() -> None:
    assert hostfile(place()) == "node0 slots=4\nnode1 slots=4\n"
    own = place(device_ids=("1", "3", "4", "7"))
    assert hostfile(own) == "node0 slots=4\nnode1 slots=8\n"


SHELL = {
    "NNODES": "2",
    "NODE_RANK": "1",
    "NPROC_PER_NODE": "4",
    "MUSTER_WORLD_SIZE": "8",
    "MASTER_ADDR": "10.0.0.4",
    "MASTER_PORT": "40123",
    "CUDA_VISIBLE_DEVICES": "",
}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs a line in a shell that finds our programs first, and a `torchrun` that prints its
    arguments behind them."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    for name in commands.LAUNCHERS:
        called = shlex.join([sys.executable, "-I", commands.__file__])
        (ours / name).write_text(f'#!/bin/sh\nexec {called} "$0" "$@"\n')
        (ours / name).chmod(0o755)
    (theirs / "torchrun").write_text('#!/bin/sh\necho torchrun "$@"\n')
    (theirs / "torchrun").chmod(0o755)
    path = f"{ours}:{theirs}:{os.environ['PATH']}"

    def run(line: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            env={"PATH": path, **SHELL, **changes},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_launcher_in_a_shell_script_is_completed(run: Any) -> None:
    done = run("cd / && torchrun train.py 'a b'")
    assert done.stdout == (
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --master-addr=10.0.0.4 "
        "--master-port=40123 train.py a b\n"
    )
    assert done.stderr == ""
    given = "torchrun --nnodes $NNODES --node_rank $NODE_RANK --master_addr h --master_port 1"
    assert run(f"{given} a.py").stdout == (
        "torchrun --nproc-per-node=4 --nnodes 2 --node_rank 1 --master_addr h --master_port 1 a.py\n"
    )


def test_a_launcher_that_contradicts_the_gang_ends_the_script(run: Any) -> None:
    done = run("set -e; torchrun --nnodes 4 train.py; echo on")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "muster: the command torchrun has --nnodes 4, but the trial has 2 nodes; leave the option "
        "out, or set resources.nodes: 4\n"
    )


def test_a_launcher_that_is_not_installed_is_named(run: Any) -> None:
    done = run("deepspeed train.py")
    assert done.returncode == 127
    assert "deepspeed is not installed" in done.stderr


def test_outside_a_gang_nothing_is_added(run: Any) -> None:
    assert run("unset NNODES; torchrun a.py").stdout == "torchrun a.py\n"
