"""A job that tries what it must not: prints, as JSON, which of its attempts succeeded.

Run as a job's script. What it goes for appears beside it as targets.json, once it runs. Needs the
standard library alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGETS: dict[str, Any] = {}
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def reads(path: str) -> Callable[[], bool]:
    return lambda: bool(Path(path).read_bytes())


def writes(folder: str) -> Callable[[], bool]:
    """Whether a file can be made under that path. Only from outside it shows in which folder."""

    def attempt() -> bool:
        (Path(folder) / "hostile").write_text("x")
        return True

    return attempt


def commands(path: str) -> Callable[[], bool]:
    """Whether the shim obeys: `status` changes nothing."""

    def attempt() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            message = {"command": "status", "token": Path(f"{path}.token").read_text()}
            connection.sendall(json.dumps(message).encode() + b"\n")
            return bool(json.loads(connection.makefile().readline()).get("ok"))

    return attempt


def signals(pid: int) -> Callable[[], bool]:
    """Whether that process of the machine may be signalled. In a sandbox the number is another's, or
    nobody's."""

    def attempt() -> bool:
        if str(Path("/proc/self/ns/pid").readlink()) != TARGETS["pid_namespace"]:
            return False
        os.kill(pid, 0)
        return True

    return attempt


def traces(pid: int) -> Callable[[], bool]:
    def attempt() -> bool:
        if not is_the_machines(pid):
            return False
        libc = ctypes.CDLL(None)
        if libc.ptrace(PTRACE_ATTACH, pid, 0, 0):
            return False
        os.waitpid(pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, pid, 0, 0)
        return True

    return attempt


def is_the_machines(pid: int) -> bool:
    """Whether this process sees the machine's own processes, and that one among them."""
    own = Path("/proc/self/ns/pid").readlink()
    return str(own) == TARGETS["pid_namespace"] and Path(f"/proc/{pid}").exists()


def connects(port: int) -> Callable[[], bool]:
    def attempt() -> bool:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True

    return attempt


def becomes_root() -> bool:
    """Whether code of the job can have the rights of root on this machine."""
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os; os.setuid(0); open('/etc/muster-hostile', 'w')",
        ],
        capture_output=True,
        check=False,
    )
    Path("/etc/muster-hostile").unlink(missing_ok=True)
    return child.returncode == 0


def has_capabilities() -> bool:
    status = Path("/proc/self/status").read_text()
    return any(
        int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(("CapPrm", "CapEff"))
    )


def gains_by_setuid() -> bool:
    """Whether a program with the setuid bit would be run with its owner's rights."""
    status = Path("/proc/self/status").read_text()
    return "NoNewPrivs:\t0" in status


def makes_user_namespace() -> bool:
    """Whether a process can have every right in a namespace of its own."""
    unshare = "import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    return subprocess.run([sys.executable, "-c", unshare], check=False).returncode == 0


def tries(attempt: Callable[[], bool]) -> bool:
    try:
        return attempt()
    except (OSError, ValueError):
        return False


def attempts() -> dict[str, Callable[[], bool]]:
    own_control = str(Path(os.environ["MUSTER_REPORT_SOCKET"]).parent.parent / "control")
    return {
        "read the administrator's token": reads(TARGETS["token"]),
        "read the agent's credential": reads(TARGETS["credential"]),
        "read the database": reads(TARGETS["database"]),
        "read another job's files": reads(TARGETS["other_file"]),
        "read another job's environment": lambda: (
            is_the_machines(TARGETS["other_pid"])
            and reads(f"/proc/{TARGETS['other_pid']}/environ")()
        ),
        "command its own shim": commands(own_control),
        "command another job's shim": commands(TARGETS["other_control"]),
        "signal its shim": signals(TARGETS["shim_pid"]),
        "signal another job": signals(TARGETS["other_pid"]),
        "trace another job": traces(TARGETS["other_pid"]),
        "write into the agent's home": writes(TARGETS["home"]),
        "write into the agent's environment": writes(TARGETS["environment"]),
        "connect to ports of this machine": connects(TARGETS["port"]),
        "become root": becomes_root,
        "keep a capability": has_capabilities,
        "gain rights by a setuid program": gains_by_setuid,
        "make a user namespace": makes_user_namespace,
    }


def wait_for_targets() -> dict[str, Any]:
    file = Path(__file__).with_name("targets.json")
    while not file.exists():
        time.sleep(0.05)
    targets: dict[str, Any] = json.loads(file.read_text())
    return targets


if __name__ == "__main__":
    print("up", flush=True)
    TARGETS = wait_for_targets()
    print(json.dumps({name: tries(attempt) for name, attempt in attempts().items()}), flush=True)
