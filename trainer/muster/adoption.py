"""Checkpoints that a script saves under names of its own: which files belong to one, and its step."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

STEP = "{step}"
STEP_MAX = 2**53
"""Steps above are no steps: dates and digests written as numbers."""
PATTERN_EXAMPLES = "out/ckpt-*.pt, runs/**/checkpoint-* or out/{step}/model.pt"
_NAMED = re.compile(r"step[=_-]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z]\w*$")


class NoCheckpointPattern(ValueError):
    """A pattern cannot name files of a work folder; the message says why."""


@dataclass(frozen=True)
class AdoptPattern:
    """Names of checkpoints, relative to the work folder."""

    text: str
    _expression: re.Pattern[str]

    def checkpoint_of(self, path: str) -> str | None:
        """Return the file or folder that a file belongs to: itself, or the topmost of its folders
        whose path matches. None if it belongs to no checkpoint."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            if self._expression.fullmatch(name):
                return name
        return None

    def step_of(self, name: str) -> int | None:
        """Return the step that a checkpoint's path names; None if it names none.

        It is what stands for `{step}`. Without one in the pattern, it is the number after `step`
        in the last part of the path, else the last number there; an extension such as `.h5` does
        not count.
        """
        found = self._expression.fullmatch(name)
        if found is not None and "step" in found.groupdict():
            numbers = [found["step"]]
        else:
            last = _EXTENSION.sub("", name.rpartition("/")[2])
            numbers = _NAMED.findall(last) or _NUMBER.findall(last)
        step = int(numbers[-1][:20]) if numbers else STEP_MAX
        return step if step < STEP_MAX else None


def parse(text: str) -> AdoptPattern:
    """Return a pattern from its text: `*`, `?` and `[…]` within a part of the path, `**` for any
    folders, `{step}` for the digits of the step. Raises NoCheckpointPattern."""
    if not text.strip():
        raise NoCheckpointPattern("is empty")
    if text.startswith(("/", "~")) or "\\" in text:
        raise NoCheckpointPattern("is no path relative to the work folder")
    parts = text.removesuffix("/").split("/")
    if ".." in parts:
        raise NoCheckpointPattern("leads out of the work folder")
    if any(part in ("", ".") for part in parts):
        raise NoCheckpointPattern("has an empty part")
    if parts[-1] == "**":
        raise NoCheckpointPattern("ends in `**`, so that every file would be a checkpoint")
    if text.count(STEP) > 1:
        raise NoCheckpointPattern("has {step} more than once")
    folders = "".join("(?:[^/]+/)*" if part == "**" else _part(part) + "/" for part in parts[:-1])
    return AdoptPattern(text, re.compile(folders + _part(parts[-1]), re.DOTALL))


def group(pattern: AdoptPattern, paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the files of each checkpoint, by its path."""
    found: dict[str, list[str]] = {}
    for path in paths:
        name = pattern.checkpoint_of(path)
        if name is not None:
            found.setdefault(name, []).append(path)
    return found


def _part(text: str) -> str:
    """Return one part of a path as a regular expression."""
    pieces = []
    while text:
        if text.startswith(STEP):
            pieces.append(r"(?P<step>[0-9]+)")
            text = text[len(STEP) :]
        elif (among := re.match(r"\[(!?)([^\[\]/]+)\]", text)) is not None:
            inner = re.sub(r"([\\^&~|])", r"\\\1", among[2])
            pieces.append(f"[{'^/' if among[1] else ''}{inner}]")
            text = text[among.end() :]
        else:
            pieces.append({"*": "[^/]*", "?": "[^/]"}.get(text[0], re.escape(text[0])))
            text = text[1:]
    expression = "".join(pieces)
    try:
        re.compile(expression)
    except re.error as error:
        raise NoCheckpointPattern(f"cannot be read: {error}") from error
    return expression
