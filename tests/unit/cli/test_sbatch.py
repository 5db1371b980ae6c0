"""Slurm batch scripts as experiments: headers as they are found in public repositories."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cli.output import CommandFailure
from muster.cli.sbatch.draft import SbatchJob
from muster.cli.sbatch.options import given_options
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


def variables(**values: str) -> dict[str, Any]:
    return {"environment": {"variables": values}}


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
        (["-N 3", "-n 4"], TASKS, resources(6, nodes=3)),
        (["--nodes 1", "--tasks-per-node=2"], TASKS, resources(2, nodes=1)),
        (["-N1", "--constrain=a100", "--gpus-per-task=0"], TASKS, resources(1, nodes=1)),
        (["-N 1-1", "-n 4"], TASKS, resources(4, nodes=1)),
        (
            ["--ntasks-per-node=2", "-N1", "--gres=gpu:4"],
            TASKS,
            resources(4, nodes=1, slot_type="cuda"),
        ),
        # Of srun alone, which would make a job of its own.
        (
            [],
            "\n# srun -n 9\nA=1 srun -N2 \\\n  --ntasks-per-node=1 hostname\nsrun -n1 a",
            resources(2, nodes=2),
        ),
        ([], "\nsrun -c4 -n 3 python -N 7", resources(3)),
        ([], "\nPYTHONPATH=. srun --gres=gpu:2 python a.py", resources(2, slot_type="cuda")),
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
        ("--job-name=my-job", {"name": "my-job", **variables(SLURM_JOB_NAME="my-job")}),
        (
            "-J my-job  # as on the paper",
            {"name": "my-job", **variables(SLURM_JOB_NAME="my-job")},
        ),
        (
            '--job-name="my job"',
            {"name": "my job", **variables(SLURM_JOB_NAME="my job")},
        ),
        ("--comment='second try'", {"notes": "second try"}),
        ("--time=2:00:00", {"resources": {"slots": 1, "nodes": 1, "max_duration": "2h"}}),
        ("-t 90", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1h30min"}}),
        ("-t 1:30", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1min30s"}}),
        ("--time=1-12", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1d12h"}}),
        ("--time=1-12:30", {"resources": {"slots": 1, "nodes": 1, "max_duration": "1d12h30min"}}),
        ("--time=0-00:30:00", {"resources": {"slots": 1, "nodes": 1, "max_duration": "30min"}}),
        ("--time=0", {}),
        ("--time=UNLIMITED", {}),
        ("--cpus-per-task=6", variables(OMP_NUM_THREADS="6", SLURM_CPUS_PER_TASK="6")),
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
        (
            "-p gpu,debug",
            {
                "resources": {"slots": 1, "nodes": 1, "pool": "debug"},
                **variables(SLURM_JOB_PARTITION="debug"),
            },
        ),
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
    job = read(option, pools=lambda: ["default", "debug"])
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
    assert job.notes == []


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
        (["-N 3", "--gpus=4"], TASKS, "Line 3: --gpus=4 cannot be divided evenly over 3 nodes."),
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
        (
            [],
            "\n# A=1 \\\nsrun -p main \\\n  --ntasks=${GPUS} python train.py",
            "Line 4: srun --ntasks=${GPUS} is how large the job is to be",
        ),
        (
            [],
            "\ntar xf data.tar -C $SCRATCH_1\nrm -rf ${SCRATCH_1}/*",
            "Line 4 removes what is in $SCRATCH_1, and nothing sets SCRATCH_1",
        ),
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
        read_sbatch("#!/usr/bin/env python3\nprint(1)\n", "a.py")
    for shell in ("/bin/bash -l", "/usr/bin/env -S bash -e", "/usr/bin/env bash"):
        assert read_sbatch(script(shell=shell), "a.sh").document["entrypoint"] == ["sbatch", "a.sh"]
    # Slurm runs it as well.
    assert read_sbatch(script("-n1", shell="/usr/bin/env python3"), "a.py").document


def test_lines_that_end_as_in_dos_are_refused() -> None:
    text = script("--nodes=2", body=TASKS).replace("\n", "\r\n")
    with pytest.raises(CommandFailure, match=r"has DOS line ends \(CRLF\)") as caught:
        read_sbatch(text, "train.sbatch")
    assert caught.value.hint == "convert it: sed -i 's/\\r$//' train.sbatch"


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf $SLURM_TMPDIR/*",
        "rm -rf -- ${TMPDIR}/x",
        "OUT=x; rm -r $OUT/y",
        "for d in a b; do rm -r $d/*; done",
        "# rm -rf $NOTHING/*",
        "rm -rf $SEED/*",
        "rm -rf ${NOTHING:?}/*",
    ],
)
def test_what_is_set_may_be_removed(line: str) -> None:
    read("--export=ALL,SEED=1", body=f"\n{line}\n")


def test_words_of_sbatch_precede_those_of_the_script() -> None:
    words = ["--ntasks=2", "-J", "b", "train.sh", "x"]
    given = list(given_options(words))
    assert words == ["train.sh", "x"]
    job = read("--job-name=a", "--ntasks=8", body=TASKS, given=given)
    assert job.document["resources"] == resources(2)
    assert job.translations[0].text() == "command line: --ntasks=2 → resources.slots: 2"
    with pytest.raises(CommandFailure, match=r"^Command line: --tme is not an option of sbatch"):
        list(given_options(["--tme=1"]))


def test_a_script_that_leaves_nodes_idle_says_so() -> None:
    (note,) = read("--nodes=2").notes
    assert note == (
        "The script runs on the first of 2 nodes, and never calls srun, which starts processes on the "
        "others."
    )
