"""A session: a job in which somebody works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from .common import Bounds

SessionKind = Literal["shell", "ssh", "jupyter", "code"]
IDLE_MIN_S = 10.0
IDLE_MAX_S = 30 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class SessionSection:
    """Hold the slots for somebody who works in the job, in place of `entrypoint` and `trainer`, until
    nothing goes on any more. `muster session start` starts such jobs."""

    kind: SessionKind = "shell"
    """What is started in the job: `ssh`, an SSH server (the job's Python needs asyncssh); `jupyter`,
    JupyterLab or Jupyter Server, whichever the job's Python has; `code`, code-server, which must be on
    the job's PATH; `shell`, nothing: `muster shell` opens one. Servers listen on 127.0.0.1."""
    idle: Annotated[str, Bounds(min_length=1, max_length=32)] = "30m"
    """Time after which the session ends when nobody is connected, no kernel is busy, and neither
    processors nor GPUs are used (`30m`, `2h`)."""
