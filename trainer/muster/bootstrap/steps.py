"""Install, upgrade and remove the agent of a machine, step by step.

Every step may be done again. One that fails says which it is, what the machine said, and what to do.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.shell import Answer, PosixShell, ShellUnreachable

from . import programs
from .machine import RemoteMachine, choose_python, explain_ssh, find_obstacle, read_machine
from .wheel import NAME, build_wheel

CONNECT_S = 120.0
"""Time for the first connection, in which somebody may have to type a password."""
COPY_S = 600.0
INSTALL_S = 900.0
LOOK_EVERY_S = 2.0


class StepFailed(Exception):
    """A step has failed: which one, on which machine, what was said, and what to do."""

    def __init__(self, step: str, host: str, message: str, hint: str) -> None:
        super().__init__(f"{step} on {host}: {message}")
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Destination:
    """How a machine is reached."""

    host: str
    """What ssh takes: user@host, or a name of ~/.ssh/config."""
    port: int | None = None
    identity: str = ""
    """File of a private key; "" for what ssh chooses."""
    options: tuple[str, ...] = ()
    """Further options of ssh: `ProxyJump=gate`."""


@contextmanager
def connect(to: Destination) -> Iterator[Remote]:
    """Yield a connection that all steps share. ssh may ask for a password where there is a terminal."""
    with tempfile.TemporaryDirectory(prefix="muster-ssh-") as folder:
        options = ["-o", "ControlMaster=auto", "-o", f"ControlPath={folder}/%C"]
        options += ["-o", "ControlPersist=60", "-o", "ConnectTimeout=15"]
        if not sys.stdin.isatty():
            options += ["-o", "BatchMode=yes"]
        if to.port is not None:
            options += ["-p", str(to.port)]
        if to.identity:
            options += ["-i", str(Path(to.identity).expanduser()), "-o", "IdentitiesOnly=yes"]
        for option in to.options:
            options += ["-o", option]
        try:
            yield Remote(to.host, PosixShell(to.host, tuple(options)))
        finally:
            subprocess.run(
                ["ssh", *options, "-O", "exit", "--", to.host],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=15,
                check=False,
            )


class Remote:
    """A machine at the other end of ssh."""

    def __init__(self, host: str, shell: PosixShell) -> None:
        self.host = host
        self._shell = shell

    def probe(self, python: str = "") -> RemoteMachine:
        """Return what is on the machine. Raises StepFailed."""
        answer = self._run("connecting", programs.probe(python), timeout_s=CONNECT_S)
        return read_machine(answer.output)

    def check(self, machine: RemoteMachine, python: str = "") -> None:
        """Raise StepFailed if something keeps an agent from the machine."""
        obstacle = find_obstacle(machine, python)
        if obstacle is not None:
            raise StepFailed("checking", self.host, obstacle.message, obstacle.hint)

    def install(self, machine: RemoteMachine, wheels: Path | None) -> str:
        """Install the agent of this version; return the digest of its wheel. Does nothing if it is
        there. wheels: folder with the wheels that it depends on; None for the machine's package index.
        """
        wheel = build_wheel()
        digest = hashlib.sha256(wheel).hexdigest()
        if machine.digest == digest:
            return digest
        archive = _pack({NAME: wheel}, wheels)
        self._run(
            "copying", programs.unpack(), data=archive, timeout_s=COPY_S,
            hint="make room on the machine, or see what it says",
        )  # fmt: skip
        program = programs.install(
            digest=digest,
            wheel=NAME,
            extras="agent,gpu" if machine.has_gpus else "agent",
            python=choose_python(machine),
            uv=machine.uv,
            is_offline=wheels is not None,
        )
        hint = (
            "the folder of --wheels must have all that the agent depends on, for the machine's Python"
            if wheels is not None
            else "the machine needs a package index; without one, give the wheels with --wheels"
        )
        self._run("installing", program, timeout_s=INSTALL_S, hint=hint)
        return digest

    def reach(self, url: str) -> None:
        """Raise StepFailed if the machine does not reach the server."""
        self._run(
            f"reaching {url}",
            programs.reach(url),
            hint="give an address that the machine reaches with --server-url; muster up serves other "
            "machines with --address",
        )

    def configure(self, *, node: str, settings: str, token: str) -> None:
        program = programs.configure(node=node, settings=settings, token=token)
        self._run("writing the settings", program)

    def start(self, machine: RemoteMachine) -> bool:
        """Start the agent, or start it again; return whether it ends when its user logs out."""
        program = programs.start(
            has_user_units=machine.has_user_units, has_linger=machine.has_linger
        )
        return "linger" in self._run("starting", program, timeout_s=60.0).output

    def wait(self, is_online: Callable[[], bool], *, timeout_s: float) -> None:
        """Wait until the node is online. Raises StepFailed with the agent's last words if it ends, or
        takes longer."""
        deadline = time.monotonic() + timeout_s
        looked_at = time.monotonic()
        while not is_online():
            now = time.monotonic()
            if now - looked_at >= LOOK_EVERY_S:
                looked_at = now
                hint = "see why in what it says, and run the same command again"
                self._run("waiting for the node", programs.look(), hint=hint)
            if now > deadline:
                raise StepFailed(
                    "waiting for the node",
                    self.host,
                    f"its agent runs, but the node is not online after {timeout_s:.0f} s",
                    "see ~/.muster/node/agent.log there, or journalctl --user -u muster-agent",
                )
            time.sleep(0.3)
        self._run("tidying up", programs.forget_token())

    def stop(self) -> None:
        hint = "end it there by hand, and run the same command again"
        self._run("stopping the agent", programs.stop(), timeout_s=60.0, hint=hint)

    def remove(self) -> None:
        self._run("removing the files", programs.remove(), timeout_s=120.0)

    def _run(
        self,
        step: str,
        program: str,
        *,
        data: bytes | None = None,
        timeout_s: float = 30.0,
        hint: str = "",
    ) -> Answer:
        try:
            answer = self._shell.run(program, data=data, timeout_s=timeout_s)
        except ShellUnreachable as error:
            raise StepFailed(step, self.host, f"ssh: {error}", explain_ssh(str(error))) from None
        if answer.code != 0:
            words = answer.error or f"the command ended with code {answer.code}"
            hint = hint or "see what the machine says, and run the same command again"
            raise StepFailed(step, self.host, words, hint)
        return answer


def _pack(files: dict[str, bytes], folder: Path | None) -> bytes:
    """Return an archive of files and of the wheels in a folder. Raises LookupError if it has none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        if folder is not None:
            wheels = sorted(folder.glob("*.whl"))
            if not wheels:
                raise LookupError(f"{folder} has no wheels (*.whl)")
            for path in wheels:
                if not path.name.startswith("muster_train-"):
                    archive.add(path, path.name, filter=_without_owner)
    return buffer.getvalue()


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid, entry.gid = os.getuid(), os.getgid()
    entry.uname = entry.gname = ""
    return entry
