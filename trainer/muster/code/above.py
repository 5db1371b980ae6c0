"""What a script names above its folder, so that it is sent along. Reads files; changes nothing."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_UP = re.compile(r"(?<![\w./])\.\.(?:/[\w.@+-]+)*/?(?![\w.])")
"""A path that goes up, in the text of a shell or of a command line."""
_GOES_UP = re.compile(r"\.\./[^\n\0]{1,300}|\.\.(?:/\.\.)*/?")
"""A text of a Python script that is such a path as a whole."""
_STEP = re.compile(r"\.parent\b|\bdirname\(")
_STEPS = re.compile(r"\.parents\[(\d)\]")
SCRIPT_MAX_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class NamedAbove:
    """What exists above a folder and is named by the script that runs in it."""

    root: Path
    """The lowest folder that holds the folder and all that is named."""
    name: str
    """The first path that is named."""
    is_in_checkout: bool
    """Whether `root` lies within the git repository that the folder belongs to."""


def named_above(folder: Path, words: Sequence[str]) -> NamedAbove | None:
    """Return what a command line that runs in a folder names above it, by its own words or in the first
    script among them; None for nothing.

    folder: absolute, without links.
    """
    script = next((folder / w for w in words if w.endswith((".py", ".sh", ".sbatch"))), None)
    found: dict[Path, str] = {}
    for base, path in [(folder, p) for p in _in_text(" ".join(words))] + list(_in_script(script)):
        there = Path(os.path.normpath(base / path))
        if there.exists() and not there.is_relative_to(folder):
            found.setdefault(there, path)
    if not found:
        return None
    root = Path(os.path.commonpath([folder, *found]))
    checkout = next((f for f in (folder, *folder.parents) if (f / ".git").exists()), None)
    return NamedAbove(
        root=root,
        name=next(iter(found.values())),
        is_in_checkout=checkout is not None and root.is_relative_to(checkout),
    )


def _in_script(script: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the paths that a script names, each with the folder from which it is seen."""
    try:
        if script is None or script.stat().st_size > SCRIPT_MAX_BYTES:
            return
        text = script.read_text(errors="replace")
    except OSError:
        return
    is_python = script.suffix == ".py"
    for path in _in_python(text) if is_python else _in_text(text):
        yield script.parent, path


def _in_text(text: str) -> Iterator[str]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    yield from (path for line in lines for path in _UP.findall(line))


def _in_python(text: str) -> Iterable[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and _GOES_UP.fullmatch(value):
            yield value
    for line in text.splitlines():
        if "__file__" in line and not line.lstrip().startswith("#"):
            steps = len(_STEP.findall(line)) + sum(int(n) + 1 for n in _STEPS.findall(line))
            if steps > 1:
                yield "/".join([".."] * (steps - 1))
