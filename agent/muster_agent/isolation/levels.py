"""What a job may touch: the argument lists that start its processes behind walls. Pure.

`sandbox` is bubblewrap: the job has a file system, processes and System V objects of its own, and
the network of the host. `user` is another user id without any privilege, with a /tmp of its own and
only its own processes in /proc. An agent that runs as root does both at once for `sandbox`. A job that
names an image is in a container instead; see muster_agent.isolation.containers.

The exact commands are pinned by golden tests; the traps behind their order are in
docs/decisions/0013-a-job-runs-in-one-sandbox.md.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from muster.launch import userns
from muster.wire import IsolationLevel
from muster_agent.isolation.containers import Container, run_argv

PRIVATE_FOLDERS = ("tmp", "run", "var", "home", "root")
"""Folders in / of which a sandbox has its own, empty ones: those of other users and services."""
OWN_FOLDERS = ("proc", "dev", "sys", "boot", "lost+found")
"""Folders in / that a sandbox makes itself, or has no use for."""
UID_NUMBERS = 100_000
"""Number of user ids that an agent uses, from its setting `uid_base` on."""

_PATHS_OF_SERVICES = ("/run/systemd/resolve", "/run/nvidia-persistenced", "/run/resolvconf")
"""Folders of /run that programs need: /etc/resolv.conf often leads into one of them."""


@dataclass(frozen=True, kw_only=True)
class RootEntry:
    """One name in / of this machine."""

    name: str
    target: str = ""
    """What the name links to, for a symbolic link such as /bin; "" for a folder."""


@dataclass(frozen=True, kw_only=True)
class Walls:
    """What one allocation's processes may touch."""

    level: IsolationLevel
    uid: int | None = None
    """User and group that they run as; None for the agent's. Needs an agent that runs as root."""
    groups: tuple[int, ...] = ()
    """Further groups, such as those that own the devices."""
    root: tuple[RootEntry, ...] = ()
    """Everything in / of this machine."""
    hidden: tuple[str, ...] = ()
    """Folders of which nothing is seen but what `read` and `write` name: the agent's home, for
    example. Only a sandbox hides folders."""
    read: tuple[str, ...] = ()
    """Existing paths that can be read, wherever they lie."""
    write: tuple[str, ...] = ()
    """Existing paths that can be written, wherever they lie."""
    devices: tuple[str, ...] = ()
    """Device files of the allocation's slots."""
    tmp: str = ""
    """Existing folder that stands at /tmp: on a disk, so that it takes no memory."""
    user_namespaces: bool = False
    """Whether its processes may make user namespaces of their own."""
    container: Container | None = None
    """The container that stands for all walls; None where the job names no image."""
    own_uid: int = 0
    """The agent's user."""

    @property
    def inner_uid(self) -> int:
        """Return the user in the container."""
        assert self.container is not None
        return self.container.engine.user(self.uid, own=self.own_uid)


def enter(walls: Walls, argv: Sequence[str], *, status_fd: int | None = None) -> list[str]:
    """Return the command that runs `argv` behind the walls.

    status_fd: open descriptor on which bubblewrap tells the pids and the exit code; only of a
        sandbox.
    """
    if walls.container is not None:
        return run_argv(
            walls.container,
            argv,
            user=walls.inner_uid,
            is_confined=walls.level != "none",
            read=walls.read,
            write=walls.write,
            tmp=walls.tmp,
            devices=walls.devices,
        )
    inside = [*_as_user(walls), *argv]
    if walls.level == "sandbox":
        return [*_bwrap(walls, status_fd), "--", *inside]
    if walls.level == "user":
        return [
            "unshare", "--mount", "--propagation", "private", "--",
            "sh", "-c", _mounts(walls) + 'exec "$@"', "sh", *inside,
        ]  # fmt: skip
    return list(argv)


def enter_running(
    walls: Walls, argv: Sequence[str], *, pid: int, program: Sequence[str]
) -> list[str]:
    """Return the command that runs `argv` behind the walls that a running process is behind.

    pid: that process. program: how to run muster.launch.entering.
    """
    request = {
        "pid": pid, "level": walls.level, "uid": walls.uid, "groups": list(walls.groups),
    }  # fmt: skip
    return [*program, json.dumps(request), "--", *argv]


def uid_of(project_id: int, *, base: int) -> int:
    """Return the user id of a project's jobs: the same on every node with the same `base`."""
    return base + project_id % UID_NUMBERS


def is_within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or lies below it. Both are absolute and normalized."""
    return PurePosixPath(path).is_relative_to(folder)


def refusal(path: str, *, protected: Iterable[str]) -> str:
    """Return why a job may not be given the folder that its document names, as a clause; "" if it
    may.

    A document can name any path. A sandbox must not open for it what it is there to close: the
    folders of the agent and of the server, and the hidden files and whole homes of people.
    """
    for folder in protected:
        if is_within(path, folder):
            return f"it lies in {folder}, which Muster keeps from jobs"
    parts = PurePosixPath(path).parts
    is_home = len(parts) <= (2 if parts[1:2] == ("root",) else 3)
    if len(parts) < 2:
        return "it is the whole file system"
    if parts[1] in PRIVATE_FOLDERS and parts[1] != "tmp" and is_home:
        return "it is a whole home or a folder of the system"
    if any(part.startswith(".") for part in parts[1:]):
        return "it lies in a hidden folder, where programs keep keys and passwords"
    return ""


def is_seen(path: str, *, hidden: Iterable[str], opened: Iterable[str]) -> bool:
    """Return whether a sandbox shows what lies at this path of the machine, an absolute and
    normalized one: the innermost folder around it that is hidden or opened decides."""
    shown = set(opened)
    closed = {*hidden, *(f"/{name}" for name in (*PRIVATE_FOLDERS, *OWN_FOLDERS))}
    for folder in (path, *map(str, PurePosixPath(path).parents)):
        if folder in shown or folder in closed:
            return folder in shown
    return True


def _as_user(walls: Walls) -> list[str]:
    if walls.uid is None:
        return []
    uid = str(walls.uid)
    groups = ",".join(str(group) for group in walls.groups)
    return [
        "setpriv", "--reuid", uid, "--regid", uid,
        *(["--groups", groups] if groups else ["--clear-groups"]),
        "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--",
    ]  # fmt: skip


def _bwrap(walls: Walls, status_fd: int | None) -> list[str]:
    argv = ["bwrap"]
    if walls.uid is None:
        argv += ["--unshare-user"]
        if not (walls.user_namespaces or userns.IS_KNOWN):
            argv += ["--disable-userns"]  # of bubblewrap 0.8.0 and later
    argv += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--die-with-parent"]
    if status_fd is not None:
        argv += ["--json-status-fd", str(status_fd)]
    seen = []
    for entry in sorted(walls.root, key=lambda e: (bool(e.target), e.name)):
        if entry.target:
            argv += ["--symlink", entry.target, f"/{entry.name}"]
        elif entry.name not in (*PRIVATE_FOLDERS, *OWN_FOLDERS):
            argv += ["--ro-bind", f"/{entry.name}", f"/{entry.name}"]
            seen.append(f"/{entry.name}")
    argv += ["--proc", "/proc", "--dev", "/dev", "--ro-bind-try", "/sys", "/sys"]
    # `--dev` makes a /dev/shm that only root can write.
    argv += ["--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
    # bubblewrap would make folders that only root may pass.
    for folder in dict.fromkeys(str(PurePosixPath(device).parent) for device in walls.devices):
        if folder != "/dev":
            argv += ["--perms", "0755", "--dir", folder]
    for device in walls.devices:
        argv += ["--dev-bind-try", device, device]
    argv += ["--bind", walls.tmp, "/tmp", "--perms", "0755", "--dir", "/run"]  # noqa: S108
    argv += ["--perms", "0755", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108
    for name in ("home", "root"):
        argv += ["--perms", "0755", "--dir", f"/{name}"]
    for path in _PATHS_OF_SERVICES:
        argv += ["--ro-bind-try", path, path]
    return [*argv, *_folders(walls, seen), "--chdir", "/"]


def _folders(walls: Walls, seen: Iterable[str]) -> list[str]:
    """Return the arguments that hide and open single folders, outer ones first: they would cover the
    inner ones."""
    argv: list[str] = []
    opened = {**dict.fromkeys(walls.read, "--ro-bind"), **dict.fromkeys(walls.write, "--bind")}
    is_whole = dict.fromkeys(seen, True)
    """Whether everything below this path is there, by path."""
    made = {"/", *(f"/{name}" for name in PRIVATE_FOLDERS)}

    def is_there(path: str) -> bool:
        if path in made:
            return True
        above = [str(parent) for parent in (PurePosixPath(path), *PurePosixPath(path).parents)]
        return next((is_whole[folder] for folder in above if folder in is_whole), False)

    for path in sorted({*walls.hidden, *opened}, key=lambda p: (p.count("/"), p)):
        if path not in opened:
            if is_there(path):
                argv += ["--perms", "0755", "--tmpfs", path]
                is_whole[path] = False
                made.add(path)
            continue
        for parent in [str(p) for p in reversed(PurePosixPath(path).parents)]:
            if not is_there(parent):
                # bubblewrap would make it so that only root may pass.
                argv += ["--perms", "0755", "--dir", parent]
                made.add(parent)
        argv += [opened[path], path, path]
        is_whole[path] = True
    # What a job wrote there would be gone without a word, and take memory meanwhile.
    empty = [path for path, whole in is_whole.items() if not whole]
    return argv + [word for path in [*empty, "/"] for word in ("--remount-ro", path)]


def _mounts(walls: Walls) -> str:
    """Return shell commands for the level `user`: a /proc that shows only processes of the same
    user, and a /tmp of its own, in which the allocation's own folders below /tmp are seen again."""
    lines = ["set -e", "mount -t proc -o nosuid,nodev,noexec,hidepid=2 proc /proc"]
    tmp = shlex.quote(walls.tmp)
    for path in sorted({*walls.read, *walls.write}, key=lambda p: (p.count("/"), p)):
        if is_within(path, "/tmp") and path != "/tmp":  # noqa: S108
            place = shlex.quote(walls.tmp + path.removeprefix("/tmp"))  # noqa: S108
            above = shlex.quote(str(PurePosixPath(walls.tmp + path.removeprefix("/tmp")).parent))  # noqa: S108
            source = shlex.quote(path)
            lines += [
                f"mkdir -p {above}",
                f"if [ -d {source} ]; then mkdir -p {place}; else : >> {place}; fi",
                f"mount --rbind {source} {place}",
            ]
    lines += [f"mount --rbind {tmp} /tmp", "cd /"]
    return "\n".join(lines) + "\n"
