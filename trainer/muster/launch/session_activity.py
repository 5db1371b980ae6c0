"""What goes on in a session: who is connected, and what computes. Reads /proc alone."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CPUS_MIN = 0.1
"""Processors in use from which a session computes: a server that waits takes less."""
DEVICE_PERCENT_MIN = 5.0
"""Use of a GPU, in percent, from which a session computes."""
ANSWER_S = 5.0
"""Seconds that a server or nvidia-smi has to answer."""
_ESTABLISHED = "01"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MARK, _TUNNEL = b"MUSTER_ALLOCATION_ID=", b"MUSTER_TUNNEL="


@dataclass(frozen=True, kw_only=True)
class SessionActivity:
    """What goes on at one moment."""

    num_connections: int = 0
    """Connections to the server of the session."""
    num_terminals: int = 0
    """Commands and shells that are open through Muster."""
    num_busy_kernels: int = 0
    cpus: float = 0.0
    """Processors that the job has used since the last look, on average."""
    device_percent: float = 0.0
    """Use of the busiest GPU; 0 without one, or where it is not known."""

    @property
    def is_in_use(self) -> bool:
        return (
            self.num_connections + self.num_terminals + self.num_busy_kernels > 0
            or self.cpus >= CPUS_MIN
            or self.device_percent >= DEVICE_PERCENT_MIN
        )


def idle_since(before: float | None, activity: SessionActivity, now: float) -> float | None:
    """Return since when nothing has gone on; None while something does.

    before: what the last look has returned.
    """
    if activity.is_in_use:
        return None
    return now if before is None else before


class ActivityProbe:
    """Looks at one session again and again."""

    def __init__(self, *, port: int, token: str, is_jupyter: bool) -> None:
        self._port, self._token, self._is_jupyter = port, token, is_jupyter
        self._devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._looked_at = time.monotonic()
        _, self._used_s = _processes()

    def look(self) -> SessionActivity:
        now = time.monotonic()
        num_terminals, used_s = _processes()
        # What has ended without being waited for takes its time along.
        cpus = max(0.0, used_s - self._used_s) / max(now - self._looked_at, 1e-3)
        self._looked_at, self._used_s = now, used_s
        busy = _busy_kernels(self._port, self._token) if self._is_jupyter else 0
        return SessionActivity(
            num_connections=count_connections(self._port),
            num_terminals=num_terminals,
            num_busy_kernels=busy,
            cpus=cpus,
            device_percent=_device_percent(self._devices) if self._devices else 0.0,
        )


def count_connections(port: int, *, tables: Path = Path("/proc/net")) -> int:
    """Return how many connections to a port of this machine are open."""
    num = 0
    for name in ("tcp", "tcp6") if port else ():
        with contextlib.suppress(OSError):
            for line in (tables / name).read_text().splitlines()[1:]:
                local, _, state = line.split()[1:4]
                num += state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port
    return num


def _processes() -> tuple[int, float]:
    """Return the number of open commands and shells of this job, and the seconds of processor time that its
    processes and what they have waited for have used."""
    own = _MARK + os.environ.get("MUSTER_ALLOCATION_ID", "").encode()
    num_terminals, ticks = 0, 0
    for folder, environment in _environments():
        if own not in environment:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
            num_terminals += (
                any(entry.startswith(_TUNNEL) for entry in environment)
                # Behind walls its leader is outside, where it has no number.
                and fields[3] in (folder.name, "0")
                and _has_input(folder)
            )
    return num_terminals, ticks / _TICKS_PER_S


def _environments() -> Iterator[tuple[Path, list[bytes]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield folder, (folder / "environ").read_bytes().split(b"\0")


def _has_input(folder: Path) -> bool:
    """Return whether a process still has somebody at its input. What stays behind in a session of its own,
    such as tmux, reads nothing, or a terminal that is gone."""
    target = str((folder / "fd" / "0").readlink())
    return target != os.devnull and not target.endswith("(deleted)")


def _busy_kernels(port: int, token: str) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/kernels", headers={"Authorization": f"token {token}"}
    )
    # No proxy: it would look for the loopback interface of its own machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.suppress(OSError, ValueError):
        with opener.open(request, timeout=ANSWER_S) as answer:
            kernels = json.load(answer)
        return sum(kernel.get("execution_state") == "busy" for kernel in kernels)
    return 0


def _device_percent(devices: str) -> float:
    query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", f"--id={devices}"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(
            ["nvidia-smi", *query], capture_output=True, text=True, timeout=ANSWER_S, check=True
        )
        return max((float(line) for line in answer.stdout.split()), default=0.0)
    return 0.0
