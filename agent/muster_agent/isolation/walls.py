"""The walls around jobs on this machine: which level works, and what one allocation is given.

The argument lists are in muster_agent.isolation.levels; this module looks at the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import muster
from muster import wire
from muster_agent.isolation.containers import Container, Engine, exec_argv, helper_of
from muster_agent.isolation.device_files import device_files, load_unified_memory
from muster_agent.isolation.levels import (
    UID_NUMBERS,
    RootEntry,
    Walls,
    enter,
    enter_running,
    is_seen,
    refusal,
)
from muster_agent.isolation.variables import MARK

if TYPE_CHECKING:
    from muster_agent.settings import AgentSettings

PROBE_TIMEOUT_S = 20.0
STARTER = Path(muster.__file__).parent / "launch" / "confined.py"
ENTERING = STARTER.with_name("entering.py")
OUTER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the programs that build the walls are looked for: never where a job's PATH says."""
_OUTSIDE_VARIABLES = ("TMP", "TEMP", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "LOGNAME", "USER")
"""Variables of the agent's user that lead nowhere in the job, or to another user."""
_CACHE_VARIABLES = (
    "CUDA_CACHE_PATH", "HF_DATASETS_CACHE", "HF_HOME", "HF_HUB_CACHE", "MPLCONFIGDIR",
    "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", "TORCH_EXTENSIONS_DIR", "TORCH_HOME",
)  # fmt: skip
"""Variables that name a folder of the agent's, which a job may not see. Without one, the programs
use a folder in the home, which is the project's."""
_USERNS_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


class CannotIsolate(Exception):
    """The level that the settings ask for does not work here; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """The level of a node, or of one allocation on it, as it is written into a shim's options."""

    level: wire.IsolationLevel = "none"
    reason: str = ""
    """Why it is no stronger one, as a sentence."""
    uid: int | None = None
    """User id of the processes; None for the agent's."""
    hidden: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    home: str = ""
    """Home folder of the job."""
    user_namespaces: bool = False
    """Whether the job may make user namespaces of its own."""
    container: Container | None = None
    """The container of the job, once its image is there."""
    gpus: list[str] | None = None
    """UUIDs of the job's devices; None for a job without devices."""

    @property
    def is_on(self) -> bool:
        return self.level != "none" or self.container is not None

    @property
    def is_sandbox(self) -> bool:
        """Whether bubblewrap builds the walls."""
        return self.level == "sandbox" and self.container is None


# ---------------------------------------------------------------- the level of this machine


def choose(settings: AgentSettings, *, gpus: list[str] | None) -> Isolation:
    """Return the level at which jobs run on this machine. Raises CannotIsolate.

    gpus: UUIDs of the devices that are its slots; None if its slots are CPUs.
    """
    asked = settings.isolation
    if asked == "none":
        return Isolation(
            reason="MUSTER_AGENT_ISOLATION is none; auto uses sandboxes where they work."
        )
    problem = _obstacle(settings)
    if not problem:
        level: wire.IsolationLevel = "user" if asked == "user" else "sandbox"
        offer = _offer(settings, level)
        problem = probe(offer)
        if not problem and gpus:
            problem = probe_devices(replace(offer, gpus=gpus))
        if not problem:
            reason = "" if level == "sandbox" else "MUSTER_AGENT_ISOLATION is user."
            return replace(offer, reason=reason)
    if asked != "auto":
        raise CannotIsolate(
            f"MUSTER_AGENT_ISOLATION is {asked}, which does not work here. {problem}"
        )
    return Isolation(reason=problem)


def in_words(isolation: Isolation) -> str:
    """Return what the level of a node means for its jobs, as a sentence."""
    if isolation.level == "sandbox" and isolation.uid is not None:
        return "Each job runs in a sandbox, and as a user of its project."
    if isolation.level == "sandbox":
        return "Each job runs in a sandbox."
    if isolation.level == "user":
        return "Jobs run as other users, one for each project."
    return f"Jobs can do whatever the agent's user can. {isolation.reason}".strip()


def _obstacle(settings: AgentSettings) -> str:
    """Return what speaks against walls before any is tried, as a sentence; "" for nothing."""
    if sys.platform != "linux":
        return "Walls around jobs need Linux."
    if os.geteuid() != 0:
        needs_root = settings.isolation == "user"
        return "The level user needs an agent that runs as root." if needs_root else ""
    if settings.isolation != "auto":
        return ""  # Whoever names a level has chosen the numbers and the storage, too.
    return _whose_ids(settings.uid_base) or _why_kept(settings.storage, settings.uid_base)


def _why_kept(folder: Path, uid: int) -> str:
    """Return why files in a folder cannot be handed over to another user, as a sentence; "" if they
    can. The folder need not exist yet."""
    above = next(path for path in (folder, *folder.parents) if path.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".muster-probe-", dir=above) as probed:
            os.chown(probed, uid, uid)
    except OSError as error:
        return (
            f"Checkpoints in {folder} cannot be handed over to users of jobs "
            f"({error.strerror}), as on a network file system that trusts no root."
        )
    return ""


def _whose_ids(uid_base: int) -> str:
    """Return who else has user ids of jobs on this machine, as a sentence; "" for nobody."""
    last = uid_base + UID_NUMBERS - 1
    for path, first_at, count_at in (("/etc/passwd", 2, None), ("/etc/subuid", 1, 2)):
        with contextlib.suppress(OSError):
            for line in Path(path).read_text().splitlines():
                fields = line.split(":")
                with contextlib.suppress(ValueError, IndexError):
                    first = int(fields[first_at])
                    count = 1 if count_at is None else int(fields[count_at])
                    if first <= last and first + count > uid_base:
                        return (
                            f"Jobs would have user ids from {uid_base} to {last}, and {path} gives "
                            f"some of them to {fields[0]}: set MUSTER_AGENT_UID_BASE to the first of "
                            f"{UID_NUMBERS} free ones."
                        )
    return ""


def _offer(settings: AgentSettings, level: wire.IsolationLevel) -> Isolation:
    """Return the level with what every job of this node is given."""
    protected = [settings.home, settings.storage, _own_home() / ".muster"]
    if os.environ.get(MARK):
        protected.append(Path(os.environ[MARK]))
    reads = [*_trusted(), *prefixes_of(settings.python), settings.home / "sdk", *settings.job_reads]
    reads += [Path(p) for p in os.environ.get("PYTHONPATH", "").split(":") if p.startswith("/")]
    return Isolation(
        level=level,
        uid=settings.uid_base if os.geteuid() == 0 else None,
        hidden=_existing(path for folder in protected for path in (folder, folder.resolve())),
        read=[str(path) for path in reads],
        write=[str(path) for path in settings.job_writes],
    )


def probe(isolation: Isolation) -> str:
    """Return why no process can be started at this level, as a sentence; "" if one can be.

    Starts the agent's interpreter twice, one after the other, behind exactly the walls that jobs
    get: the first is found with the agent's rights, and only the second with the job's.
    """
    for program in ("bwrap",) if isolation.level == "sandbox" else ("unshare",):
        if shutil.which(program, path=OUTER_PATH) is None:
            return _NO_BWRAP if program == "bwrap" else f"{program} is not installed."
    if isolation.uid is not None and shutil.which("setpriv", path=OUTER_PATH) is None:
        return "setpriv (of util-linux) is not installed."
    with tempfile.TemporaryDirectory(prefix="muster-probe-") as folder:
        walls = make_walls(isolation, tmp=Path(folder))
        try:
            again = [sys.executable, "-I", "-c", "pass"]
            done = run(walls, again, environment={"PATH": OUTER_PATH}, timeout=PROBE_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"The walls cannot be built: {error}."
    if done.returncode == 0:
        return ""
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return _explain(isolation, words[-1] if words else f"exit code {done.returncode}")


def probe_devices(isolation: Isolation) -> str:
    """Return why CUDA cannot be used behind the walls of these devices, as a sentence; "" if it can be,
    or if it cannot be used without walls either, which is another problem.

    The driver is loaded in a process of its own: what has used CUDA once cannot be forked.
    """
    load_unified_memory()
    argv = [sys.executable, "-I", "-c", _USES_CUDA]
    outer = outer_environment()
    try:
        without = subprocess.run(
            argv, env=outer, capture_output=True, timeout=CUDA_TIMEOUT_S, check=False
        )
        if without.returncode:
            return ""
        with tempfile.TemporaryDirectory(prefix="muster-probe-") as folder:
            walls = make_walls(isolation, tmp=Path(folder))
            within = run(walls, argv, environment=outer, timeout=CUDA_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"CUDA cannot be tried behind walls: {error}."
    if not within.returncode:
        return ""
    words = within.stderr.decode(errors="replace").strip().splitlines()
    return (
        f"CUDA works on this machine, but not in a sandbox: {words[-1] if words else 'no answer'}. "
        "If the driver's libraries lie in a hidden folder, name it in MUSTER_AGENT_JOB_READS."
    )


CUDA_TIMEOUT_S = 60.0
"""Seconds that the driver may take to start: about one for each device where nothing keeps it loaded."""
_USES_CUDA = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
raise SystemExit(f"error {code} of the driver" if code else 0 if count.value else "no device")
"""
_NO_BWRAP = "bubblewrap is not installed: install the package bubblewrap and start again."


def _explain(isolation: Isolation, words: str) -> str:
    said = words if words.endswith(".") else f"{words}."
    with contextlib.suppress(OSError):
        if isolation.uid is None and _USERNS_SWITCH.read_text().strip() == "1":
            return (
                f"{said} This system allows user namespaces only to programs with an AppArmor "
                "profile: add one for bwrap, or run the agent as root."
            )
    if isolation.level == "sandbox" and ("roc" in words or "amespace" in words):
        return (
            f"{said} If this is a container, it does not allow nested sandboxes: start it with "
            "--security-opt unmask=ALL --security-opt seccomp=unconfined and CAP_SYS_ADMIN."
        )
    if isolation.level == "user" and "ermission denied" in words:
        return (
            f"{said} Other users cannot reach the agent's interpreter {sys.executable}: install it "
            "where they can, or use the level sandbox."
        )
    return said


# ---------------------------------------------------------------- the walls of one allocation


def make_walls(
    isolation: Isolation,
    *,
    tmp: Path,
    read: Iterable[Path | str] = (),
    write: Iterable[Path | str] = (),
) -> Walls:
    """Return the walls of one allocation, with what it is given besides the node's own. Raises
    OSError."""
    devices = device_files(isolation.gpus) if isolation.gpus is not None else ()
    if isolation.uid is not None:
        os.chown(tmp, isolation.uid, isolation.uid)
    if isolation.container is not None:
        # What a job needs of the node's own programs is in the image.
        return Walls(
            level=isolation.level,
            uid=isolation.uid,
            read=tuple(_existing([Path(muster.__file__).parent, *read])),
            write=tuple(_existing(write)),
            devices=devices,
            tmp=str(tmp),
            container=isolation.container,
            own_uid=os.getuid(),
        )
    return Walls(
        level=isolation.level,
        uid=isolation.uid,
        groups=tuple(sorted({gid for d in devices if (gid := Path(d).stat().st_gid)})),
        root=_root(),
        hidden=tuple(isolation.hidden),
        read=tuple(_existing([*isolation.read, *read])),
        write=tuple(_existing([*isolation.write, *write])),
        devices=devices,
        tmp=str(tmp),
        user_namespaces=isolation.user_namespaces,
    )


def make_home(isolation: Isolation) -> None:
    """Make the home folder of the job, unless the level has none. Raises OSError."""
    if isolation.home:
        Path(isolation.home).mkdir(parents=True, mode=0o700, exist_ok=True)
        if isolation.uid is not None:
            os.chown(isolation.home, isolation.uid, isolation.uid)


def open_way(isolation: Isolation, *folders: Path) -> None:
    """Let the job's user pass through folders of the agent to its own in them, and through those
    above. A sandbox has a way of its own. Raises OSError."""
    if isolation.uid is not None and isolation.level == "user":
        for folder in folders:
            folder.chmod(0o711)
            folder.parent.chmod(0o711)


def inside(
    isolation: Isolation, environment: Mapping[str, str], *, of_user: Iterable[str]
) -> dict[str, str]:
    """Return the environment of a process of a job behind the walls: with its own home and temporary
    folder, unless the document names others, and without caches of the agent that it does not see.

    of_user: the variables that the document sets.
    """
    named = set(of_user)
    if isolation.container is not None:
        own = {"TMPDIR": "/tmp", "HOME": isolation.home or "/tmp"}  # noqa: S108
        return {**environment, **{k: v for k, v in own.items() if k not in named}}
    found = {
        name: value
        for name, value in environment.items()
        if name in named
        or not (
            name in _OUTSIDE_VARIABLES
            or (name in _CACHE_VARIABLES and not _leads_somewhere(isolation, value))
        )
    }
    own = {"TMPDIR": "/tmp", "HOME": isolation.home or "/tmp"}  # noqa: S108
    if isolation.uid is not None:
        own |= {"USER": "job", "LOGNAME": "job"}
    found |= {name: value for name, value in own.items() if name not in named}
    return {"PATH": OUTER_PATH, **found}


def _leads_somewhere(isolation: Isolation, folder: str) -> bool:
    """Return whether a job sees this folder of the machine."""
    if not folder.startswith("/") or not Path(folder).is_dir():
        return False
    real = str(Path(folder).resolve())
    if isolation.level == "sandbox":
        return is_seen(real, hidden=isolation.hidden, opened=[*isolation.read, *isolation.write])
    return isolation.uid is None or not _reaches(isolation.uid, real)


def why_not_readable(isolation: Isolation, path: Path) -> str:
    """Return why a job may not read a folder or file that its document names, as a clause; "" if it
    may. Of what does not exist, only whether its place is allowed.

    The walls are built with the agent's rights. Where these are root's, a sandbox would open what
    lies in somebody's closed home. So the job's user must reach the path as it is, as it must at the
    level `user`.
    """
    real = path.resolve()
    given = [*isolation.write, *isolation.read]
    is_sandbox = isolation.level == "sandbox"
    if is_sandbox and any(real.is_relative_to(folder) for folder in given):
        return ""
    why = refusal(str(real), protected=isolation.hidden) if is_sandbox else ""
    if not why and isolation.uid is not None and real.exists():
        why = _reaches(isolation.uid, str(real))
    return why


def _reaches(uid: int, path: str) -> str:
    """Return why a user cannot read a path, as a clause; "" if it can. The kernel decides, who knows
    access control lists as well."""
    user = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--"]
    test = ["sh", "-c", '[ -r "$1" ] && { [ ! -d "$1" ] || [ -x "$1" ]; }', "sh", path]
    try:
        done = subprocess.run(
            [*user, *test],
            env={"PATH": OUTER_PATH},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"whether the job's user reaches it cannot be told: {error}"
    if done.returncode == 0:
        return ""
    return "it, or a folder above it, is closed to other users of the machine"


def prefixes_of(python: str) -> list[Path]:
    """Return the folders that an interpreter needs: its environment's and its installation's.

    Only what looks like an installation of Python counts, because a document can name any path.
    """
    executable = shutil.which(python)
    if executable is None:
        return []
    found = []
    for path in (Path(executable).absolute(), Path(executable).resolve()):
        found.append(path.parent.parent)
        with contextlib.suppress(OSError):
            for line in (path.parent.parent / "pyvenv.cfg").read_text().splitlines():
                name, _, value = line.partition("=")
                if name.strip() == "home":
                    found += [Path(value.strip()).parent, Path(value.strip()).resolve().parent]
    return [path for path in found if any(path.glob("lib*/python3*"))]


def _trusted() -> list[Path]:
    """Return where the agent's own interpreter and packages lie."""
    here = Path(__file__).parent
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent]
    found += [here, Path(muster.__file__).parent, here.parent, Path(muster.__file__).parent.parent]
    return [path for path in found if path != Path("/")]


def _own_home() -> Path:
    """Return the home folder of the agent's user, whatever HOME says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()


def _root() -> tuple[RootEntry, ...]:
    found = []
    for path in sorted(Path("/").iterdir()):
        if path.is_symlink():
            found.append(RootEntry(name=path.name, target=str(path.readlink())))
        elif path.is_dir():
            found.append(RootEntry(name=path.name))
    return tuple(found)


def _existing(paths: Iterable[Path | str]) -> list[str]:
    return sorted({str(Path(p).absolute()) for p in paths if str(p) and Path(p).exists()})


# ---------------------------------------------------------------- starting


@contextlib.contextmanager
def confined(
    walls: Walls,
    processes: Sequence[Mapping[str, object]],
    *,
    status_fd: int | None = None,
    beside: int | None = None,
    has_terminal: bool = False,
) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Yield the command that starts `processes` behind the walls (see muster.launch.confined), and
    the descriptors that it must inherit.

    beside: a process that is behind these walls, which are not built again then. has_terminal:
    whether the command is given one, as only a container has to know.
    """
    umask = os.umask(0)
    os.umask(umask)
    # What a container may do is its engine's to say.
    may_make_namespaces = walls.user_namespaces or walls.container is not None
    request = json.dumps(
        {
            "umask": umask,
            "user_namespaces": may_make_namespaces,
            "processes": list(processes),
        }
    )
    if walls.container is not None:
        argv = _starter_inside(walls, walls.container, request)
        if beside is None:
            yield enter(walls, argv), ()
        else:
            user = walls.inner_uid
            yield exec_argv(walls.container, argv, user=user, has_terminal=has_terminal), ()
        return
    fd = os.memfd_create("muster-request", 0)
    try:
        with os.fdopen(os.dup(fd), "w") as file:
            file.write(request)
        os.lseek(fd, 0, os.SEEK_SET)
        argv = [sys.executable, "-I", "-S", str(STARTER), str(fd)]
        if beside is not None:
            program = [sys.executable, "-I", "-S", str(ENTERING)]
            yield enter_running(walls, argv, pid=beside, program=program), (fd,)
        else:
            yield enter(walls, argv, status_fd=status_fd), (fd,)
    finally:
        os.close(fd)


def _starter_inside(walls: Walls, container: Container, request: str) -> list[str]:
    """Return the command that starts `request` in a container, which inherits no descriptors: the
    starter reads the request from a file of the job's /tmp, and deletes it."""
    fd, path = tempfile.mkstemp(prefix="muster-request-", dir=walls.tmp)
    with os.fdopen(fd, "w") as file:
        file.write(request)
    if walls.uid is not None:
        os.chown(path, walls.uid, walls.uid)
    return [container.python, "-I", "-S", str(STARTER), f"/tmp/{Path(path).name}"]  # noqa: S108


def outer_environment(container: Container | None = None) -> dict[str, str]:
    """Return the environment of the programs that build the walls, or of the client of the
    container's engine: nothing of the job's."""
    if container is not None:
        return outer_environment_of(container.engine)
    # The agent's interpreter, which runs first behind the walls, may need its libraries.
    kept = {name: os.environ[name] for name in (MARK, "LD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": OUTER_PATH, **kept}


def outer_environment_of(engine: Engine) -> dict[str, str]:
    """Return the environment of the client of a container engine."""
    mark = {MARK: os.environ[MARK]} if MARK in os.environ else {}
    return {"PATH": OUTER_PATH, **engine.environment, **mark}


def run(
    walls: Walls,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path | str = "/",
    timeout: float,
) -> subprocess.CompletedProcess[bytes]:
    """Run a short program behind the walls and capture its output. Raises OSError and
    TimeoutExpired."""
    process = {"argv": list(argv), "environment": dict(environment), "folder": str(folder)}
    with confined(walls, [process]) as (command, fds):
        return subprocess.run(
            command,
            env=outer_environment(walls.container),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            pass_fds=fds,
        )


@dataclass(frozen=True, kw_only=True)
class Program:
    """How to start a program that does not belong to an allocation."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    fds: tuple[int, ...] = ()
    """Descriptors that it must inherit."""


@contextlib.contextmanager
def program(
    isolation: Isolation,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path | str,
    read: Iterable[Path | str] = (),
    write: Iterable[Path] = (),
    own: Iterable[Path] = (),
    takes_stdin: bool = False,
) -> Iterator[Program]:
    """Yield how to start a short program of a job, or with an interpreter that a document names, at
    this level. It must have ended when the block ends.

    write: folders of the agent that are handed over to the job's user. own: folders to write that
    are this user's already. takes_stdin: whether it reads its standard input, as only a container
    has to know.
    """
    if not isolation.is_on:
        yield Program(argv=list(argv), environment=dict(environment), folder=str(folder))
        return
    given = {k: v for k, v in environment.items() if k not in ("TMPDIR", "TMP", "TEMP")}
    container = isolation.container
    if container is not None:
        helper = helper_of(container, uuid.uuid4().hex[:8], takes_stdin=takes_stdin)
        isolation = replace(isolation, container=helper)
    base = {"PATH": OUTER_PATH} if container is None else container.environment
    process = {
        "argv": list(argv),
        "environment": {**base, **given, "HOME": "/tmp"},  # noqa: S108
        "folder": str(folder),
    }
    writable = list(write)
    if isolation.uid is not None:
        hand_over(writable, isolation.uid)
    with tempfile.TemporaryDirectory(prefix="muster-job-") as tmp:
        reads = [*read, *(prefixes_of(argv[0]) if container is None else ())]
        inside = make_walls(isolation, tmp=Path(tmp), read=reads, write=[*writable, *own])
        with confined(inside, [process]) as (command, fds):
            yield Program(
                argv=command, environment=outer_environment(container), folder="/", fds=fds
            )


def hand_over(paths: Iterable[Path], uid: int, *, of: int | None = None) -> None:
    """Give folders with all that is in them to the user of a job, or to ourselves.

    of: the user whose files change hands, by default that of this process. A file with a second
        name, which might lie somewhere else, stays whose it is. Links are not followed.
    """
    owner = os.geteuid() if of is None else of
    for top in paths:
        for _, _, names, fd in os.fwalk(top, follow_symlinks=False):
            for name in [".", *names]:
                about = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if about.st_uid != owner or (stat.S_ISREG(about.st_mode) and about.st_nlink > 1):
                    continue
                os.chown(name, uid, uid, dir_fd=fd, follow_symlinks=False)
