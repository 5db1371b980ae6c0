"""A real ssh server on loopback, with keys of its own, for the user who runs the tests."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.ports import free_port
from support.stack import wait_for

_PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
_CONF = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
"""


def why_missing() -> str:
    """Why no ssh server can be started here; "" if one can."""
    missing = [
        name for name in ("sshd", "ssh", "ssh-keygen") if shutil.which(name, path=_PATH) is None
    ]
    return f"{', '.join(missing)} missing: apt-get install openssh-server" if missing else ""


class Sshd:
    """A server whose sessions see variables that a test chooses, HOME among them."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.variables = dict(variables)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> list[str]:
        """What `muster node` is told to get here."""
        return [
            f"--port={self.port}",
            f"--identity={self.folder}/key",
            f"--ssh-option=UserKnownHostsFile={self.folder}/known_hosts",
            "--ssh-option=GlobalKnownHostsFile=none",
        ]

    @property
    def host(self) -> str:
        return f"{getpass.getuser()}@127.0.0.1"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("key", "host_key", "other_key"):
            if not (self.folder / name).exists():
                self._keygen(name)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        self.know("host_key")
        lines = [_CONF.format(port=self.port, folder=self.folder)]
        given = " ".join(f'"{name}={value}"' for name, value in self.variables.items())
        lines.append(f"SetEnv {given}\n")
        (self.folder / "conf").write_text("".join(lines))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where it confines itself
        program = shutil.which("sshd", path=_PATH)
        assert program is not None
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.folder / "conf")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        process, words = self._process, self.folder / "log"

        def listens() -> bool:
            assert process.poll() is None, words.read_text()
            return "Server listening" in words.read_text()

        wait_for("sshd listens", listens, 20)

    def know(self, name: str) -> None:
        """Let clients expect this host key."""
        key = (self.folder / f"{name}.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def _keygen(self, name: str) -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)],
            check=True,
        )
