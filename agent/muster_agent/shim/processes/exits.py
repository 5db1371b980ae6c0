"""Collection of what is known about each worker's end, from three sources."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from muster_agent.jobs.exits import (
    WorkerEnd,
    parse_error_file,
    parse_torchrun_failures,
    parse_uncaught,
)
from muster_agent.jobs.process import Child
from muster_agent.records.logs import (
    error_file,
    find_logs,
    launcher_log,
    read_error,
    tail,
    uncaught_exception,
)
from muster_agent.records.masking import NO_MASK, Mask


def collect_ends(
    logs: Path,
    seen: Sequence[WorkerEnd],
    launcher: Child | None,
    mask: Mask = NO_MASK,
    *,
    shared_words: str = "",
) -> list[WorkerEnd]:
    """Return `seen` (what the shim observed: times, and mostly the exit status), completed by
    torchrun's summary (exit status of its children), error files and the ends of the logs.

    Where we could not see how a worker of torchrun ended, its summary says so, and in which order:
    its first failure is the root cause.

    shared_words: the end of the output of all workers, for those without a log of their own.
    """
    ends = {end.local_rank: end for end in seen}
    if launcher is not None:
        if launcher.exit_code == 0:
            ends = {k: replace(end, exit_code=0, signal=None) for k, end in ends.items()}
        elif launcher.has_ended:
            # A worker that outlived its launcher was killed by the shim, so its status means
            # nothing.
            ends = {
                k: replace(end, exit_code=None, signal=None)
                if end.at_ms > launcher.ended_at_ms
                else end
                for k, end in ends.items()
            }
        failures = parse_torchrun_failures(tail(launcher_log(logs, "stderr"), mask=mask))
        root_at_ms = 0
        for index, failure in enumerate(failures):
            known = ends.get(failure.local_rank)
            if known is not None and (known.exit_code is not None or known.signal is not None):
                root_at_ms = root_at_ms or known.at_ms
                continue
            at_ms = (known.at_ms if known else 0) or launcher.ended_at_ms
            if index == 0:
                root_at_ms = at_ms
            elif at_ms <= root_at_ms:
                at_ms = root_at_ms + 1
            ends[failure.local_rank] = replace(failure, at_ms=at_ms)
    stderr = {f.local_rank: f.path for f in find_logs(logs) if f.stream == "stderr"}
    return [_with_words(logs, end, stderr, mask, shared_words) for _, end in sorted(ends.items())]


def find_uncaught(logs: Path, *, since: float, mask: Mask = NO_MASK) -> str:
    """Return the exception that ended a Python process of the job after that time, in seconds since the
    epoch; "" for none."""
    path = uncaught_exception(logs, since=since)
    with contextlib.suppress(OSError):
        return "" if path is None else parse_uncaught(mask.text(read_error(path)))
    return ""


def _with_words(
    logs: Path, end: WorkerEnd, stderr: dict[int, Path], mask: Mask, shared_words: str
) -> WorkerEnd:
    error = ""
    path = error_file(logs, end.local_rank)
    if path is not None:
        with contextlib.suppress(OSError):
            error = parse_error_file(mask.text(read_error(path)))
    own = stderr.get(end.local_rank)
    words = tail(own, mask=mask) if own is not None else shared_words
    return replace(end, error=error, stderr_tail=words)
