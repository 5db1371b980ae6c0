"""Command lines as people type them, as experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.command_lines import parse_command, split_variables
from muster.cli.output import CommandFailure

SCRIPT = ("train.py", "--lr", "1e-3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "src/main.py"):
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "entrypoint", "slots", "nodes"),
    [
        ("python train.py --lr 1e-3", SCRIPT, None, None),
        ("python3.11 -u train.py --lr 1e-3", SCRIPT, None, None),
        ("train.py --lr 1e-3", SCRIPT, None, None),
        ("./train.py --lr 1e-3", SCRIPT, None, None),
        ("python ./src/main.py", ("src/main.py",), None, None),
        ("python -m package.train --lr 1e-3", ("-m", "package.train", "--lr", "1e-3"), None, None),
        ("torchrun train.py --lr 1e-3", SCRIPT, None, None),
        ("torchrun --nproc_per_node=4 train.py --lr 1e-3", SCRIPT, 4, None),
        ("torchrun --nnodes 2 --nproc-per-node 4 train.py --lr 1e-3", SCRIPT, 8, 2),
        ("torchrun --standalone --nproc_per_node=2 -m package.train", ("-m", "package.train"), 2, None),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py --lr 1e-3", SCRIPT, 2, None),
        ("torchrun --standalone --nproc-per-node=gpu train.py --lr 1e-3", SCRIPT, None, None),
        ("torchrun --nnodes=1 --nproc-per-node auto train.py --lr 1e-3", SCRIPT, None, 1),
        ("torchrun --max-restarts=0 --nproc-per-node=2 train.py --lr 1e-3", SCRIPT, 2, None),
        ("bash run.sh 1", ("bash", "run.sh", "1"), None, None),
        ("mpirun -np 4 python train.py", ("mpirun", "-np", "4", "python", "train.py"), 4, 1),
        ("mpiexec python train.py -n 3", ("mpiexec", "python", "train.py", "-n", "3"), None, 1),
        ("mpiexec --map-by core --oversubscribe -n 3 ./a", ("mpiexec", "--map-by", "core", "--oversubscribe", "-n", "3", "./a"), 3, 1),
    ],
)  # fmt: skip
def test_what_runs_and_on_how_many_slots(
    folder: Path, line: str, entrypoint: tuple[str, ...], slots: int | None, nodes: int | None
) -> None:
    parsed = parse_command(line.split(), folder)
    assert (parsed.entrypoint, parsed.slots, parsed.nodes) == (entrypoint, slots, nodes)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["python", "train.py", "lr=0.1"], []),
        (["CUDA_VISIBLE_DEVICES=0,1", "python", "train.py"], ["CUDA_VISIBLE_DEVICES=0,1"]),
        (["PYTHONPATH=.", "NOTE=a b=c", "EMPTY=", "./train.py"], ["PYTHONPATH=.", "NOTE=a b=c", "EMPTY="]),
        (["2=3", "train.py"], []),
        (["./a=b"], []),
    ],
)  # fmt: skip
def test_variables_before_a_program_are_set_as_a_shell_would(
    words: list[str], variables: list[str]
) -> None:
    assert split_variables(words) == (variables, words[len(variables) :])


@pytest.mark.parametrize("words", [[], ["LR=0.1"]])
def test_variables_alone_are_no_command(words: list[str]) -> None:
    with pytest.raises(CommandFailure, match="There is no command"):
        split_variables(words)


@pytest.mark.parametrize(
    ("line", "slots", "nodes"),
    [
        ("accelerate launch --num_processes 4 --num_machines 2 train.py", 4, 2),
        ("accelerate launch train.py", None, None),
        ("deepspeed --num_gpus 2 --num_nodes=3 train.py --deepspeed", 6, 3),
    ],
)
def test_other_launchers_stay_and_say_how_many_slots(
    folder: Path, line: str, slots: int | None, nodes: int | None
) -> None:
    parsed = parse_command(line.split(), folder)
    assert parsed.entrypoint == tuple(line.split())
    assert (parsed.slots, parsed.nodes) == (slots, nodes)


def test_what_is_left_out_of_torchrun_is_told(folder: Path) -> None:
    line = "torchrun --rdzv-backend=c10d --rdzv-endpoint=h:1 train.py"
    assert parse_command(line.split(), folder).notes == (
        "Left out --rdzv-backend, --rdzv-endpoint: Muster decides where the nodes meet.",
    )


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --standalone --max-restarts=3 --nproc-per-node=2 train.py",
        "torchrun --tee 3 --nproc-per-node=2 train.py",
        "python -m torch.distributed.run --log-dir=logs --nproc-per-node=2 train.py",
        "python -m torch.distributed.launch --nproc_per_node=2 train.py",
    ],
)
def test_an_option_that_only_torchrun_knows_keeps_its_meaning(folder: Path, line: str) -> None:
    parsed = parse_command(line.split(), folder)
    assert (parsed.slots, parsed.notes) == (2, ())
    started = parsed.started(num_slots=2, launcher=None)
    assert started["entrypoint"] == line.split()
    assert started.get("launcher", "shell") == "shell"


@pytest.mark.parametrize(
    ("line", "num_slots", "started"),
    [
        ("python train.py --lr 1e-3", 1, {"entrypoint": SCRIPT, "launcher": "plain"}),
        ("train.py --lr 1e-3", 1, {"entrypoint": SCRIPT, "launcher": "plain"}),
        ("python -m pkg.train", 1, {"entrypoint": ("-m", "pkg.train"), "launcher": "plain"}),
        ("python3 -O -W error train.py", 1, {"entrypoint": ("python3", "-O", "-W", "error", "train.py"), "launcher": "plain"}),
        ("python -c print(1)", 1, {"entrypoint": ("python", "-c", "print(1)"), "launcher": "plain"}),
        ("python train.py --lr 1e-3", 2, {"entrypoint": SCRIPT}),
        ("python train.py --lr 1e-3", 0, {"entrypoint": SCRIPT}),
        ("torchrun train.py --lr 1e-3", 1, {"entrypoint": SCRIPT}),
        ("bash run.sh", 1, {"entrypoint": ("bash", "run.sh")}),
        ("accelerate launch train.py", 1, {"entrypoint": ("accelerate", "launch", "train.py")}),
        ("yolo detect train data=coco8.yaml", 1, {"entrypoint": ("yolo", "detect", "train", "data=coco8.yaml"), "launcher": "shell"}),
        ("make train", 2, {"entrypoint": ("make", "train"), "launcher": "shell"}),
        ("uv run train.py", 1, {"entrypoint": ("uv", "run", "train.py"), "launcher": "shell"}),
        ("./train", 1, {"entrypoint": ("./train",)}),
        ("lightning run model train.py", 1, {"entrypoint": ("lightning", "run", "model", "train.py"), "launcher": "shell"}),
        ("ray job submit -- python a.py", 1, {"entrypoint": ("ray", "job", "submit", "--", "python", "a.py"), "launcher": "shell"}),
    ],
)  # fmt: skip
def test_how_it_is_started_on_so_many_slots(
    folder: Path, line: str, num_slots: int, started: dict[str, object]
) -> None:
    found = parse_command(line.split(), folder).started(num_slots=num_slots, launcher=None)
    assert {**found, "entrypoint": tuple(found["entrypoint"])} == started


def test_the_launcher_that_is_given_starts_it(folder: Path) -> None:
    parsed = parse_command(["python", "train.py"], folder)
    assert parsed.started(num_slots=1, launcher="torchrun")["launcher"] == "torchrun"
    assert parsed.started(num_slots=4, launcher="plain")["launcher"] == "plain"
    optimised = parse_command(["python", "-O", "train.py"], folder)
    assert optimised.started(num_slots=2, launcher="direct")["entrypoint"][1] == "-O"
    with pytest.raises(CommandFailure, match="python -O can run on one slot alone"):
        optimised.started(num_slots=2, launcher=None)


def test_an_interpreter_named_by_a_path_is_that_of_the_nodes(folder: Path) -> None:
    parsed = parse_command(["/opt/train/bin/python", "train.py"], folder)
    assert (parsed.python, parsed.entrypoint) == ("/opt/train/bin/python", ("train.py",))
    assert parse_command([".venv/bin/python", "train.py"], folder).python == str(
        folder / ".venv/bin/python"
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python train.py", "train"),
        ("python src/main.py --x 1", "main"),
        ("python -m package.train", "package.train"),
        ("bash -e run.sh", "run"),
        ("python -O train.py", "train"),
        ("python -c 1", "python"),
        ("accelerate launch train.py", "train"),
    ],
)
def test_the_experiment_is_named_like_its_script(folder: Path, line: str, name: str) -> None:
    assert parse_command(line.split(), folder).name == name


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("python", "would wait for input"),
        ("python -", "would wait for input"),
        ("srun train.py", "srun starts processes"),
        ("torchrun --nproc_per_node=all train.py", "--nproc-per-node all of torchrun is not a"),
        ("torchrun --nnodes=1:4 train.py", "--nnodes 1:4 of torchrun is not a number"),
        ("torchrun --nproc_per_node=2", "torchrun names no script"),
    ],
)
def test_what_cannot_run_is_named(folder: Path, line: str, said: str) -> None:
    with pytest.raises(CommandFailure) as caught:
        parse_command(line.split(), folder)
    assert said in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2
