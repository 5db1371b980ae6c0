"""The commands of a batch script: how they run where there is no Slurm."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath

from muster.launch.commands import find_call

from ..exit_codes import EXIT_USAGE
from ..output import CommandFailure
from .draft import BatchDraft
from .options import FLAGS, SHORT

_SHELLS = frozenset({"bash", "sh", "zsh", "ksh", "dash"})
_SRUN = re.compile(r"(?:^|[|;&(]|\$\(|\bexec\s|\btime\s)\s*srun\b(?P<rest>[^\n]*)", re.MULTILINE)


def add_body(
    job: BatchDraft, text: str, path: str, arguments: Sequence[str], nodes: int | None
) -> list[str]:
    """Set the entry point, and return sentences about it.

    The script itself runs, as it is. Variables of Slurm are set in its shell alone, because
    programs that find them in their environment believe that they run under Slurm.
    """
    calls = [found["rest"] for found in _SRUN.finditer(_commands(text))]
    resources = job.section("resources")
    if len(calls) > 1:
        raise _needs_slurm("calls srun more than once", path)
    if not calls and nodes is not None and nodes > 1:
        raise _needs_slurm(f"asks for {nodes} nodes and does not call srun", path)
    command, num_words = _srun_command(calls[0]) if calls else ([], 0)
    starts_workers = not calls or find_call(command) is not None
    if not calls:
        resources.setdefault("nodes", 1)
    job.document["launcher"] = "shell" if starts_workers else "direct"
    script = [*_shell(text, path), "-c", _prelude(num_words, is_task=not starts_workers), path]
    job.document["entrypoint"] = [*script, *arguments]
    if starts_workers and calls:
        return ["The script runs once on each node; srun starts its command there."]
    if calls:
        return ["The script runs once for each task: its commands before srun run as often."]
    return []


def _commands(text: str) -> str:
    """Return the lines of a script without comments; continued lines are one."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return "\n".join(line for line in joined.splitlines() if not line.lstrip().startswith("#"))


def _srun_command(rest: str) -> tuple[list[str], int]:
    """Return the command that srun starts, and the number of words of srun's own options."""
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:
        words = rest.split()
    position = 0
    while position < len(words) and words[position].startswith("-"):
        word = words[position]
        position += 1
        is_short = not word.startswith("--")
        name = SHORT.get(word[1:2], "") if is_short else word[2:].partition("=")[0]
        has_value = len(word) > 2 if is_short else "=" in word
        is_flag = name in FLAGS or (is_short and word[1] in "lu") or name in _SRUN_FLAGS
        if not has_value and not is_flag:
            position += 1
    return words[position:], position


_SRUN_FLAGS = frozenset({
    "label", "unbuffered", "pty", "kill-on-bad-exit", "exact", "overlap", "multi-prog", "no-allocate",
    "preserve-env", "disable-status", "interactive", "mpi-combine", "whole", "slurmd-debug",
})  # fmt: skip


def _shell(text: str, path: str) -> list[str]:
    """Return the shell of the first line, with its options. Raises CommandFailure for a program
    that is no shell."""
    words = text.splitlines()[0].removeprefix("#!").split()
    if words and PurePosixPath(words[0]).name == "env":
        words = words[1:]
    name = PurePosixPath(words[0]).name if words else ""
    if name not in _SHELLS:
        raise CommandFailure(
            f"{path} is a script of {name or 'nothing'}, and batch scripts are those of a shell.",
            f"give it a name that ends with .py: muster run -- python {PurePath(path).stem}.py"
            if name.startswith("python")
            else "begin with #!/bin/bash",
            exit_code=EXIT_USAGE,
        )
    return [name, *words[1:]]


def _prelude(num_words: int, *, is_task: bool) -> str:
    """Return the shell commands that stand in for Slurm and then read the script.

    num_words: words of srun's options, which are skipped. is_task: whether each process is a task
    of its own rather than a node.
    """
    rank, size = ("$RANK", "$WORLD_SIZE") if is_task else ("$NODE_RANK", "$NNODES")
    node = "${GROUP_RANK:-0}" if is_task else "$NODE_RANK"
    num_nodes = "${GROUP_WORLD_SIZE:-1}" if is_task else "$NNODES"
    of_node = "$LOCAL_WORLD_SIZE" if is_task else "$NPROC_PER_NODE"
    lines = [
        f"SLURM_JOB_ID=$MUSTER_EXPERIMENT_ID SLURM_JOBID=$MUSTER_EXPERIMENT_ID SLURM_NODEID={node}",
        f"SLURM_NNODES={num_nodes} SLURM_JOB_NUM_NODES={num_nodes} SLURM_GPUS_ON_NODE={of_node}",
        f"SLURM_PROCID={rank} SLURM_NTASKS={size} SLURM_NPROCS={size} SLURM_SUBMIT_DIR=$PWD",
        "SLURM_CPUS_PER_TASK=${OMP_NUM_THREADS:-1} SLURM_JOB_NODELIST=${MASTER_ADDR:-127.0.0.1}",
        "SLURM_NODELIST=$SLURM_JOB_NODELIST SLURM_LOCALID=${LOCAL_RANK:-0}",
        'scontrol() { echo "$SLURM_JOB_NODELIST"; }',
    ]
    skip = f"shift {num_words}; " if num_words else ""
    as_task = (
        "SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK SLURM_NTASKS=$WORLD_SIZE "
        f"SLURM_NODEID={node} SLURM_JOB_ID=$MUSTER_EXPERIMENT_ID "
        if is_task
        else ""
    )
    lines.append(f'srun() {{ {skip}{as_task}"$@"; }}')
    lines.append('. "./$0"')
    return "\n".join(lines)


def _needs_slurm(problem: str, path: str) -> CommandFailure:
    return CommandFailure(
        f"{path} {problem}, and Muster runs a script on every node.",
        "write a document: entrypoint: bash run.sh, launcher: shell, resources: {slots: 8, nodes: 2}; "
        "run.sh starts its workers with torchrun, to which Muster adds the addresses",
        exit_code=EXIT_USAGE,
    )
