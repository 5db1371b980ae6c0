"""Figures of the traces of a window.

Traces come from jobs, so whatever is in them is read by a process of its own, one at a time, whose time and
memory are limited.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster_server.db.engine import Database
from muster_server.errors import InvalidRequest, Unavailable
from muster_server.schemas.analysis.profiles import ProfileSummaryOut

from . import profiles

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Length of the longest text of a trace that is read."""
TIMEOUT_S = 60.0
WAIT_S = 10.0
"""Seconds that a request waits for those before it."""
_turn = threading.Lock()


def summarize(database: Database, traces: Mapping[int, int]) -> ProfileSummaryOut:
    """Return the figures of complete traces.

    traces: rank → id of its trace, as `profiles.find_trace` returns it.
    Raises Unavailable while others are computed, and InvalidRequest where it takes too long.
    """
    if not _turn.acquire(timeout=WAIT_S):
        raise Unavailable(
            "profiles.busy", "Figures of other traces are being computed.", retry_after_s=10
        )
    try:
        with tempfile.TemporaryDirectory(prefix="muster-traces-") as folder:
            arguments = []
            for rank, profile_id in traces.items():
                path = Path(folder, str(rank))
                with path.open("wb") as file:
                    file.writelines(profiles.stream(database, profile_id))
                arguments += [str(rank), str(path)]
            found = _run([str(MAX_UNPACKED_BYTES), *arguments])
    finally:
        _turn.release()
    return ProfileSummaryOut.model_validate(
        {
            "ranks": [one for one in found["ranks"] if not one["problem"]],
            "problems": [one for one in found["ranks"] if one["problem"]],
            "waiting": found["waiting"],
        },
        extra="ignore",
    )


def _run(arguments: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "muster.timeline", *arguments],
            capture_output=True, check=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise InvalidRequest(
            "profiles.too_large",
            "These traces take too long, or too much memory, to compute figures of them here.",
            hint="Record fewer steps, or download them and run `muster trace summary FILE…`.",
        ) from None
    found: dict[str, Any] = json.loads(done.stdout)
    return found
