"""What is on a machine, and what of that keeps an agent from it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_FREE_BYTES = 1 << 30
"""The agent, what it depends on, and room for the first trial."""
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, kw_only=True)
class Python:
    path: str
    version: tuple[int, ...]
    has_venv: bool
    """Whether it can make virtual environments by itself."""

    @property
    def words(self) -> str:
        return f"{self.path} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True, kw_only=True)
class RemoteMachine:
    """What a machine has said of itself."""

    system: str
    name: str
    user: str
    home: str
    pythons: tuple[Python, ...] = ()
    uv: str = ""
    free_bytes: int = 0
    has_user_units: bool = False
    """Whether systemd runs services of this user."""
    has_linger: bool = False
    """Whether these go on after the user has logged out."""
    has_gpus: bool = False
    digest: str = ""
    """Digest of the wheel that is installed; "" if none is."""
    node: str = ""
    """Name of the node that the installed agent is."""
    has_credential: bool = False
    is_running: bool = False
    stored_bytes: int = 0
    """Size of the checkpoints and outputs in the agent's own storage folder; 0 if it has no file."""
    settings: str = ""
    """The agent's settings, as they were written."""

    @property
    def folder(self) -> str:
        return f"{self.home}/.muster/node"

    @property
    def is_installed(self) -> bool:
        return bool(self.digest or self.node)


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """What is in the way, and what to do."""

    message: str
    hint: str


def read_machine(text: str) -> RemoteMachine:
    """Read the lines that the program `probe` prints. What is missing or no number counts as none."""
    values: dict[str, str] = {}
    pythons = []
    settings = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "python":
            found = _read_python(value)
            if found is not None:
                pythons.append(found)
        elif key == "setting":
            settings.append(value)
        else:
            values[key] = value.strip()

    def size(key: str) -> int:
        text = values.get(key, "")
        return int(text) * 1024 if text.isdigit() else 0

    return RemoteMachine(
        system=values.get("system", ""),
        name=values.get("name", "").split(".")[0],
        user=values.get("user", ""),
        home=values.get("home", ""),
        pythons=tuple(pythons),
        uv=values.get("uv", ""),
        free_bytes=size("free_kib"),
        stored_bytes=size("stored_kib"),
        has_user_units=values.get("systemd", "") in ("running", "degraded", "starting"),
        has_linger=values.get("linger") == "yes",
        has_gpus=bool(values.get("nvidia")),
        digest=values.get("digest", ""),
        node=values.get("node", ""),
        has_credential=values.get("joined") == "yes",
        is_running=values.get("running") == "yes",
        settings="".join(f"{line}\n" for line in settings),
    )


def _read_python(text: str) -> Python | None:
    path, _, rest = text.strip().partition(" ")
    version, _, venv = rest.partition(" ")
    if not re.fullmatch(r"\d+(\.\d+){1,2}", version):
        return None
    numbers = tuple(int(part) for part in version.split("."))
    return Python(path=path, version=numbers, has_venv=venv.strip() == "venv")


def find_obstacle(machine: RemoteMachine, wanted_python: str = "") -> Obstacle | None:
    """Return the first thing that keeps an agent from being installed; None if nothing does.

    wanted_python: the interpreter that somebody named; "" to look for one.
    """
    if machine.system != "Linux":
        return Obstacle(
            message=f"it runs {machine.system or 'an unknown system'}",
            hint="agents are installed on Linux alone; elsewhere, install and start one by hand",
        )
    if not machine.home.startswith("/"):
        return Obstacle(
            message=f"{machine.user} has no home folder there",
            hint="log in as a user that has one",
        )
    if machine.free_bytes < LEAST_FREE_BYTES:
        return Obstacle(
            message=f"{machine.home} has {machine.free_bytes / 2**20:.0f} MiB free, and an agent "
            f"needs {LEAST_FREE_BYTES / 2**20:.0f} MiB",
            hint="make room there, or log in as a user whose home is on another disk",
        )
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if wanted_python and not machine.pythons:
        return Obstacle(
            message=f"{wanted_python} is no Python there",
            hint="name another one with --with-python",
        )
    fitting = [python for python in machine.pythons if python.version >= OLDEST_PYTHON]
    if not fitting and (wanted_python or not machine.uv):
        found = ", ".join(python.words for python in machine.pythons) or "none"
        return Obstacle(
            message=f"there is no Python {oldest} or later; found {found}",
            hint=f"install python{oldest} and python{oldest}-venv there, or uv, which brings a Python; "
            "name one that is not on the PATH with --with-python",
        )
    if not machine.uv and not any(python.has_venv for python in fitting):
        version = ".".join(map(str, fitting[0].version[:2]))
        return Obstacle(
            message=f"{fitting[0].path} cannot make virtual environments",
            hint=f"install python{version}-venv there (Debian, Ubuntu), or uv",
        )
    return None


def choose_python(machine: RemoteMachine) -> str:
    """Return the interpreter for the agent; "" if uv is to bring one."""
    fitting = [python for python in machine.pythons if python.version >= OLDEST_PYTHON]
    usable = [python for python in fitting if python.has_venv or machine.uv]
    return usable[0].path if usable else ""


def explain_ssh(words: str) -> str:
    """Return what to do about what ssh said."""
    for part, hint in _SSH_HINTS.items():
        if part in words:
            return hint
    return "try the same with ssh itself"


_SSH_HINTS: Mapping[str, str] = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "its host key is another one than before: find out why, "
    "then remove the old one with ssh-keygen -R HOST",
    "Host key verification failed": "its host key is not known: run ssh HOST once, and compare the "
    "fingerprint that it shows",
    "Permission denied": "no key was accepted: name one with --identity, or copy yours with ssh-copy-id",
    "Could not resolve hostname": "there is no such host: check its name",
    "Connection refused": "no ssh server listens there: check --port",
    "timed out": "the machine does not answer: check its address, --port and firewalls",
    "No route to host": "there is no way to the machine: check its address",
    "no answer within": "the machine does not answer, or ssh waits for something: try ssh itself",
}


SETTING = re.compile(r"[A-Za-z0-9_./:@+,=%\[\]-]*")
"""What a value of an agent's setting may hold: it is read by a shell and by systemd."""


def write_settings(settings: Mapping[str, str]) -> str:
    """Return settings as lines that a shell and systemd read alike. Raises ValueError that names one
    that they would not."""
    lines = []
    for name, value in settings.items():
        if not value:
            continue
        if not SETTING.fullmatch(value):
            raise ValueError(
                f"{value[:80]!r} has characters other than letters, digits and _./:@+,=%[]-"
            )
        lines.append(f'MUSTER_AGENT_{name.upper()}="{value}"\n')
    return "".join(lines)
