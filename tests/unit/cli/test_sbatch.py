"""Slurm batch scripts as experiments: headers as they are found in public repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.cli.output import CommandFailure
from muster.cli.sbatch.draft import SbatchJob
from muster.cli.sbatch.reading import read_sbatch

TORCHRUN = """
export OMP_NUM_THREADS=4
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 train.py --lr 1e-3
"""
TASKS = "\nsrun --label python train.py\n"


def script(*options: str, body: str = "\npython train.py\n", shell: str = "/bin/bash") -> str:
    return "\n".join([f"#!{shell}", *(f"#SBATCH {option}" for option in options), body])


def read(*options: str, body: str = "\npython train.py\n", **more: Any) -> SbatchJob:
    return read_sbatch(script(*options, body=body), "jobs/train.sbatch", **more)


def resources(slots: int, **more: Any) -> dict[str, Any]:
    return {"slots": slots, **more}


@pytest.mark.parametrize(
    ("options", "body", "expected"),
    [
        # What people write for one node.
        ([], None, resources(1, nodes=1)),
        (["--nodes=1", "--gres=gpu:1"], None, resources(1, nodes=1, slot_type="cuda")),
        (["-N1", "-n1", "-c8", "--gres=gpu:v100:2"], None, resources(2, nodes=1, slot_type="cuda")),
        (["-G 4"], None, resources(4, nodes=1, slot_type="cuda")),
        (["--gpus=a100:8"], None, resources(8, nodes=1, slot_type="cuda")),
        (["--gres=gpu"], None, resources(1, nodes=1, slot_type="cuda")),
        (["--gres=tmpdisk:100"], None, resources(1, nodes=1)),
        # torchrun on several nodes: one task on each.
        (
            ["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4"],
            TORCHRUN,
            resources(8, nodes=2, slot_type="cuda"),
        ),
        (["-N 4", "-n 4", "--gpus-per-task=2"], TORCHRUN, resources(8, nodes=4, slot_type="cuda")),
        (["--nodes=2", "--gpus=8"], TORCHRUN, resources(8, nodes=2, slot_type="cuda")),
        # One task for each GPU, or without GPUs.
        (
            ["--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4", "--exclusive"],
            TASKS,
            resources(8, nodes=2, slot_type="cuda"),
        ),
        (["--ntasks=8", "--ntasks-per-node=4"], TASKS, resources(8, nodes=2)),
        (["-N 2", "-n6"], TASKS, resources(6, nodes=2)),
        (["--ntasks=4"], TASKS, resources(4)),
    ],
)
def test_nodes_tasks_and_gpus_become_slots(
    options: list[str], body: str | None, expected: dict[str, Any]
) -> None:
    job = read(*options, **({} if body is None else {"body": body}))
    assert job.document["resources"] == expected


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--job-name=my-job", {"name": "my-job"}),
        ("-J my-job  # as on the paper", {"name": "my-job"}),
        ('--job-name="my job"', {"name": "my job"}),
        ("--comment='second try'", {"notes": "second try"}),
        ("--time=2:00:00", {"resources": {"slots": 1, "nodes": 1, "max_duration": "2h"}}),
        ("-t 90", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1h30min"}}),
        ("-t 1:30", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1min30s"}}),
        ("--time=1-12", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1d12h"}}),
        ("--time=1-12:30", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1d12h30min"}}),
        ("--time=0-00:30:00", {"resources": {"slots": 1, "nodes": 1, "max_duration": "30min"}}),
        ("--time=0", {}),
        ("--time=UNLIMITED", {}),
        ("--cpus-per-task=6", {"environment": {"variables": {"OMP_NUM_THREADS": "6"}}}),
        ("--export=ALL,SEED=1,LR=0.1", {"environment": {"variables": {"SEED": "1", "LR": "0.1"}}}),
        ("--export=ALL", {}),
        ("--signal=B:USR1@120", {"stop_grace_s": 120}),
        ("--signal=SIGUSR1", {"stop_grace_s": 60}),
        (
            "-d afterok:12:13,afterany:14",
            {
                "after": [
                    {"experiment": 12, "when": "success"},
                    {"experiment": 13, "when": "success"},
                    {"experiment": 14, "when": "any"},
                ]
            },
        ),
        ("--no-requeue", {"resources": {"slots": 1, "nodes": 1, "preemptible": False}}),
        ("--requeue", {"resources": {"slots": 1, "nodes": 1, "preemptible": True}}),
        ("-p gpu,debug", {"resources": {"slots": 1, "nodes": 1, "pool": "debug"}}),
        ("--partition=other", {}),
        ("--chdir=.", {}),
        ("--output=slurm-%j.out", {}),
        ("-e logs/%x_%A_%a.err", {}),
        ("--mail-type=BEGIN,END,FAIL", {}),
        ("--mem=64G", {"resources": {"slots": 1, "nodes": 1, "memory": "64GiB"}}),
        ("--mem=4000", {"resources": {"slots": 1, "nodes": 1, "memory": "4000MiB"}}),
        ("--mem=0", {}),
        ("--account=proj_1234", {}),
        ("--qos=high", {}),
        ("--hint=nomultithread", {}),
        ("--exclusive", {}),
    ],
)
def test_what_an_option_becomes(option: str, expected: dict[str, Any]) -> None:
    job = read(option, pools=["default", "debug"])
    plain = read().document
    assert {k: v for k, v in job.document.items() if plain.get(k) != v} == expected
    (line,) = [translation.text() for translation in job.translations]
    assert line.startswith("line 2: -")
    assert ("→" in line) == (bool(expected))
    assert expected or "ignored (" in line


def test_everything_is_told_in_the_order_of_the_script() -> None:
    job = read("--nodes=2 --ntasks-per-node=1", "-t 60", "-o out.txt", body=TORCHRUN)
    assert [t.text() for t in job.translations] == [
        "line 2: --nodes=2 → resources.nodes: 2",
        "line 2: --ntasks-per-node=1 → resources.slots: 2",
        "line 3: -t 60 → resources.max_duration: 1h (restarts share it)",
        "line 4: -o out.txt ignored (logs are kept by Muster: muster logs)",
    ]
    assert job.notes == ["The script runs once on each node; srun starts its command there."]


def test_directives_end_at_the_first_command() -> None:
    text = "#!/bin/bash\n#\n##SBATCH --nodes=9\n\n#SBATCH -J a\nmodule load x\n#SBATCH -J b\n"
    assert read_sbatch(text, "a.sh").document["name"] == "a"


@pytest.mark.parametrize(
    ("options", "body", "said"),
    [
        (["--nodes=2-4"], None, "Line 2: --nodes=2-4 names a range of nodes."),
        (["--nodes=two"], None, "Line 2: --nodes=two is not a positive number."),
        (["-N 0"], None, "Line 2: -N 0 is not a positive number."),
        (["-J x", "--tme=1"], None, "Line 3: --tme is not an option of sbatch."),
        (["--time=soon"], None, "Line 2: --time=soon is no time."),
        (["--time=1:2:3:4"], None, "Line 2: --time=1:2:3:4 is no time."),
        (["--mem=much"], None, "Line 2: --mem=much is no size."),
        (["--time"], None, "Line 2: --time needs a value."),
        (["nodes=2"], None, "Line 2: 'nodes=2' is not an option of sbatch."),
        (["--job-name='x"], None, "Line 2 cannot be split: no closing quotation."),
        (["--gpus=many"], None, "Line 2: --gpus=many names no number of GPUs."),
        (["-N 3", "-n 4"], TASKS, "Line 3: -n 4 cannot be divided evenly over 3 nodes."),
        (["-N 3", "--gpus=4"], TASKS, "Line 3: --gpus=4 cannot be divided evenly over 3 nodes."),
        (
            ["--ntasks-per-node=2", "--gres=gpu:4"],
            TASKS,
            "Line 2: --ntasks-per-node=2 gives 2 tasks, and line 3, --gres=gpu:4, 4 GPUs on a node.",
        ),
        (
            ["--gpus-per-node=2", "--gres=gpu:4"],
            None,
            "Line 3: --gres=gpu:4 gives 4 GPUs on a node, and line 2, --gpus-per-node=2, 2.",
        ),
        (["--chdir=/data"], None, "Line 2: --chdir=/data names another folder"),
        (["-d afternotok:12"], None, "Line 2: -d afternotok:12 has the kind 'afternotok'"),
        (["-d singleton"], None, "Line 2: -d singleton has the kind 'singleton'"),
        (["-d afterok:12?afterok:13"], None, "Line 2: -d afterok:12?afterok:13 names no"),
        (["--array=word"], None, "Line 2: --array=word is neither a range nor a list"),
        (["--array=0-9999999"], None, "Line 2: --array=0-9999999 names 10000000 elements"),
        (["--array=9-0"], None, "Line 2: --array=9-0 names no element: 0 is less than 9."),
        (["--array=0-9%"], None, "Line 2: --array=0-9% has no number after %."),
        (["--array=0-9%x"], None, "Line 2: --array=0-9%x has no number after %."),
        (["--signal=@"], None, "Line 2: --signal=@ is no signal."),
        (["--nodes=2"], None, "asks for 2 nodes and does not call srun"),
        (["--nodes=2"], TORCHRUN + TORCHRUN, "calls srun more than once"),
    ],
)
def test_nonsense_names_line_and_value(options: list[str], body: str | None, said: str) -> None:
    with pytest.raises(CommandFailure) as caught:
        read(*options, **({} if body is None else {"body": body}))
    assert said in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_an_array_is_one_with_the_variables_of_slurm() -> None:
    job = read("--array=1,3-9:3%2", "--output=slurm-%A_%a.out")
    assert job.document["array"] == {"SLURM_ARRAY_TASK_ID": "1,3-9:3"}
    assert job.document["max_concurrent"] == 2
    assert job.document["environment"]["variables"] == {
        "SLURM_ARRAY_JOB_ID": "${MUSTER_EXPERIMENT_ID}",
        "SLURM_ARRAY_TASK_COUNT": "4",
        "SLURM_ARRAY_TASK_MIN": "1",
        "SLURM_ARRAY_TASK_MAX": "9",
    }
    assert (
        job.translations[0]
        .text()
        .startswith(
            "line 2: --array=1,3-9:3%2 → array.SLURM_ARRAY_TASK_ID: 1,3-9:3, max_concurrent: 2"
        )
    )


def test_a_script_that_is_none_of_a_shell_is_refused() -> None:
    with pytest.raises(CommandFailure, match="is a script of python3"):
        read_sbatch(script(shell="/usr/bin/env python3"), "a.py")
    assert read_sbatch(script(shell="/bin/bash -l"), "a.sh").document["entrypoint"][:2] == [
        "bash",
        "-l",
    ]


PRINTS = r"""
# srun in a comment
echo "before $SLURM_JOB_ID $SLURM_NNODES $(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"
srun --ntasks=$SLURM_NTASKS \
    --cpu-bind cores -l sh -c 'echo "task $0 ${SLURM_PROCID-none} ${SLURM_NTASKS-none} ${SLURM_JOB_ID-none}"' "$1"
echo after
"""


@pytest.mark.parametrize(
    ("body", "launcher", "told"),
    [
        (PRINTS, "direct", "task arg 3 4 7"),
        (PRINTS.replace("sh -c", "torchrun sh -c"), "shell", "task arg none none none"),
    ],
)
def test_the_script_runs_as_it_is_and_srun_starts_its_command(
    tmp_path: Path, body: str, launcher: str, told: str
) -> None:
    """By a real shell, with the variables of the launcher; torchrun is a program of the test."""
    job = read_sbatch(script("-N2", "-n4", body=body), "train.sbatch", arguments=["arg"])
    assert job.document["launcher"] == launcher
    (tmp_path / "train.sbatch").write_text(script(body=body))
    (tmp_path / "torchrun").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    of_tasks = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    of_tasks |= {"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
    of_nodes = {"NNODES": "2", "NODE_RANK": "1", "NPROC_PER_NODE": "2"}
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MUSTER_EXPERIMENT_ID": "7",
        "MASTER_ADDR": "10.0.0.1",
        **(of_tasks if launcher == "direct" else of_nodes),
    }
    done = subprocess.run(
        job.document["entrypoint"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout.splitlines() == ["before 7 2 10.0.0.1", told, "after"], done.stderr
    assert done.returncode == 0
