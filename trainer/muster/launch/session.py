"""The process of a `session:` job: starts the server somebody works with, and ends when it is idle.

The server listens on 127.0.0.1, where agents connect users through tunnels; whoever else is on the node
needs its secret. Port and secret are in a file that only the job reads: `muster session` asks for it by
a command inside the job, which needs the right to enter it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import muster
from muster.document.codec import load
from muster.document.session import SessionKind, SessionSection
from muster.durations import duration_s
from muster.launch.session_activity import ActivityProbe, SessionActivity, idle_since
from muster.launch.variables import SESSION_DIR_VARIABLE
from muster.sdk.run import Run

ADDRESS_FILE = "address.json"
"""File with the port and the secret of the server, in the folder of the session."""
EXIT_NO_SERVER = 2
"""Exit code where another attempt would not help: the server is not installed."""
START_S = 120.0
"""Seconds that a server has until it listens."""
STOP_S = 5.0
LOOK_S = 10.0
"""Seconds between two looks at what goes on; less for a session that ends sooner."""
REPORT_S = 60.0
TICK_S = 0.2


class CannotServe(Exception):
    """The server of a session does not start; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class SessionServer:
    """The server of a session, and how it is reached."""

    argv: list[str]
    variables: Mapping[str, str]
    """Variables of the server beside those of the job."""


def server_of(kind: SessionKind, *, port: int, token: str) -> SessionServer | None:
    """Return the server of a kind of session; None for a shell, which needs none. Raises CannotServe."""
    if kind == "shell":
        return None
    if kind == "ssh":
        if find_spec("asyncssh") is None:
            raise CannotServe(
                "The job's Python has no asyncssh, which serves ssh: add `asyncssh` to environment.requirements."
            )
        argv = [sys.executable, "-m", "muster.launch.session_ssh", str(port)]
        return SessionServer(argv=argv, variables={})
    if kind == "jupyter":
        module = next((m for m in ("jupyterlab", "jupyter_server") if find_spec(m)), None)
        if module is None:
            raise CannotServe(
                "The job's Python has no Jupyter: add `jupyterlab` to environment.requirements."
            )
        argv = [sys.executable, "-m", module, "--no-browser", "--ServerApp.ip=127.0.0.1"]
        argv += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        argv += ["--ServerApp.allow_root=True", f"--ServerApp.root_dir={Path.cwd()}"]
        # Not an argument: everybody on the node can read those.
        return SessionServer(argv=argv, variables={"JUPYTER_TOKEN": token})
    program = shutil.which("code-server")
    if program is None:
        raise CannotServe(
            "code-server is not on the job's PATH: install it on the nodes, or name an image that has it."
        )
    argv = [program, f"--bind-addr=127.0.0.1:{port}", "--auth=password", "--disable-telemetry"]
    return SessionServer(argv=[*argv, str(Path.cwd())], variables={"PASSWORD": token})


def main() -> int:
    run = muster.init()
    signal.signal(signal.SIGTERM, lambda *_: run.request_stop("received SIGTERM"))
    section = load(SessionSection, run.get_config()["session"])
    port, token = 0, secrets.token_urlsafe(32)
    try:
        if section.kind != "shell":
            port = _free_port()
        server = server_of(section.kind, port=port, token=token)
        with _running(server) as process:
            _await_listener(run, process, port)
            _publish({"kind": section.kind, "port": port, "token": token})
            return _watch(run, section, process, port, token)
    except CannotServe as error:
        run.message(str(error), "error")
        print(f"muster: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_NO_SERVER


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def _running(server: SessionServer | None) -> Iterator[subprocess.Popen[bytes] | None]:
    if server is None:
        yield None
        return
    process = subprocess.Popen(server.argv, env={**os.environ, **server.variables})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _await_listener(run: Run, process: subprocess.Popen[bytes] | None, port: int) -> None:
    """Wait until the server listens. Raises CannotServe."""
    deadline = time.monotonic() + START_S
    while process is not None and run.reporter.stop_notice is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), TICK_S):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise CannotServe("The server of the session did not start; the log says why.")
        time.sleep(TICK_S)


def _publish(address: Mapping[str, object]) -> None:
    folder = Path(os.environ[SESSION_DIR_VARIABLE])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f"{ADDRESS_FILE}.part"
    part.touch(mode=0o600)
    part.write_text(json.dumps(address))
    part.replace(folder / ADDRESS_FILE)


def _watch(
    run: Run,
    section: SessionSection,
    process: subprocess.Popen[bytes] | None,
    port: int,
    token: str,
) -> int:
    """Wait until the session is idle, its server ends, or it is asked to stop; return the exit code."""
    limit_s = duration_s(section.idle)
    assert limit_s is not None, "checked with the submission"
    probe = ActivityProbe(port=port, token=token, is_jupyter=section.kind == "jupyter")
    every_s = min(LOOK_S, limit_s / 5)
    now = time.monotonic()
    since: float | None = now
    looks_at = reports_at = now
    print(f"Ready. Ends when nothing has gone on for {section.idle}.", flush=True)  # noqa: T201
    step = 0
    while True:
        if run.reporter.stop_notice is not None:
            run.reporter.acknowledge_stop()
            return 0
        if process is not None and (code := process.poll()) is not None:
            print(f"The server of the session has ended with {code}.", flush=True)  # noqa: T201
            return code if code >= 0 else 128 - code
        now = time.monotonic()
        if now >= looks_at:
            looks_at = now + every_s
            activity, before = probe.look(), since
            since = idle_since(since, activity, now)
            if (since is None) != (before is None) or now >= reports_at:
                step, reports_at = step + 1, now + REPORT_S
                _report(run, activity, 0.0 if since is None else now - since, step)
            if since is not None and now - since >= limit_s:
                reason = f"Nothing has gone on in this session for {section.idle}, so it has ended."
                run.message(reason)
                print(reason, flush=True)  # noqa: T201
                return 0
        time.sleep(TICK_S)


def _report(run: Run, activity: SessionActivity, idle_s: float, step: int) -> None:
    run.log(
        {
            "session/in_use": float(activity.is_in_use),
            "session/idle_s": idle_s,
            "session/connections": activity.num_connections + activity.num_terminals,
            "session/busy_kernels": activity.num_busy_kernels,
            "session/cpus": activity.cpus,
            "session/device_percent": activity.device_percent,
        },
        step=step,
    )


if __name__ == "__main__":
    sys.exit(main())
