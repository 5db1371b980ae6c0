"""Command lines of srun, and where their tasks run, as Slurm 22.05 does it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.launch.slurm.layout import (
    JobNode,
    expand_hostlist,
    job_variables,
    lay_out,
    node_names,
    output_name,
    reachable,
    task_variables,
)
from muster.launch.slurm.options import StepOptions, StepRefused, parse_srun

TWO = (JobNode(name="n1", slots=1), JobNode(name="n2", slots=1))
GPUS = tuple(JobNode(name=f"n{k}", slots=4, devices=("0", "1", "2", "3")) for k in (1, 2))


def step(line: str, **environment: str) -> StepOptions:
    return parse_srun(line.split(), {"SLURM_JOB_ID": "7", **environment})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hostname", {}),
        ("-N2 -n 4 --ntasks-per-node=2 x", {"nodes": 2, "tasks": 4, "tasks_per_node": 2}),
        ("--nodes 1-1 --ntasks=1 x -n 9", {"nodes": 1, "tasks": 1}),
        ("-lu -K x", {"labels": True, "kills_on_bad_exit": True}),
        ("--kill-on-bad-exit=0 -W 60 x", {"wait_s": 60}),
        (
            "--wait=60 --kill-on-bad-exit=1 --jobid 7 bash",
            {"wait_s": 60, "kills_on_bad_exit": True},
        ),
        ("--gres=gpu:a100:2 x", {"gpus_per_node": 2}),
        ("--gres=gpu x", {"gpus_per_node": 1}),
        ("--gres=none x", {"gpus_per_node": 0}),
        ("-G 2 x", {"gpus": 2}),
        ("--gpus-per-task=a100:1 x", {"gpus_per_task": 1}),
        ("--gpu-bind=single:1 x", {"gpus_per_task": 1}),
        ("--gpu-bind=closest --cpu-bind=none --mem=0 -p a -A b x", {}),
        ("-c8 --exclusive --exact x", {"cpus_per_task": 8}),
        ("--overlap x", {"overlaps": True}),
        ("-w n1,n2 -x n3 -r 1 x", {"nodelist": "n1,n2", "exclude": "n3", "first_node": 1}),
        ("--export=ALL,A=1 -D sub x", {"export": ("ALL", "A=1"), "chdir": "sub"}),
        (
            "-J a -o %t.out -e err -i none x",
            {"name": "a", "output": "%t.out", "error": "err", "input": "none"},
        ),
        ("-m cyclic:block x", {"is_cyclic": True}),
        ("-- -x", {}),
        ("--tasks-per-node=2 --kill-on=1 x", {"tasks_per_node": 2, "kills_on_bad_exit": True}),
        ("--gpus-per-task=0 x", {"gpus_per_task": 0}),
    ],
)
def test_options_of_srun(line: str, expected: dict[str, Any]) -> None:
    found = step(line)
    defaults = {name: field.default for name, field in StepOptions.__dataclass_fields__.items()}
    ignored = ("argv", "written")
    assert {
        name: value
        for name, value in vars(found).items()
        if name not in ignored and value != defaults[name]
    } == expected
    assert found.argv == tuple(line.split()[-len(found.argv) :])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--foo x", "--foo is not an option that it knows"),
        ("-y x", "-y is not an option that it knows"),
        ("-n 2", "there is no command to run"),
        ("-n", "-n needs a value"),
        ("-n two x", "-n two is not a number from 1 on"),
        ("-N 1-2 x", "-N 1-2 is not one number of nodes"),
        ("--pty bash", "a job has no terminal"),
        ("--multi-prog conf", "start each program with a srun of its own"),
        ("--container-image=pytorch x", "muster submit --set environment.image=IMAGE"),
        ("--mpi=pmix x", "start a program that uses MPI with mpirun"),
        ("--jobid=8 x", "--jobid=8 names another job than this one, 7"),
        ("--distribution=plane=2 x", "block and cyclic can"),
        ("--gpu-bind=map_gpu:0,1 x", "use --gpus-per-task=1"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(line: str, said: str) -> None:
    with pytest.raises(StepRefused) as caught:
        step(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "nodes", "environment", "expected"),
    [
        # Without numbers there is a task on each node, as many as the job was submitted with.
        ("x", TWO, {}, [(0, (0,)), (1, (1,))]),
        ("x", GPUS, {"SLURM_NTASKS_PER_NODE": "2"}, [(0, (0, 1)), (1, (2, 3))]),
        ("x", TWO, {"SLURM_NTASKS": "3"}, [(0, (0, 1)), (1, (2,))]),
        ("x", GPUS, {"SLURM_NTASKS": "8"}, [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7))]),
        ("-n1 x", TWO, {}, [(0, (0,))]),
        ("-N1 -n1 -w n2 x", TWO, {}, [(1, (0,))]),
        ("-w n2 x", TWO, {}, [(0, (0,)), (1, (1,))]),
        ("-N1 -n2 -x n1 x", GPUS, {}, [(1, (0, 1))]),
        ("-N1 -r1 -n1 x", TWO, {}, [(1, (0,))]),
        ("--ntasks-per-node=4 x", GPUS, {}, [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7))]),
        ("-n6 --ntasks-per-node=4 x", GPUS, {}, [(0, (0, 1, 2, 3)), (1, (4, 5))]),
        ("-n4 -m cyclic x", GPUS, {}, [(0, (0, 2)), (1, (1, 3))]),
        ("-n4 -O x", TWO, {}, [(0, (0, 1)), (1, (2, 3))]),
        (
            "-n8 x",
            TWO,
            {"SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "4"},
            [(0, (0, 1, 2, 3)), (1, (4, 5, 6, 7))],
        ),
    ],
)
def test_tasks_are_where_slurm_has_them(
    line: str, nodes: tuple[JobNode, ...], environment: dict[str, str], expected: Any
) -> None:
    layout = lay_out(step(line), nodes, environment)
    assert [(part.node, part.ranks) for part in layout.parts] == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-n 8 x", "-n 8 is more than the job has: 1 tasks on n1; write #SBATCH --ntasks=8"),
        ("-N 3 x", "-N 3 asks for 3 nodes, and the job has 2; write #SBATCH --nodes=3"),
        ("-w n9 x", "-w n9: there is no node n9 in this job; its nodes are n1, n2"),
        ("--gres=gpu:1 x", "--gres=gpu:1 asks for 1 GPUs on a node, and the job has 0 there"),
        ("-N1 x", "-N1 is more than the job has"),
    ],
)
def test_a_step_that_does_not_fit_is_refused(line: str, said: str) -> None:
    with pytest.raises(StepRefused) as caught:
        lay_out(step(line), TWO, {"SLURM_NTASKS": "2"})
    assert said in str(caught.value)


def test_gpus_of_a_step() -> None:
    def gpus(line: str) -> list[int | None]:
        return [part.gpus for part in lay_out(step(line), GPUS, {}).parts]

    assert gpus("x") == [None, None]
    assert gpus("--gpus=4 x") == [2, 2]
    assert gpus("-N1 -n3 --gpus-per-task=1 x") == [3]


def test_hostlists_and_names() -> None:
    assert expand_hostlist("n[1-3,07],m,rack[1-2]n[1-2]x") == [
        "n1", "n2", "n3", "n07", "m", "rack1n1x", "rack1n2x", "rack2n1x", "rack2n2x",
    ]  # fmt: skip
    assert expand_hostlist("10.0.0.1,10.0.0.2") == ["10.0.0.1", "10.0.0.2"]
    assert node_names(["10.0.0.1", "10.0.0.2", "10.0.0.1"]) == ["10.0.0.1", "10.0.0.2", "node2"]


def test_an_address_that_other_nodes_cannot_reach_is_replaced() -> None:
    assert reachable("127.0.1.1\n", "10.0.0.4") == "10.0.0.4\n"
    assert reachable("::1 127.0.1.1\n", "fd00::4") == "fd00::4\n"
    assert reachable("172.17.0.2 10.1.1.1\n", "10.0.0.4") == "172.17.0.2 10.1.1.1\n"
    assert reachable("127.0.1.1\n", "node1") == "127.0.1.1\n"


def test_names_of_output_files() -> None:
    environment = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "a", "SLURM_ARRAY_TASK_ID": "3"}
    assert output_name("logs/%x-%j_%a-%3t.out%%", 5, environment) == "logs/a-7_3-005.out%"


def test_what_is_unset_in_slurm_is_unset_here() -> None:
    """Libraries take SLURM_NTASKS for a sign that srun started them."""
    plain = job_variables({}, TWO, 0, name="job.sh", folder="/w")
    assert not plain.keys() & {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_GPUS_ON_NODE"}
    layout = lay_out(step("x"), TWO, {})
    task = task_variables(layout, TWO, 1, 0, step_id=0, options=step("x"))
    assert (task["SLURM_NTASKS"], task["SLURM_PROCID"], task["NODE_RANK"]) == ("2", "1", "1")
    assert not task.keys() & {"RANK", "WORLD_SIZE", "LOCAL_RANK"}
