"""What would mend a failure that comes of how a job was started: the switch that starts it otherwise.

Pure. Advice is given only where the reason can have no other cause on such slots and with such a
launcher: a wrong one costs more than none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath

_NO_NCCL = re.compile(
    r"Distributed package doesn't have NCCL|ProcessGroupNCCL is only supported with GPUs"
)
_NO_GROUP = re.compile(r"Default process group has not been initialized")
_NO_RANK = re.compile(
    r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set"
    r"|^KeyError: '(RANK|LOCAL_RANK|WORLD_SIZE)'$"
)
_NO_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|No CUDA GPUs are available|no CUDA-capable device"
    r"|Found no NVIDIA driver on your system"
    r"|Attempting to deserialize object on a CUDA device but torch\.cuda\.is_available\(\) is False"
)
_NO_FILE = re.compile(r"^FileNotFoundError: .*No such file or directory: '([^']+)'$", re.MULTILINE)
_NO_ANSWER = re.compile(r"^(?:EOFError: EOF when reading a line|Aborted[!.])$")
"""What Python, click and typer say of a question that nobody answers."""
_PORT_IN_USE = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
_PORT = re.compile(r"\bport: (\d+)|\]:(\d+) \(errno|\b(?:\d+\.){3}\d+:(\d+) \(errno")

_TORCHRUN = "`--launcher torchrun` (in a document `launcher: torchrun`)"
_PLAIN = "`--launcher plain` (in a document `launcher: plain`)"
_GPUS = "`--gpus 1` (in a document `resources: {slot_type: cuda}`)"


@dataclass(frozen=True, kw_only=True)
class HowStarted:
    """How a job was started, as far as advice depends on it."""

    launcher: str
    num_slots: int
    slot_type: str
    work_dir: str = ""
    """Folder with what was sent; "" if nothing was, or it is not known."""
    run_dir: str = ""
    """Folder in which the job runs, the same or one in it."""


def advise(started: HowStarted, reason: str) -> str:
    """Return what the user can do about a failure, as one clause; "" where no switch would mend it.

    reason: what the process said of its end.
    """
    is_on_cpu = started.slot_type == "cpu"
    if is_on_cpu and _NO_NCCL.search(reason):
        if started.num_slots > 1 or started.launcher != "torchrun":
            return f"NCCL needs GPUs: ask for them with {_GPUS}, or let the script use gloo on CPUs"
        return (
            "it trains distributed because torchrun started it, and NCCL needs GPUs: start it as "
            f"one process with {_PLAIN}, or let the script use gloo on CPUs"
        )
    if is_on_cpu and _NO_GPU.search(reason):
        return f"it has CPU slots: ask for GPUs with {_GPUS}, or let the script train on the CPU"
    if _NO_GROUP.search(reason) or _NO_RANK.search(reason):
        if started.launcher == "plain":
            return f"the script expects to be a worker of torchrun: start it with {_TORCHRUN} or `-n 2`"
        if started.launcher == "shell":
            return (
                "the script expects to be a worker of torchrun: the command must start it by that"
            )
    if _NO_ANSWER.search(reason):
        return (
            "it asked a question, and a job has no terminal: answer by an option of the script, or with "
            "`bash -c 'yes | python …'`"
        )
    if (missing := _NO_FILE.search(reason)) and _is_above(missing[1], started):
        return (
            "a job has the folder that was sent, and nothing above it: send more with "
            "`muster run --upload-root ..` (in a document `code: {path: .., workdir: src}`)"
        )
    return ""


def _is_above(path: str, started: HowStarted) -> bool:
    """Return whether a path leads out of the work folder into those that it lies in, as one does that
    a script forms by going up. Muster's folders are named nowhere else."""
    if not started.work_dir:
        return False
    folder = PurePosixPath(started.work_dir)
    there = PurePosixPath(normpath((started.run_dir or folder) / PurePosixPath(path)))
    return not there.is_relative_to(folder) and (
        path.startswith("../") or there.is_relative_to(folder.parent.parent)
    )


def says_port_in_use(text: str) -> bool:
    """Return whether somebody could not listen because the port was taken."""
    return _PORT_IN_USE.search(text) is not None


def port_in_use(texts: Sequence[str]) -> int:
    """Return the port that was taken, by the first text that names it; 0 if none does."""
    for text in texts:
        for line in reversed(text.splitlines()):
            if says_port_in_use(line) and (match := _PORT.search(line)):
                return int(match[match.lastindex or 1])
    return 0
