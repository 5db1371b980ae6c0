"""Control of a process tree: find all of its members, and end all of them.

torchrun gives each worker its own session, so killing the launcher's process group leaves every
worker alive. A tree is therefore ended by three means, each catching what the one before misses:

1. a cgroup v2 group (`cgroup.kill`), where one may be created;
2. descendants of the shim, which is a sub-reaper: a double-forked grandchild becomes its child;
3. every process whose environment carries this allocation's id and the mark of our agent.

Processes are never matched by name, and none is signalled unless its pid and start time agree.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from muster.launch import reaping
from muster.measure.stacks import own_pid
from muster_agent.clock import unix_ms
from muster_agent.isolation.containers import NAME_VARIABLE

TOKEN_VARIABLE = "MUSTER_ALLOCATION_ID"  # noqa: S105 (a name, not a secret)
SHIM_VARIABLE = "MUSTER_SHIM_OF"
"""Variable in a shim's own environment: the allocation it supervises."""
OWNER_VARIABLE = "MUSTER_OWNER"
"""Variable beside either: the mark of the owner, see `owner_of`."""
SESSION_VARIABLE = "MUSTER_TUNNEL"
"""Variable of a command that a user runs inside a job: the id of its tunnel."""
_AGENTS_GROUP = "muster-agent"
_ROUND_S = 0.02
NOT_OURS_S = 5.0
"""Seconds after which nobody waits any more for processes that we may not kill."""
_PF_EXITING = 0x4
_SIGNAL_BASE = 128
_IS_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True)
class Identity:
    """One process, distinguished from a later one with the same pid."""

    pid: int
    start_ticks: int


def boot_id() -> str:
    """Return an id that changes with every boot of this machine."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"boot-{int(psutil.boot_time())}"


def identify(pid: int) -> Identity | None:
    """Return the identity of a living process; None if there is none, or what is left has no thread
    that will run again: a zombie, or the first process of a process namespace that has ended except
    that the kernel waits until others have collected all who were in there."""
    if _IS_LINUX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return None
        # The command in parentheses may itself contain spaces and parentheses.
        fields = stat[stat.rindex(b")") + 2 :].split()
        return None if _is_over(fields) else Identity(pid, int(fields[19]))
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, int(process.create_time() * 100))
    except psutil.Error:
        return None


def _is_over(fields: Sequence[bytes]) -> bool:
    """Return whether a process has ended for everybody but the kernel. fields: of /proc/<pid>/stat,
    from its state on."""
    state, num_threads, memory_bytes = fields[0], int(fields[17]), int(fields[20])
    if num_threads > 1:  # The first one may have ended long before the others.
        return False
    # It has given up its memory and, unlike one that a device or a file system keeps (state D), its files.
    is_collecting = state == b"S" and memory_bytes == 0 and bool(int(fields[6]) & _PF_EXITING)
    return state in (b"Z", b"X") or is_collecting


def is_alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def send_signal(identity: Identity, number: int) -> bool:
    """Signal exactly this process. Return False if it is gone."""
    if not is_alive(identity):
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def descendants(pid: int) -> set[Identity]:
    """Return all living processes below `pid`."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return set()
    return {found for child in children if (found := identify(child.pid)) is not None}


def owner_of(home: Path) -> str:
    """Return the mark of the agent with this home: "<hash>@<host>".

    Two agents of one machine have different homes. The host tells containers apart that share
    their process ids.
    """
    name = f"{os.getuid()}\0{home.absolute()}"
    return f"{hashlib.sha256(name.encode()).hexdigest()[:16]}@{socket.gethostname()}"


def tagged(allocation_id: str, owner: str) -> set[Identity]:
    """Return all living processes of this allocation, by the marks in their environment.

    The host may have got another name since they were started.
    """
    mark = owner.partition("@")[0]
    return {
        identity
        for identity, environment in _environments()
        if environment.get(TOKEN_VARIABLE) == allocation_id
        and environment.get(OWNER_VARIABLE, "").partition("@")[0] == mark
    }


def init_of(container: str, *, is_plain: bool = False) -> int:
    """Return the pid, as this process sees it, of the first process of a container; 0 if it is not
    seen yet. is_plain: whether it has the pids of the node, so that the oldest one is the first."""
    found = [
        identity
        for identity, environment in _environments()
        if environment.get(NAME_VARIABLE) == container and (is_plain or own_pid(identity.pid) == 1)
    ]
    return min(found, key=lambda identity: identity.start_ticks).pid if found else 0


def is_of_user(identity: Identity) -> bool:
    """Return whether a process was started by a user through a tunnel into the job."""
    try:
        return SESSION_VARIABLE in psutil.Process(identity.pid).environ()
    except (psutil.Error, OSError):
        return False


def owned(owner: str) -> dict[str, set[Identity]]:
    """Return all living processes with this mark, shims among them, by allocation id."""
    found: dict[str, set[Identity]] = {}
    for identity, environment in _environments():
        if environment.get(OWNER_VARIABLE) == owner:
            allocation_id = environment.get(TOKEN_VARIABLE) or environment.get(SHIM_VARIABLE)
            if allocation_id:
                found.setdefault(allocation_id, set()).add(identity)
    return found


def _environments() -> Iterator[tuple[Identity, Mapping[str, str]]]:
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except (psutil.Error, OSError):
            continue  # It belongs to another user, or is gone.
        if OWNER_VARIABLE not in environment:
            continue
        identity = identify(process.pid)
        if identity is not None:
            yield identity, environment


def kill_all(
    members: Callable[[], Iterable[Identity]],
    *,
    timeout_s: float,
    reap: Callable[[], None] = lambda: None,
) -> set[Identity]:
    """Send SIGKILL to what `members` returns, again and again until it returns nothing.

    A process may fork between being listed and being killed, hence the rounds. Returns those
    still alive after `timeout_s`, in uninterruptible sleep; earlier, if all are not ours to kill.
    """
    began = time.monotonic()
    refused: set[Identity] = set()
    while True:
        alive = set(members())
        if not alive:
            return alive
        bound_s = min(timeout_s, NOT_OURS_S) if alive <= refused else timeout_s
        if time.monotonic() > began + bound_s:
            return alive
        for identity in alive:
            try:
                send_signal(identity, signal.SIGKILL)
            except PermissionError:
                refused.add(identity)
        time.sleep(_ROUND_S)
        reap()


class Cgroup:
    """A cgroup v2 group of one allocation, beside (not around) the shim that owns it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def create(name: str) -> Cgroup | None:
        """Return a new group below this process's own group, or None where this machine does not
        permit it."""
        home = _own_cgroup()
        if home is None:
            return None
        # The agent and its shims are in a leaf beside the jobs where these have limits.
        path = (home.parent if home.name == _AGENTS_GROUP else home) / f"muster-{name}"
        try:
            path.mkdir(exist_ok=True)
        except OSError:
            return None
        group = Cgroup(path)
        if not (path / "cgroup.kill").exists():  # Kernels before 5.14.
            group.remove()
            return None
        return group

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Make children started inside the block members from their first instruction on.

        We step in and out ourselves: moving a child after its start would leave it time to fork.
        """
        home = _own_cgroup()
        try:
            (self.path / "cgroup.procs").write_text("0")
        except OSError:
            yield  # The other two means remain.
            return
        try:
            yield
        finally:
            if home is not None:
                (home / "cgroup.procs").write_text("0")

    def pids(self) -> list[int]:
        try:
            return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def num_oom_kills(self) -> int:
        """Return the number of members the kernel killed for memory; 0 where the memory controller
        is not ours."""
        return _count_of(self.path / "memory.events", "oom_kill")

    def limit(self, *, memory_bytes: int, processes: int) -> bool:
        """Let the kernel keep the members within limits (0: none). Return False where this group
        lacks a controller; nothing is limited then.

        Past its memory the whole group is killed: one rank alone would leave the others waiting.
        """
        wanted: dict[str, int] = {}
        if memory_bytes:
            wanted |= {"memory.oom.group": 1, "memory.swap.max": 0, "memory.max": memory_bytes}
        if processes:
            wanted["pids.max"] = processes
        # Kernels without swap accounting have no memory.swap.max.
        if any(not (self.path / n).exists() for n in wanted if n != "memory.swap.max"):
            return False
        try:
            for name, value in wanted.items():
                if (self.path / name).exists():
                    (self.path / name).write_text(str(value))
        except OSError:
            for name in wanted.keys() & {"memory.max", "memory.swap.max", "pids.max"}:
                with contextlib.suppress(OSError):
                    (self.path / name).write_text("max")
            return False
        return True

    def num_forks_refused(self) -> int:
        """Return how often the kernel has refused a process for the limit of processes."""
        return _count_of(self.path / "pids.events", "max")

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()


def delegate(home: Path | None = None) -> bool:
    """Let the groups of jobs have limits: move this process from its own cgroup into a leaf below
    it, because only a group without processes may pass controllers on. Return whether jobs can be
    limited by the kernel.

    Only a group that holds nothing but this process is taken: that of a service with
    `Delegate=yes`, or of a container. home: the group; default: that of this process.
    """
    home = home or _own_cgroup()
    if home is None:
        return False
    leaf = home / _AGENTS_GROUP
    is_in_leaf = home.name == _AGENTS_GROUP  # systemd's DelegateSubgroup=
    home = home.parent if is_in_leaf else home
    me = str(os.getpid())
    try:
        if not set((home / "cgroup.controllers").read_text().split()) >= {"memory", "pids"}:
            return False
        if not is_in_leaf:
            if (home / "cgroup.procs").read_text().split() != [me]:
                return False
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(me)
        try:
            (home / "cgroup.subtree_control").write_text("+memory +pids")
        except OSError:
            if not is_in_leaf:
                (home / "cgroup.procs").write_text(me)
            raise
    except OSError:
        return False
    return True


def _count_of(file: Path, name: str) -> int:
    """Return the number that stands behind a name in a file of a cgroup; 0 if there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def _own_cgroup() -> Path | None:
    """Return the folder of this process's group in the cgroup v2 hierarchy, wherever that is
    mounted."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    mount = next(
        (m.split()[1] for m in mounts if len(m.split()) > 2 and m.split()[2] == "cgroup2"), None
    )
    group = next((g[3:] for g in groups if g.startswith("0::")), None)
    if mount is None or group is None:
        return None
    return Path(mount) / group.lstrip("/")


def num_system_oom_kills() -> int:
    """Return the kernel's count of out-of-memory kills on this machine since boot; 0 if unknown."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


@dataclass
class Child:
    """A started process. Exactly one of `exit_code` and `signal` is set once it has ended."""

    pid: int
    exit_code: int | None = None
    signal: int | None = None
    ended_at_ms: int = 0
    tells_signals_as_codes: bool = False
    """Whether the process stands for another one and ends with code 128 + n when a signal n has
    ended that one, as bubblewrap does."""

    @property
    def has_ended(self) -> bool:
        return self.exit_code is not None or self.signal is not None

    @property
    def status(self) -> int | None:
        """Return the exit code, or minus the signal; None while it lives."""
        return self.exit_code if self.signal is None else -self.signal


@contextlib.contextmanager
def _sigterm_blocked() -> Iterator[None]:
    """Block SIGTERM in this thread, and so in what it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Children:
    """Starts processes and notes how they end."""

    def __init__(self, marks: Mapping[str, str]) -> None:
        """Create an empty set; `marks` are put into the environment of every process started here."""
        self.marks = dict(marks)
        self._known: dict[int, tuple[Child, subprocess.Popen[bytes]]] = {}

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        cgroup: Cgroup | None = None,
        pass_fds: Sequence[int] = (),
        shields: bool = False,
    ) -> tuple[Child, subprocess.Popen[bytes]]:
        """Start `argv` in a session of its own. Raises OSError if it cannot be started.

        pass_fds: open descriptors that the process inherits. shields: start it with SIGTERM blocked,
        since what it stands for must outlive a signal to all processes of the node.

        Use the Popen for its pipes only.
        """
        with (
            cgroup.joined() if cgroup is not None else contextlib.nullcontext(),
            _sigterm_blocked() if shields else contextlib.nullcontext(),
        ):
            process = subprocess.Popen(
                list(argv),
                env={**environment, **self.marks},
                cwd=folder,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        child = Child(process.pid)
        self._known[process.pid] = (child, process)
        return child, process

    def reap(self) -> None:
        """Collect every child that has ended, and every orphan. Never blocks."""
        for pid, (child, process) in list(self._known.items()):
            code = process.poll()
            if code is None or self._known.pop(pid, None) is None:
                continue
            child.ended_at_ms = unix_ms()
            if code > _SIGNAL_BASE and child.tells_signals_as_codes:
                child.signal = code - _SIGNAL_BASE
            elif code < 0:
                child.signal = -code
            else:
                child.exit_code = code
        reaping.collect()
