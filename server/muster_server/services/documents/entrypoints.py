"""Entry points and launchers: text or list to arguments, and why some cannot run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from muster.document.experiment import ExperimentConfig
from muster.document.inference import PROGRAMS
from muster.launch import commands
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem
from muster_server.schemas.validation_messages import type_name

PATH = "entrypoint"
Launcher = Literal["torchrun", "direct", "plain", "shell"]
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_MPI = frozenset({"mpirun", "mpiexec", "srun"})
_EXAMPLES = "for example `train.py --epochs 3` or `-m package.module`"


def normalise(value: Any, launcher: Any = None) -> tuple[list[str] | None, FieldProblem | None]:
    """Return the arguments of an entry point as written, or what is wrong with it.

    launcher: as written in the document; None if it names none, and then a command must be one that
    is known.
    """
    if value is None:
        return None, None
    if isinstance(value, str):
        try:
            arguments = shlex.split(value)
        except ValueError as error:
            return None, FieldProblem(PATH, f"cannot be split: {str(error).lower()}", _EXAMPLES)
        operators = [a for a in arguments if a in _SHELL]
        if operators:
            return None, FieldProblem(
                PATH,
                f"no shell runs it, so {operators[0]!r} would be an argument",
                "put shell work into the script, or pass a list if it is meant",
            )
    elif isinstance(value, list):
        bad = [a for a in value if not isinstance(a, str)]
        if bad:
            return None, FieldProblem(
                PATH, f"arguments must be text, not {type_name(bad[0])}", "put it in quotes"
            )
        arguments = list(value)
    else:
        return None, FieldProblem(
            PATH, f"must be text or a list of text, not {type_name(value)}", _EXAMPLES
        )
    problem = _check(arguments, launcher)
    return (None, problem) if problem else (arguments, None)


def _check(arguments: list[str], launcher: Any) -> FieldProblem | None:
    if not arguments:
        return FieldProblem(PATH, Message("field.empty"), _EXAMPLES)
    first = arguments[0]
    if first == "-m":
        if len(arguments) < 2 or not _MODULE.fullmatch(arguments[1]):
            return FieldProblem(PATH, "-m needs the name of a module", "-m package.module")
        return None
    runs_anything = launcher in ("plain", "shell", "direct")
    if not runs_anything and _PYTHON.fullmatch(first):
        return FieldProblem(
            PATH,
            f"must not begin with {PurePosixPath(first).name!r}: Muster starts the interpreter "
            "and the workers itself",
            f"{_EXAMPLES}; launcher: plain runs one process as it is",
        )
    if first.startswith("-") or not (
        runs_anything or first.endswith(".py") or commands.is_known_command(arguments)
    ):
        return FieldProblem(
            PATH,
            "must begin with a .py file, with -m and a module, or with a command that is known",
            f"{_EXAMPLES}, `bash run.sh` or `torchrun train.py`; launcher: shell runs any command",
        )
    if ".." in PurePosixPath(commands.entry_file(arguments)).parts:
        return FieldProblem(PATH, "the file must lie inside the code folder", "leave out '..'")
    return None


def launcher_of_role(entrypoint: Sequence[str]) -> Launcher:
    """Return how each member of a role is started: its command once, or Python once per slot."""
    return "shell" if commands.is_command(entrypoint) else "direct"


def default_launcher(document: ExperimentConfig) -> Launcher:
    """Return the launcher of a document that names none."""
    if document.job_kind is not None:
        return PROGRAMS[document.job_kind].launcher
    is_command = document.entrypoint is not None and commands.is_command(document.entrypoint)
    return "shell" if is_command else "torchrun"


def check_launcher(document: ExperimentConfig) -> Iterator[FieldProblem]:
    """Yield what keeps the launcher from running the entry point on the slots of a trial."""
    launcher = document.launcher or default_launcher(document)
    resources, entrypoint = document.resources, document.entrypoint
    is_wrong = (
        launcher != "plain" if document.session is not None else launcher in ("plain", "shell")
    )
    if document.built_in_module is not None and is_wrong:
        what = "the built-in trainer" if document.trainer is not None else document.job_kind
        yield FieldProblem(
            "launcher",
            f"{launcher} does not start the workers that {what} needs",
            "leave it out",
        )
    if entrypoint is None:
        return
    if launcher == "torchrun" and commands.is_command(entrypoint):
        yield FieldProblem(
            "launcher",
            f"torchrun starts Python scripts and modules, and {entrypoint[0]!r} is neither",
            "leave launcher out, or write shell",
        )
    if launcher == "plain" and resources.slots > 1 and resources.nodes != 1:
        yield FieldProblem(
            "launcher",
            f"plain starts one process, but the trial has {resources.slots} slots, maybe on "
            "several nodes",
            "set resources.nodes: 1 if the program itself uses all of them, or slots: 1",
        )
    if launcher == "shell":
        yield from _check_command(document, entrypoint)


def _check_command(document: ExperimentConfig, entrypoint: Sequence[str]) -> Iterator[FieldProblem]:
    resources = document.resources
    is_on_one = resources.slots == 1 or resources.max_nodes == 1
    num_nodes = resources.nodes or (1 if is_on_one else None)
    program = PurePosixPath(entrypoint[0]).name
    if program in _MPI and num_nodes != 1:
        yield FieldProblem(
            PATH,
            f"{program} would start workers of its own on every node",
            "set resources.nodes: 1, or start the program with launcher: direct",
        )
    call = commands.find_call(entrypoint)
    if call is None or not document.launcher_help:
        return
    if num_nodes is None:
        named = call.options.keys() & {"nnodes", "num_machines", "num_nodes", "standalone"}
        if named:
            yield FieldProblem(
                "resources.nodes",
                f"is not set, but the entry point has --{min(named)}",
                "set resources.nodes to the same number, or leave the option out",
            )
        return
    try:
        commands.complete(
            entrypoint,
            planned_place(
                resources.slot_type,
                num_nodes=num_nodes,
                node_rank=0,
                num_local=-(-resources.slots // num_nodes),
                world_size=resources.slots,
            ),
        )
    except commands.CommandConflict as error:
        yield FieldProblem(PATH, error.problem, error.hint)


def planned_place(
    slot_type: str, *, num_nodes: int, node_rank: int, num_local: int, world_size: int
) -> commands.GangPlace:
    """Return a node's place in a gang that has not been placed: the nodes meet at an address that
    is only known when they do."""
    return commands.GangPlace(
        num_nodes=num_nodes,
        node_rank=str(node_rank),
        num_local=num_local,
        world_size=world_size,
        master_addr="$MASTER_ADDR",
        master_port="$MASTER_PORT",
        is_cpu=slot_type == "cpu",
    )


def planned_command(
    config: ExperimentConfig, *, num_nodes: int, node_rank: int, num_local: int, role: str = ""
) -> list[str]:
    """Return the line that a node would run, as a user would write it. role: that of the member that
    runs there; "" for a gang of one kind."""
    entrypoint = list(config.entrypoint or ("-m", config.built_in_module or ""))
    launcher = config.launcher or default_launcher(config)
    if role:
        entrypoint = list(config.roles[role].entrypoint)
        launcher, num_nodes, node_rank = launcher_of_role(entrypoint), 1, 0
    if launcher == "torchrun":
        return ["torchrun", f"--nnodes={num_nodes}", f"--nproc-per-node={num_local}", *entrypoint]
    if not commands.is_command(entrypoint):
        return ["python", *entrypoint]
    if launcher != "shell" or not config.launcher_help:
        return entrypoint
    place = planned_place(
        config.resources.slot_type,
        num_nodes=num_nodes,
        node_rank=node_rank,
        num_local=num_local,
        world_size=num_local if role else config.resources.slots,
    )
    try:
        return commands.complete(entrypoint, place)
    except commands.CommandConflict:
        return entrypoint  # Only this placement conflicts, which the node will say.
