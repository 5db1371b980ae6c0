"""Entry points: text or list to arguments, and why some cannot run."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import Any

from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem
from muster_server.schemas.validation_messages import type_name

PATH = "entrypoint"
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1"})
_INTERPRETERS = re.compile(r"(.*/)?(python[0-9.]*|torchrun|accelerate|mpirun|bash|sh)")
_EXAMPLES = "for example `train.py --epochs 3` or `-m package.module`"


def normalise(value: Any) -> tuple[list[str] | None, FieldProblem | None]:
    """The arguments of an entry point as written, or what is wrong with it."""
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
    problem = _check(arguments)
    return (None, problem) if problem else (arguments, None)


def _check(arguments: list[str]) -> FieldProblem | None:
    if not arguments:
        return FieldProblem(PATH, Message("field.empty"), _EXAMPLES)
    first = arguments[0]
    if first == "-m":
        if len(arguments) < 2 or not _MODULE.fullmatch(arguments[1]):
            return FieldProblem(PATH, "-m needs the name of a module", "-m package.module")
        return None
    if _INTERPRETERS.fullmatch(first):
        return FieldProblem(
            PATH,
            f"must not begin with {PurePosixPath(first).name!r}: Muster starts the interpreter "
            "and the workers itself",
            _EXAMPLES,
        )
    if not first.endswith(".py"):
        return FieldProblem(PATH, "must begin with a .py file or with -m and a module", _EXAMPLES)
    if ".." in PurePosixPath(first).parts:
        return FieldProblem(PATH, "the file must lie inside the code folder", "leave out '..'")
    return None
