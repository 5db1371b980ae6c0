"""Start the parts of a local Muster, start again what crashes, and leave nothing behind.

Everything happens in one thread, the main one: the kernel ties a child that asked to end with its
parent (guard.py) to the thread that started it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from muster.launch import reaping
from muster.launch.forkserver import CannotFork, ForkServer
from muster_server.errors import SCHEMA_MISMATCH_EXIT
from muster_server.parts import installed
from muster_server.security.stack_secrets import new_key

from .home import (
    Home,
    LocalError,
    check_address,
    explain_os_error,
    free_port,
    held,
    hold_port,
    make_home,
    runtime_folder,
    write_private,
)
from .joining import JoinToken
from .parts import (
    HOST,
    LocalOptions,
    ProcessSpec,
    RouterPlace,
    agent_names,
    agent_parts,
    base_environment,
    find_router_binary,
    prepare_part,
    router_config,
    router_part,
    server_environment,
    server_parts,
    shared_imports,
    url_of,
    valkey_part,
)
from .processes import sweep

TICK_S = 0.1
READY_TIMEOUT_S = 120.0
RESTART_WAITS_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds to wait before the first, second, … restart in a row; the last one is repeated."""
SETTLED_S = 30.0
"""Seconds after which a running part counts as stable: the waits start over."""
START_FAILURES_MAX = 3
"""Number of exits of one part before Muster has ever been ready, after which it gives up."""
INSTANCE_HEADER = "X-Muster-Instance"
PORT_MAX = 65_535
LOG_MAX_BYTES = 10_000_000
LOG_LOOK_S = 15.0
LEFTOVER_GRACE_S = 12.0
"""Seconds that processes of an earlier, killed `muster up` have to notice."""


@dataclass(frozen=True)
class Access:
    """Addresses for a first visitor. Secrets: print them for the person at the terminal, once."""

    url: str
    """Address for browsers, also on other machines when Muster serves them."""
    local_url: str
    """Address for programs on this machine."""
    sign_in_url: str
    """Address that signs in once; the first time it makes the administrator."""
    is_first_time: bool
    cli_token: str


class Process(Protocol):
    """A child of ours, started or forked."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


@dataclass
class Running:
    part: ProcessSpec
    process: Process
    started_at: float
    num_restarts: int = 0
    restart_at: float | None = None
    """Time of the next start; None while it runs."""


def _hold_port(home: Home, options: LocalOptions) -> socket.socket:
    """Hold the port. Port 0 is that of the last start if it is free: agents keep to an address, and
    links too."""
    if options.port == 0:
        with contextlib.suppress(OSError, ValueError, KeyError, LocalError):
            port = urlsplit(json.loads(home.cli.read_text())["url"]).port
            if port:
                return hold_port(options.listen_on, port)
    return hold_port(options.listen_on, options.port)


class Supervisor:
    """Use as: `with supervise(options, say) as s: access = s.start(); s.run()`."""

    def __init__(self, home: Home, options: LocalOptions, say: Callable[[str], None]) -> None:
        self.home = home
        self.options = options
        self.say = say
        check_address(options.address)
        folder = runtime_folder(home)
        self._socket = folder / "valkey.sock"
        self._listening = _hold_port(home, options)
        self.port: int = self._listening.getsockname()[1]
        self.url = url_of(self.port)
        self.public_url = url_of(self.port, options.address)
        self._router = self._place_router(folder)
        self._instance = secrets.token_hex(8)
        self.running: dict[str, Running] = {}
        self.stop_requested = False
        self.force = False
        self._started_at = time.time()
        self._was_ready = False
        self._logs_looked_at = time.monotonic()
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._environment = base_environment(home, self._lifeline_read)
        self._fork_server: ForkServer | None = None
        self._join_token: JoinToken | None = None

    def _place_router(self, folder: Path) -> RouterPlace | None:
        """Choose where the router will run; None if HAProxy or the part that uses it is not installed. The port is that of the
        last start, or the one after the API server's, if it is free."""
        binary = find_router_binary()
        if binary is None or not any(part.has_router for part in installed()):
            return None
        known = self.home.root / "router.port"
        wanted = [self.port + 1] if self.port < PORT_MAX and self.options.port else []
        with contextlib.suppress(OSError, ValueError):
            wanted.insert(0, int(known.read_text()))
        port = free_port(self.options.listen_on, *wanted)
        write_private(known, str(port))
        return RouterPlace(binary=binary, socket=folder / "haproxy.sock", port=port)

    # ------------------------------------------------------------ start

    def start(self, while_waiting: Callable[[], None] = lambda: None) -> Access:
        """Start everything and wait for the dashboard. Raises LocalError."""
        leftovers = sweep(self.home.root, grace_s=LEFTOVER_GRACE_S)
        for process in leftovers:
            self.say(f"Stopped a process that an earlier run left behind: {process}")
        self._start_fork_server()
        if not self.home.secrets_key.exists():
            write_private(self.home.secrets_key, new_key() + "\n")
        environment = server_environment(
            self.home, self.port, self._socket, self.options, self._router
        )
        self._socket.unlink(missing_ok=True)
        self._start_part(valkey_part(self.home, self._socket, self._lifeline_read))
        own = self.options.environment.get("server", {})
        prepared = self._prepare(prepare_part({**environment, **own}))
        access = self._access(prepared)
        if prepared["join_token"] is not None:
            write_private(self.home.join_token, prepared["join_token"])
            self._join_token = JoinToken(
                prepared["join_token_id"],
                self.home.join_token,
                agents=agent_names(self.options),
                port=self.port,
                cli_token=access.cli_token,
            )
        write_private(
            self.home.cli, json.dumps({"url": self.url, "token": access.cli_token}, indent=1)
        )
        for part in server_parts(environment, self._listening.fileno(), self._instance):
            self._start_part(part)
        for part in agent_parts(self.home, self.port, self.options):
            self._start_part(part)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            if self.stop_requested:
                raise KeyboardInterrupt
            if time.monotonic() > deadline:
                raise LocalError(
                    f"The API server does not answer within {READY_TIMEOUT_S:.0f} s.",
                    f"its log: {self.home.logs / 'server.log'}",
                )
            self.tick()
            while_waiting()
            time.sleep(TICK_S)
        self._was_ready = True
        self._write_state()
        return access

    def _start_fork_server(self) -> None:
        """Begin to import the code that the parts share, where they can be forked."""
        if self.options.shares_code:
            with contextlib.suppress(OSError), self._open_log("forkserver") as log:
                self._fork_server = ForkServer(
                    shared_imports(self.options),
                    environment=self._environment,
                    output=log,
                    folder=self.home.root,
                )

    def _prepare(self, part: ProcessSpec) -> dict[str, Any]:
        """Migrate and make the tokens in a process of its own: it needs the whole server code."""
        request = {"cli_token": self._stored_cli_token(), "join_uses": self.options.num_agents}
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        with (
            os.fdopen(answer_read, "rb") as answering,
            os.fdopen(request_write, "wb") as asking,
            os.fdopen(request_read, "rb") as stdin,
            os.fdopen(answer_write, "wb") as stdout,
            self._open_log(part.name) as log,
        ):
            process = self._launch(part, stdin, stdout, log)
            stdin.close()
            stdout.close()
            with contextlib.suppress(BrokenPipeError):  # it has ended; its code says so below
                asking.write(json.dumps(request).encode())
                asking.close()
            data = answering.read()
        if process.wait() != 0:
            raise self._failure("The database cannot be prepared", part.name)
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _stored_cli_token(self) -> str | None:
        try:
            token = json.loads(self.home.cli.read_text())["token"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return token if isinstance(token, str) else None

    def _access(self, prepared: Mapping[str, Any]) -> Access:
        # The part after # never leaves the browser: no server log or proxy sees the secret.
        if prepared["setup_token"] is not None:
            link = f"{self.public_url}/setup#token={prepared['setup_token']}"
        else:
            link = f"{self.public_url}/sign-in#once={prepared['sign_in_token']}"
        return Access(
            url=self.public_url,
            local_url=self.url,
            sign_in_url=link,
            is_first_time=prepared["setup_token"] is not None,
            cli_token=prepared["cli_token"],
        )

    def _is_ready(self) -> bool:
        """Return whether our own API server is ready: one of another `muster up` does not count."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            reply = connection.getresponse()
            return reply.status == 200 and reply.getheader(INSTANCE_HEADER) == self._instance
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # ------------------------------------------------------------ run

    def run(self, each_tick: Callable[[], None] = lambda: None) -> None:
        """Watch the parts until stop is requested (signal or `request_stop`)."""
        while not self.stop_requested:
            self.tick()
            each_tick()
            time.sleep(TICK_S)

    def request_stop(self) -> None:
        self.force = self.stop_requested
        self.stop_requested = True

    def tick(self) -> None:
        """Notice what ended, and start it again when its wait is over.

        Raises LocalError for what does not start, and for what no restart can help.
        """
        reaping.collect()
        now = time.monotonic()
        changed = self._start_router()
        for entry in self.running.values():
            if entry.restart_at is None:
                code = entry.process.poll()
                if code is None:
                    continue
                self._note_end(entry, code, now)
            if entry.restart_at is not None and now >= entry.restart_at:
                entry.process = self._spawn(entry.part)
                entry.started_at = now
                entry.restart_at = None
                changed = True
        if changed and self._was_ready:
            self._write_state()
        if self._was_ready and self._join_token is not None and self._join_token.look():
            self._join_token = None
        if now - self._logs_looked_at > LOG_LOOK_S:
            self._logs_looked_at = now
            self._rotate_logs()

    def _start_router(self) -> bool:
        """Start the router when there is something to route, and return whether it was started."""
        if self._router is None or not self._was_ready or "router" in self.running:
            return False
        if not router_config(self.home).exists():
            return False
        self._start_part(router_part(self.home, self._router, self._lifeline_read))
        return True

    def _note_end(self, entry: Running, code: int, now: float) -> None:
        if now - entry.started_at > SETTLED_S:
            entry.num_restarts = 0
        if code == SCHEMA_MISMATCH_EXIT:
            raise self._failure(f"{entry.part.title} cannot go on", entry.part.name)
        wait = RESTART_WAITS_S[min(entry.num_restarts, len(RESTART_WAITS_S) - 1)]
        entry.num_restarts += 1
        entry.restart_at = now + wait
        if not self._was_ready and entry.num_restarts >= START_FAILURES_MAX:
            raise self._failure(f"{entry.part.title} does not start", entry.part.name)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        after = f" in {wait:g} s" if wait else ""
        self.say(
            f"{entry.part.title} ended ({how}); starting it again{after}. "
            f"Log: {self.home.logs / (entry.part.name + '.log')}"
        )

    def _start_part(self, part: ProcessSpec) -> None:
        self.running[part.name] = Running(part, self._spawn(part), time.monotonic())

    def _spawn(self, part: ProcessSpec) -> Process:
        with self._open_log(part.name) as log, Path(os.devnull).open("rb") as nothing:
            return self._launch(part, nothing, log, log)

    def _launch(
        self, part: ProcessSpec, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> Process:
        """Fork the part from the fork server where it is made of shared code, else start it anew. It
        gets a session of its own: Ctrl-C is for us alone, we stop the parts in order."""
        own = self.options.environment.get(part.name, {})
        environment = {**self._environment, **part.environment, **own}
        descriptors = (self._lifeline_read, *part.descriptors)
        # Other variables may be for the interpreter or a library, which read them when they start.
        if (
            self._fork_server is not None
            and part.module
            and all(k.startswith("MUSTER_") for k in own)
        ):
            try:
                return self._fork_server.spawn(
                    part.module,
                    environment=environment,
                    folder=self.home.root,
                    stdin=stdin.fileno(),
                    stdout=stdout.fileno(),
                    stderr=stderr.fileno(),
                    descriptors=descriptors,
                )
            except CannotFork:  # its log says why; it only makes starting cheaper
                self._close_fork_server()
        return subprocess.Popen(
            list(part.command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=self.home.root,
            pass_fds=descriptors,
            start_new_session=True,
        )

    def _close_fork_server(self) -> None:
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None

    def _write_state(self) -> None:
        parts = [(name, e.part.title, e.process.pid) for name, e in self.running.items()]
        if self._fork_server is not None:
            parts.append(("forkserver", "Shared code", self._fork_server.pid))
        state = {
            "pid": os.getpid(),
            "url": self.url,
            "started_at": self._started_at,
            "parts": [{"name": name, "title": title, "pid": pid} for name, title, pid in parts],
        }
        with contextlib.suppress(OSError):  # a full disk must not take the parts down
            write_private(self.home.state, json.dumps(state, indent=1))

    # ------------------------------------------------------------ logs

    def _open_log(self, name: str) -> IO[bytes]:
        return (self.home.logs / f"{name}.log").open("ab")

    def _rotate_logs(self) -> None:
        """Keep one older file. The parts append, so emptying a file under them is safe."""
        for path in self.home.logs.glob("*.log"):
            try:
                if path.stat().st_size > LOG_MAX_BYTES:
                    data = path.read_bytes()
                    path.with_suffix(".log.1").write_bytes(data)
                    os.truncate(path, 0)
            except OSError:
                continue

    def _failure(self, what: str, log_name: str) -> LocalError:
        path = self.home.logs / f"{log_name}.log"
        try:
            lines = [x for x in path.read_text(errors="replace").splitlines() if x.strip()]
        except OSError:
            lines = []
        last = f": {lines[-1].strip()[:300]}" if lines else "."
        return LocalError(f"{what}{last}", f"the whole log: {path}")

    # ------------------------------------------------------------ stop

    def stop(self) -> None:
        """End everything, a line per part, and make sure that nothing is left."""
        agents = [n for n in self.running if n.startswith("agent-")]
        for group in (agents, ["router"], ["worker", "controller"], ["server"], ["valkey"]):
            self._stop_group([self.running[n] for n in group if n in self.running])
        self._close_fork_server()
        self._listening.close()
        # Training processes outlive their agent on purpose; without the lifeline they end too.
        os.close(self._lifeline_write)
        killed = sweep(self.home.root, grace_s=0.5 if self.force else LEFTOVER_GRACE_S)
        for process in killed:
            self.say(f"Killed {process}")
        self.home.state.unlink(missing_ok=True)
        self._socket.unlink(missing_ok=True)
        if self._router is not None:
            self._router.socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._socket.parent.rmdir()
        self.say("Nothing is left running.")

    def _stop_group(self, entries: list[Running]) -> None:
        alive = [e for e in entries if e.process.poll() is None]
        for entry in alive:
            entry.process.terminate()
        started = time.monotonic()
        for entry in alive:
            limit = 0.5 if self.force else entry.part.stop_s
            while entry.process.poll() is None and time.monotonic() < started + limit:
                if self.force:
                    limit = min(limit, 0.5)
                time.sleep(0.02)
            took = time.monotonic() - started
            if entry.process.poll() is None:
                entry.process.kill()
                entry.process.wait()
                self.say(f"{entry.part.title}: killed after {took:.1f} s")
            else:
                self.say(f"{entry.part.title}: stopped ({took:.1f} s)")

    def close(self) -> None:
        os.close(self._lifeline_read)


@contextlib.contextmanager
def supervise(options: LocalOptions, say: Callable[[str], None]) -> Iterator[Supervisor]:
    """A supervisor that holds the home folder, hears signals, and stops everything at the end.

    Raises LocalError for whatever keeps Muster from starting.
    """
    home = make_home(options.root)
    with held(home):
        supervisor = Supervisor(home, options, say)
        handlers = {
            number: signal.signal(number, lambda *_: supervisor.request_stop())
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            yield supervisor
        except OSError as error:
            raise explain_os_error(error, home.root) from error
        finally:
            supervisor.stop_requested = True
            supervisor.stop()
            supervisor.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
