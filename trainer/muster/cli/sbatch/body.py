"""What the commands of a batch script tell before it runs: which shell reads them, and what would not
run as it does under Slurm."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath, PurePosixPath

from muster.launch.slurm.options import StepRefused, take_options

from ..output import usage_error
from .options import SbatchOption
from .shape import SHAPE

_SHELLS = frozenset({"bash", "sh", "zsh", "ksh", "dash"})
_CALL = re.compile(r"^[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*srun[ \t]+(?P<rest>.*)", re.MULTILINE)
_REMOVAL = re.compile(r"\brm\s+(?:-\S+\s+)*[\"']?\$\{?(?P<name>[A-Za-z_]\w*)\}?[\"']?/")
_SET = frozenset({"HOME", "PWD", "OLDPWD", "TMPDIR", "LOCAL_SCRATCH", "USER", "VIRTUAL_ENV"})
"""Variables of folders that every batch script finds set, beside SLURM_… and MUSTER_…."""


def check_script(text: str, path: str, variables: Sequence[str]) -> None:
    """Raise CommandFailure for a script that no node could run as it is meant.

    variables: names that the document sets.
    """
    if "\r\n" in text:
        raise usage_error(
            f"Line 1: {path} has DOS line ends (CRLF), with which a shell cannot read it.",
            f"convert it: sed -i 's/\\r$//' {path}",
        )
    _check_shell(text, path)
    for number, line in enumerate(text.splitlines(), 1):
        for found in _REMOVAL.finditer(line.partition("#")[0]):
            name = found["name"]
            is_set = name in _SET or name.startswith(("SLURM_", "MUSTER_")) or name in variables
            if not is_set and not re.search(rf"\b{name}=|\b(?:read|for)\b.*\b{name}\b", text):
                raise usage_error(
                    f"Line {number} removes what is in ${name}, and nothing sets {name}: it would be "
                    "another folder.",
                    f"use $SLURM_TMPDIR, a folder of the job's own, or set it: --export={name}=FOLDER",
                )


def _check_shell(text: str, path: str) -> None:
    """Raise CommandFailure for a program that is no shell, unless the script is written for Slurm."""
    words = text.splitlines()[0].removeprefix("#!").split()
    if words and PurePosixPath(words[0]).name == "env":
        words = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
    name = PurePosixPath(words[0]).name if words else ""
    if name not in _SHELLS and "\n#SBATCH" not in text:
        raise usage_error(
            f"{path} is a script of {name or 'nothing'}, and batch scripts are those of a shell.",
            f"give it a name that ends with .py: muster run -- python {PurePath(path).stem}.py"
            if name.startswith("python")
            else "begin with #!/bin/bash",
        )


def calls_srun(text: str) -> bool:
    """Return whether a script seems to call srun somewhere."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return any(re.search(r"\bsrun\b", line) for line in lines)


def shape_of_srun(text: str, arguments: str = "") -> dict[str, SbatchOption]:
    """Return how large a job the calls of srun in a script ask for, where no other option does: srun
    outside of a job makes one of the size that it needs.

    arguments: how the script was submitted, for hints. Raises CommandFailure where the size is in a
    variable, whose value is not known before the script runs.
    """
    largest: dict[str, SbatchOption] = {}
    for option in _calls(text):
        if "$" in option.value or "`" in option.value:
            raise option.error(
                "is how large the job is to be, and the value is known only when the script runs",
                "write it on the command line: muster run -- sbatch "
                f"--{option.name}={'gpu:4' if option.name == 'gres' else 4} {arguments}".rstrip(),
            )
        known = largest.get(option.name)
        if known is None or (option.value.isdigit() and option.number() > known.number()):
            largest[option.name] = option
    return largest


def _calls(text: str) -> Iterator[SbatchOption]:
    """Yield the options of each srun at the beginning of a line that say how large a step is."""
    # Continued lines are one, and keep the number of the first; comments do not go on.
    joined = re.sub(r"\\\n", "  ", re.sub(r"(?m)^[ \t]*#.*", lambda m: " " * len(m[0]), text))
    for call in _CALL.finditer(joined):
        number = text[: call.start()].count("\n") + 1
        lexer = shlex.shlex(call["rest"], posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            words = list(lexer)
        except ValueError:
            words = call["rest"].split()
        # What srun does not know it refuses itself.
        with contextlib.suppress(StepRefused):
            for name, value, word in take_options(words):
                if name in SHAPE:
                    yield SbatchOption(line=number, name=name, value=value, written=f"srun {word}")
