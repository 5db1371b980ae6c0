"""Names of the metrics behind TensorBoard's tags, where several writers use one tag."""

from __future__ import annotations

import os.path
import re
from typing import Any

_OF_HPARAMS = re.compile(r"\d{10}\.\d+")
_HAS_TIME = re.compile(r"\d\d[-_:]\d\d[-_:]\d\d|\d{8}[-_T]\d{4}|\d{10,}")
TAGS_MAX = 10_000
"""Tags whose first folder is remembered."""


class TagNames:
    """Names of tags in the folders of one job.

    TensorBoard tells the writers of one tag, such as training and validation, by their folders. The
    first folder that uses a tag keeps it as its name, so that a run has the same names in whatever
    folder it lies; in others the folder comes first, as seen from where both lie: `validation/loss`.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        """Folder with a time in its name → its number."""
        self.runs: set[str] = set()
        """What the names of these folders begin with."""

    def name(self, folder: str, tag: str) -> str:
        """Return the name of a tag in a folder, which is a path that is always spelled the same."""
        parent, _, end = folder.rpartition("/")
        if is_of_hparams(folder):
            # torch writes each `add_hparams` into a folder of its own, named by the time.
            return self.name(parent, tag)
        group = tag.replace("/", "_") + "_"
        if end.startswith(group) and end != group:
            # torch writes each of `add_scalars("loss", {"a": …})` into a folder of its own, loss_a.
            return f"{self.name(parent, tag)}/{end.removeprefix(group)}"
        first = self._folders.get(tag)
        if first is None and len(self._folders) < TAGS_MAX:
            first = self._folders[tag] = folder
        if first in (folder, None):
            return tag
        common = os.path.commonpath([first, folder])
        below = os.path.relpath(folder, common)
        parts = [end] if below == "." else below.split("/")
        timed = next((i for i, part in enumerate(parts, 1) if _HAS_TIME.search(part)), 0)
        if not timed:
            return f"{'/'.join(parts)}/{tag}"
        # Nobody could compare names with a time in them: such folders are numbered instead, each with
        # all that lies in it.
        fit = "/".join([common, *parts[:timed]])
        run = f"run-{self._numbers.setdefault(fit, len(self._numbers) + 2)}"
        self.runs.add(run)
        there = os.path.relpath(first, common).split("/")[:timed]
        alike = os.path.normpath("/".join([common, *there, *parts[timed:]]))
        if alike == folder or timed == len(parts):
            return f"{run}/{tag}"
        return f"{run}/{self.name(alike, tag)}"


def is_of_hparams(folder: str) -> bool:
    """Return whether a folder is one that torch makes for a call of `add_hparams`."""
    return _OF_HPARAMS.fullmatch(folder.rpartition("/")[2]) is not None


def is_placeholder(tag: str, value: Any) -> bool:
    """Return whether a scalar is what Lightning logs to have hyperparameters shown without a metric."""
    return tag.rpartition("/")[2] == "hp_metric" and bool(value == -1)
