"""What a command line such as `torchrun --nproc-per-node=4 train.py` is as an experiment."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from muster.launch.commands import LauncherCall, find_call, is_command, is_known_command

from .output import usage_error

_PYTHON = re.compile(r"python[0-9.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ELSEWHERE = frozenset({"srun", "sbatch"})
"""Programs that start workers on other machines themselves."""
_ON_ONE_NODE = frozenset({"mpirun", "mpiexec", "horovodrun"})
"""Programs that start workers themselves, here on one node."""
_PROCESSES = frozenset({"-n", "-np", "--n", "--np", "-c"})
"""Their options for the number of workers."""
_SET_BY_MUSTER = frozenset({
    "standalone", "node_rank", "master_addr", "master_port", "rdzv_backend", "rdzv_endpoint", "rdzv_id",
    "rdzv_conf", "local_addr",
})  # fmt: skip
_SLOTS_GRANTED = frozenset({"gpu", "auto", "cpu", "xpu"})
"""Values of --nproc-per-node that stand for what the job is given."""


@dataclass(frozen=True, kw_only=True)
class ParsedCommand:
    """A command line in the words of an experiment document."""

    entrypoint: tuple[str, ...]
    slots: int | None = None
    """Workers that the command itself asks for; None if it does not say."""
    nodes: int | None = None
    python: str | None = None
    """Interpreter that it names by a path."""
    is_script: bool = False
    """Whether Muster starts its workers: a Python script or module."""
    alone: tuple[str, ...] = ()
    """What runs on a single slot, by launcher "plain", if Python runs it: the same as `entrypoint`, or
    a line with options of Python, which has none."""
    notes: tuple[str, ...] = ()
    """Sentences about what was left out of it."""

    @property
    def name(self) -> str:
        """Name for the experiment: that of the script, module or program."""
        words = [w for w in self.entrypoint or self.alone if not w.startswith("-")]
        scripts = [w for w in words if w.endswith((".py", ".sh"))]
        first = PurePath((scripts or words or ["run"])[0]).name
        return first.removesuffix(".py").removesuffix(".sh") or "run"

    def started(self, *, num_slots: int, launcher: str | None) -> dict[str, Any]:
        """Return the keys of a document that say what runs, and how: on one slot a script is what
        Python alone makes of it, on more it is torchrun's.

        launcher: as the user has chosen; None for no choice. Raises CommandFailure.
        """
        if launcher is None and self.alone and num_slots == 1:
            launcher = "plain"
        runs_words = launcher in ("plain", "direct", "shell")
        if not self.entrypoint and not runs_words:
            raise usage_error(
                f"{' '.join(self.alone[:2])} can run on one slot alone: torchrun starts a script or "
                "-m MODULE.",
                "leave -n out; or put the code into a script: --env PYTHONOPTIMIZE=1 and the like "
                "replace options of Python",
            )
        entrypoint = self.entrypoint or self.alone
        if launcher is None and is_command(entrypoint) and not is_known_command(entrypoint):
            launcher = "shell"  # Without it, a document is refused that begins with another word.
        return {"entrypoint": list(entrypoint), **({"launcher": launcher} if launcher else {})}


def split_variables(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the variables that a line sets before its program, as a shell reads them
    (`PYTHONPATH=. python train.py`), and the words of the command. Raises CommandFailure if there is
    no command."""
    command = list(itertools.dropwhile(_ASSIGNMENT.match, words))
    if not command:
        raise usage_error(
            "There is no command to run.", "muster run -n 2 -- python train.py --lr 1e-3"
        )
    return list(words[: len(words) - len(command)]), command


def parse_command(words: Sequence[str], folder: Path) -> ParsedCommand:
    """Return what a command line is as an experiment.

    folder: the folder that is sent; scripts in it are named relative to it. Raises CommandFailure
    for what cannot run as an experiment.
    """
    program = PurePath(words[0]).name
    if program in _ELSEWHERE:
        raise usage_error(
            f"{program} starts processes on other machines itself; Muster does that.",
            f"leave {program} out and name slots and nodes: "
            "muster run -n 8 --nodes 2 -- python train.py",
        )
    call = find_call(words)
    if call is not None:
        return _of_launcher(call, words, folder)
    if _PYTHON.fullmatch(program):
        return _of_python(words, folder)
    if words[0].endswith(".py"):
        script = _inside(words, folder)
        return ParsedCommand(entrypoint=script, alone=script, is_script=True)
    if program in _ON_ONE_NODE:
        return ParsedCommand(entrypoint=tuple(words), slots=_num_processes(words), nodes=1)
    return ParsedCommand(entrypoint=tuple(words))


def _num_processes(words: Sequence[str]) -> int | None:
    """Return the number of workers that a line of mpirun asks for; None if it does not say."""
    position = 1
    while position + 1 < len(words) and words[position].startswith("-"):
        option, value = words[position : position + 2]
        if option in _PROCESSES:
            return int(value) if value.isdigit() and int(value) > 0 else None
        position += 1 if value.startswith("-") else 2
    return None


def _of_python(words: Sequence[str], folder: Path) -> ParsedCommand:
    interpreter, *rest = words
    # Output reaches the log line by line in any case.
    while rest[:1] == ["-u"]:
        rest = rest[1:]
    if not rest or rest == ["-"]:
        raise usage_error(f"{interpreter} alone would wait for input.", "python train.py --lr 1e-3")
    python = str(folder.joinpath(interpreter).absolute()) if "/" in interpreter else None
    if rest[0].startswith("-") and not (rest[0] == "-m" and len(rest) > 1):
        # The interpreter of the job is the first of that name on its PATH.
        alone = (PurePath(interpreter).name, *rest)
        return ParsedCommand(entrypoint=(), alone=alone, python=python, is_script=True)
    script = tuple(rest) if rest[0] == "-m" else _inside(rest, folder)
    return ParsedCommand(entrypoint=script, alone=script, python=python, is_script=True)


def _of_launcher(call: LauncherCall, words: Sequence[str], folder: Path) -> ParsedCommand:
    options = call.options
    if not call.program:
        raise usage_error(
            f"{' '.join(call.prefix)} names no script to run.", f"{words[0]} train.py"
        )
    if call.launcher == "accelerate":
        slots = _count(options, "num_processes", call)
        nodes = _count(options, "num_machines", call)
        return ParsedCommand(entrypoint=tuple(words), slots=slots, nodes=nodes)
    if call.launcher == "deepspeed":
        per_node = _count(options, "num_gpus", call)
        nodes = _count(options, "num_nodes", call)
        slots = per_node * (nodes or 1) if per_node is not None else None
        return ParsedCommand(entrypoint=tuple(words), slots=slots, nodes=nodes)
    nodes = _count(options, "nnodes", call)
    per_node = None
    if options.get("nproc_per_node") not in _SLOTS_GRANTED:
        per_node = _count(options, "nproc_per_node", call)
    slots = per_node * (nodes or 1) if per_node is not None else None
    is_module = bool(options.keys() & {"m", "module"})
    entrypoint = ("-m", *call.program) if is_module else _inside(call.program, folder)
    own = sorted(options.keys() & _SET_BY_MUSTER)
    known = {"nnodes", "nproc_per_node", "m", "module", *_SET_BY_MUSTER}
    if options.get("max_restarts") == "0":
        known.add("max_restarts")
    if options.keys() - known or call.prefix[-1] == "torch.distributed.launch":
        # Only torchrun itself knows what the others mean.
        return ParsedCommand(entrypoint=tuple(words), slots=slots, nodes=nodes)
    notes: tuple[str, ...] = ()
    if own and own != ["standalone"]:
        notes = (f"Left out {_options(own)}: Muster decides where the nodes meet.",)
    return ParsedCommand(
        entrypoint=entrypoint, slots=slots, nodes=nodes, is_script=True, notes=notes
    )


def _options(names: Sequence[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _count(options: Mapping[str, str], name: str, call: LauncherCall) -> int | None:
    """Return the number that an option gives; None if it is not there, or a variable."""
    text = options.get(name)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise usage_error(
            f"--{name.replace('_', '-')} {text} of {call.launcher} is not a number.",
            "write a number, or leave it out and give -n SLOTS and --nodes N",
        )
    return int(text)


def _inside(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the words with the script named relative to the folder, if it is inside of it."""
    script = folder.joinpath(words[0])
    if script.is_file() and script.resolve().is_relative_to(folder.resolve()):
        relative = script.resolve().relative_to(folder.resolve())
        if not script.is_symlink():
            return (relative.as_posix(), *words[1:])
    return tuple(words)
