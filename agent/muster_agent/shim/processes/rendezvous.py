"""The gang's rendezvous, and the folder of the shim's sockets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from muster import wire
from muster_agent.jobs.exits import signal_name
from muster_agent.jobs.folder import SOCKET_DIR_PREFIX, AllocationFolder, ShimOptions
from muster_agent.jobs.launch import LaunchContext
from muster_agent.jobs.process import Cgroup, Child, Children
from muster_agent.records.logs import tail
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.processes.confinement import Confinement
from muster_agent.shim.processes.ports import PortLease, lease_port

WARM_STORE_TIMEOUT_S = 1.0
"""Seconds for a warm parent to fork the store, which a new process takes about as long for."""
STORE_START_TIMEOUT_S = 180.0
"""Seconds for the store to tell its port: Python may start from a cold shared disk, or in a container."""

_MAX_SOCKET_PATH_BYTES = 100
JOB_SOCKETS = "job"
"""Part of the socket folder that a job may see: not the shim's control socket."""


class RendezvousHost:
    """The rendezvous that this node hosts: a store for torchruns, or a leased port for plain
    workers."""

    def __init__(
        self, spec: wire.AllocationSpec, options: ShimOptions, folder: AllocationFolder
    ) -> None:
        self._run_id = f"muster-{spec.trial_id}.{spec.attempt_no}"
        self._host = options.node_address
        self._warm_socket = options.warm_socket
        self._folder = folder
        self._words = folder.logs / "launcher" / "rendezvous.log"
        self._lease: PortLease | None = None
        self._leased_port = 0
        self._store: Child | None = None
        self._stdin: IO[bytes] | None = None
        self._stdout: IO[bytes] | None = None
        self._said = b""
        self._give_up_at = 0.0
        self._failure = ""
        self._is_closed = False
        self._start_cold: Callable[[], None] | None = None
        """Starts a store as a new process; None where the store is one."""

    @property
    def store_pid(self) -> int:
        """Return the pid of the store; 0 if this node hosts none."""
        return self._store.pid if self._store is not None else 0

    @property
    def leased_port(self) -> int:
        """Port that was leased for rank 0's worker; 0 for none."""
        return self._leased_port

    def lease(self, host: str) -> wire.Rendezvous:
        """Lease a port that rank 0's worker will bind itself. Raises NoPortFree."""
        self._lease = lease_port(host)
        self._leased_port = self._lease.port
        return wire.Rendezvous(host=host, port=self._lease.port, run_id=self._run_id)

    def start_store(
        self,
        place: LaunchContext,
        children: Children,
        cgroup: Cgroup | None,
        confinement: Confinement,
    ) -> None:
        """Start the store, forked from a warm parent if there is one. Raises PrepareFailed."""
        self._give_up_at = time.monotonic() + WARM_STORE_TIMEOUT_S
        self._start_cold = lambda: self._start_process(place, children, cgroup, confinement)
        # What is forked would be outside the walls.
        if confinement.is_on or not self._warm_socket or not self._ask_parent(children, cgroup):
            self._start_cold()

    def _ask_parent(self, children: Children, cgroup: Cgroup | None) -> bool:
        """Ask a warm parent for the store; see muster.launch.warm. Return whether it can be asked."""
        request = {
            "store": self._host,
            "own": children.marks,
            "cgroup": str(cgroup.path) if cgroup is not None else "",
        }
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(self._warm_socket)
                connection.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                return False
            connection.setblocking(False)
            self._stdin = None
            self._stdout = cast(IO[bytes], connection.makefile("rb", 0))
        self._store = Child(0)
        return True

    def _start_process(
        self,
        place: LaunchContext,
        children: Children,
        cgroup: Cgroup | None,
        confinement: Confinement,
    ) -> None:
        """Start `muster.launch.rendezvous`, which binds port 0. Raises PrepareFailed."""
        self._start_cold = None
        environment = dict(place.inherited)
        if place.sdk_path:
            environment["PYTHONPATH"] = place.sdk_path
        stdin_read, stdin_write = os.pipe()
        stdout_read, stdout_write = os.pipe()
        os.set_blocking(stdout_read, False)
        self._stdin, self._stdout = os.fdopen(stdin_write, "wb"), os.fdopen(stdout_read, "rb", 0)
        argv = [place.python, "-m", "muster.launch.rendezvous", "--host", self._host]
        fds: tuple[int, ...] = ()
        try:
            with contextlib.ExitStack() as stack:
                stderr = stack.enter_context(self._words.open("ab"))
                if confinement.is_on:
                    helper = confinement.helper(argv, environment, place)
                    argv, environment, fds = stack.enter_context(helper)
                self._store, _ = children.start(
                    argv,
                    environment=environment,
                    folder=self._folder.path,
                    stdin=stdin_read,
                    stdout=stdout_write,
                    stderr=stderr,
                    cgroup=cgroup,
                    pass_fds=fds,
                    shields=True,
                )
        except OSError as error:
            raise PrepareFailed(
                f"the rendezvous host could not be started: {error}", blames="node"
            ) from error
        finally:
            os.close(stdin_read)
            os.close(stdout_write)
        self._give_up_at = time.monotonic() + STORE_START_TIMEOUT_S

    def find_store(self) -> wire.Rendezvous | None:
        """Return the address of the store; None while it starts. Raises PrepareFailed if it does
        not start."""
        assert self._stdout is not None
        assert self._store is not None
        read = self._stdout.read(4096)
        self._said += read or b""
        if self._said.endswith(b"\n"):
            told = json.loads(self._said)
            port = int(told["port"])
            if self._start_cold is not None:
                self._store = Child(int(told["pid"]))
            return wire.Rendezvous(host=self._host, port=port, run_id=self._run_id)
        if self._start_cold is not None:
            if read == b"" or time.monotonic() > self._give_up_at:
                self._stdout.close()  # Then a parent that is late ends what it has forked.
                self._start_cold()
            return None
        if self._store.has_ended or time.monotonic() > self._give_up_at:
            words = self._last_words() or "it did not answer in time"
            raise PrepareFailed(
                f"the rendezvous host did not come up: {words}",
                blames="node",
                passes=not self._store.has_ended,
            )
        return None

    def failure(self) -> str:
        """Return why the store has failed before it was closed, as a clause; "" if it has not."""
        if self._start_cold is not None and not self._is_closed:
            assert self._stdout is not None
            assert self._store is not None
            if self._stdout.read(1) == b"":
                self._store.signal = self._store.signal or signal.SIGKILL
        if self._is_closed or self._store is None or not self._store.status:
            return self._failure
        status = self._store.status
        how = (
            f"exited with code {status}" if status > 0 else f"was killed by {signal_name(-status)}"
        )
        words = self._last_words()
        return f"the rendezvous host {how}" + (f": {words}" if words else "")

    def _last_words(self) -> str:
        return (tail(self._words).strip().splitlines() or [""])[-1]

    def close(self) -> None:
        """End the store and release the port."""
        self._failure, self._is_closed = self.failure(), True
        for pipe in (self._stdin, self._stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if self._lease is not None:
            self._lease.release()
            self._lease = None


def make_socket_dir() -> Path:
    """Create a private folder with a path short enough for a socket's address, and in it
    JOB_SOCKETS."""
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108
        if len(os.fsencode(parent)) + len(SOCKET_DIR_PREFIX) + 24 < _MAX_SOCKET_PATH_BYTES:
            made = Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX, dir=parent))
            (made / JOB_SOCKETS).mkdir(mode=0o700)
            return made
    raise OSError(f"the temporary folder {tempfile.gettempdir()} has too long a path for sockets")
