"""A file that a job misses because an ignore file left it out of the uploaded code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from muster.wire import ExitInfo, WorkerExit

_NO_SUCH_FILE = re.compile(
    r"No such file or directory:? *\(?b?(?P<quote>['\"])(?P<path>.+?)(?P=quote)"
)
"""How Python and most libraries word it; the path is quoted."""


def missing_path(info: ExitInfo) -> str | None:
    """Return the path of the file that the first failure names as missing; None for no such."""
    message = info.first_failure.message if info.first_failure is not None else info.message
    found = _NO_SUCH_FILE.search(message)
    return found["path"] if found is not None else None


def with_hint(info: ExitInfo, left_out: Sequence[str]) -> ExitInfo:
    """Return the exit, its sentence completed if the missing file was left out of the code.

    left_out: paths relative to the code folder; those of folders end with a slash.
    """
    path = missing_path(info)
    sent_as = _find(path, left_out) if path is not None else None
    if sent_as is None:
        return info
    hint = (
        f" (not uploaded, because an ignore file names it; `code: {{include: [{sent_as}]}}` "
        "uploads it)"
    )

    def completed(worker: WorkerExit) -> WorkerExit:
        names_it = bool(path and path in worker.message)
        return replace(worker, message=worker.message + hint) if names_it else worker

    if info.first_failure is None:
        return replace(info, message=info.message + hint)
    return replace(
        info,
        first_failure=completed(info.first_failure),
        workers=[completed(worker) for worker in info.workers],
    )


def _find(path: str, left_out: Sequence[str]) -> str | None:
    """Return the path, relative to the code folder, by which `path` was left out; None if it was
    not. Jobs name files relative to any folder, or by absolute paths: the ends are compared."""
    wanted = PurePosixPath(path).parts
    for name in left_out:
        entry = PurePosixPath(name).parts
        if name.endswith("/"):
            for start in range(len(wanted) - len(entry)):
                if wanted[start : start + len(entry)] == entry:
                    return "/".join(wanted[start:])
        elif wanted[-len(entry) :] == entry or entry[-len(wanted) :] == wanted:
            return name
    return None
