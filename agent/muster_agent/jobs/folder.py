"""The folder of one allocation, through which agent and shim exchange data on disk.

allocations/<allocation id>/
  spec.json      wire.AllocationSpec, written by the agent
  options.json   ShimOptions, written by the agent
  secrets.json   which secrets the shim was given: versions by name, no values
  messages.json  what the agent has to say in the trial's events, if anything
  shim.lock      held by the shim while it lives: the truth about "is it alive"
  shim.json      ShimState, replaced by the shim whenever it changes
  shim.log       the shim's own words
  records/       spool.py
  logs/          logs.py
  checkpoints/   on their way to and from an object store, if the trial has one
  models/        versions of models that the job reads, each in a folder of its name
  bin/ hostfile  for commands that bring a launcher along (muster.launch.commands)
  cache/ config.json

The files of the job are not here but in the work folder of its trial, which outlives allocations: see
muster_agent.outputs.work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster import wire
from muster_agent.isolation.containers import Engine
from muster_agent.isolation.walls import Isolation
from muster_agent.jobs.process import Identity, boot_id, is_alive, owner_of, tagged
from muster_agent.records.masking import Mask

MIN_DISK_FREE_BYTES = 64 * 2**20
"""Free disk space in bytes below which an allocation refuses to prepare."""
IMAGES_LIMIT_BYTES = 100 * 10**9
_ALLOCATION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class ShimOptions:
    """Node-specific settings of a shim."""

    default_python: str
    node_address: str
    network_interface: str
    storage_dir: str
    interpreter_cache: str
    """Folder in which facts about interpreters are remembered."""
    sdk_path: str
    """Folder with the `muster` package alone, for interpreters that do not have it."""
    bundle: str = ""
    """Path of the downloaded code, if the spec's code is a bundle."""
    deadline_boot_s: float | None = None
    """Boot clock at which everything is killed unless the agent renews the lease; for on_disconnect
    "stop"."""
    environments: str = ""
    """Folder of the environments that are built for documents. Beside it lies `data`, with data sets."""
    uv: str = ""
    """Path of uv, which builds them; "" if there is none."""
    environments_limit_bytes: int = 50 * 10**9
    data_limit_bytes: int = 500 * 10**9
    tracking_token: str = ""
    """What a script's tracking client must show the shim; "" without a tracking server."""
    warm_socket: str = ""
    """Socket of a warm parent that forks the workers; "" starts them as new processes."""
    forks_launcher: bool = False
    """Whether the warm parent forks torchrun, and not the workers."""
    forks_workers_of_launcher: bool = False
    """Whether it forks the workers of that torchrun, too."""
    cold_reason: str = ""
    """Why there is no such socket although the node's settings ask for it, as one clause."""
    warm_wait_s: float = 30.0
    """Seconds to wait for the warm parent, which may still be importing torch."""
    kill_wait_s: float = 180.0
    """Seconds that processes may take to die of SIGKILL, see AgentSettings."""
    isolation: Isolation = field(default_factory=Isolation)
    """Walls around the allocation's processes."""
    spool_limit_bytes: int = 2 * 1024**3
    work_restore_max_bytes: int = 50 * 10**9
    """Most bytes of an earlier attempt's files to fetch from the storage."""
    min_disk_free_bytes: int = MIN_DISK_FREE_BYTES
    engine: Engine | None = None
    """Engine for the job's container; None for a job that names no image."""
    images: str = ""
    """Folder of what the agent knows of the images that it has pulled."""
    images_limit_bytes: int = IMAGES_LIMIT_BYTES
    memory_share_bytes: int = 0
    """Limit of memory of a document that declares none; 0: no limit."""
    device_numbers: list[int] = field(default_factory=list)
    """Numbers by which the driver counts the devices of its slots now, in their order; empty where they
    are not known, or where they are MIG instances, which have none."""
    num_threads: int = 0
    """Number of cores for a job of one process; 0: as many as there are."""


@dataclass(frozen=True, kw_only=True)
class ShimState:
    """Identity of the shim, its socket and its progress."""

    pid: int
    start_ticks: int
    boot_id: str
    socket_dir: str
    control_socket: str
    cgroup: str
    """Folder of the allocation's cgroup, or ""."""
    observed: wire.Observed
    asked: list[str]
    """Commands taken so far: start, stop, kill."""
    stacks_no: int = 0
    """Number of the last request for stacks."""
    profile_no: int = 0
    """Number of the last request for a profiler window."""
    shards_no: int = 0
    """Number of the last orders of batch inference."""
    site_stop_at_ms: int = 0
    """Unix time at which all processes of the node were told to end; 0 if they were not."""


class AllocationFolder:
    """Paths and files of one allocation. Raises ValueError if the id is not a plain name."""

    def __init__(self, home: Path, allocation_id: str) -> None:
        if not _ALLOCATION_ID.fullmatch(allocation_id):
            raise ValueError(f"not an allocation id: {allocation_id!r}")
        self.allocation_id = allocation_id
        self.home = home
        self.path = allocations_dir(home) / allocation_id

    @staticmethod
    def at(path: Path) -> AllocationFolder:
        return AllocationFolder(path.parent.parent, path.name)

    @property
    def records(self) -> Path:
        return self.path / "records"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def launchers(self) -> Path:
        return self.path / "bin"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def stacks(self) -> Path:
        return self.cache / "stacks"

    @property
    def profiles(self) -> Path:
        return self.cache / "profiles"

    @property
    def shim_log(self) -> Path:
        return self.path / "shim.log"

    @property
    def owner(self) -> str:
        """Return the owner mark of its agent (process.owner_of)."""
        return owner_of(self.path.parent.parent)

    def processes(self) -> set[Identity]:
        """Return every living process with this allocation's marks. Its shim has none of them."""
        return tagged(self.allocation_id, self.owner)

    def create(self, spec: wire.AllocationSpec) -> None:
        """Create the folder with its spec; it appears under its name only when complete."""
        building = self.path.with_name(f".new-{self.path.name}")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True, mode=0o700)
        write_atomically(building / "spec.json", wire.dump(spec))
        building.rename(self.path)

    def read_spec(self) -> wire.AllocationSpec:
        return wire.loads(wire.AllocationSpec, (self.path / "spec.json").read_text())

    def mask(self, secrets: Iterable[str] = ()) -> Mask:
        """Return what hides these secrets and the token of the tracking server in the log."""
        try:
            token = self.read_options().tracking_token
        except (OSError, ValueError):
            token = ""
        return Mask([*secrets, token])

    def write_options(self, options: ShimOptions) -> None:
        write_atomically(self.path / "options.json", wire.dump(options))

    def read_options(self) -> ShimOptions:
        return wire.loads(ShimOptions, (self.path / "options.json").read_text())

    def write_secret_versions(self, versions: Mapping[str, str]) -> None:
        write_atomically(self.path / "secrets.json", json.dumps(dict(versions)))

    def read_secret_versions(self) -> dict[str, str]:
        """Return the owner and version of each secret that the shim was given; {} for none."""
        try:
            versions: dict[str, str] = json.loads((self.path / "secrets.json").read_text())
        except (OSError, ValueError):
            return {}
        return versions

    def write_state(self, state: ShimState) -> None:
        write_atomically(self.path / "shim.json", wire.dump(state))

    def read_state(self) -> ShimState | None:
        try:
            return wire.loads(ShimState, (self.path / "shim.json").read_text())
        except (OSError, ValueError):
            return None

    def write_messages(self, messages: list[list[str]]) -> None:
        """Keep messages for the trial's events, level and text, which the shim is to report."""
        write_atomically(self.path / "messages.json", wire.dump(messages))

    def read_messages(self) -> list[list[str]]:
        try:
            return wire.loads(list[list[str]], (self.path / "messages.json").read_text())
        except (OSError, ValueError):
            return []

    def has_options(self) -> bool:
        return (self.path / "options.json").exists()

    def lock(self) -> int | None:
        """Take the shim's lock: return a descriptor, or None while another process holds it."""
        fd = os.open(self.path / "shim.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def is_locked(self) -> bool:
        fd = self.lock()
        if fd is None:
            return True
        os.close(fd)
        return False

    def delete(self) -> None:
        state = self.read_state()
        if state is not None:
            remove_socket_dir(state.socket_dir)
        trash = self.path.with_name(f".old-{self.path.name}")
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def make_home(home: Path) -> None:
    """Create the agent's home, or take from other users the right to list, read and write it.

    The right to pass through stays where it was given: a job that runs as another user needs it to
    reach its own folders."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o066:
        with contextlib.suppress(PermissionError):  # It belongs to somebody else, who decides.
            home.chmod(mode & ~0o066)


def allocations_dir(home: Path) -> Path:
    return home / "allocations"


def shim_identity(state: ShimState) -> Identity | None:
    """Return the living shim process of `state`; None if it is gone or the machine has rebooted."""
    if state.boot_id != boot_id():
        return None
    identity = Identity(state.pid, state.start_ticks)
    return identity if is_alive(identity) else None


def write_atomically(path: Path, text: str) -> None:
    """Replace a file that only this user may read; readers see the old or the new one whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    temporary.replace(path)


def with_changes(
    state: ShimState,
    *,
    observed: wire.Observed,
    asked: set[str],
    stacks_no: int,
    profile_no: int,
    shards_no: int,
) -> ShimState:
    return dataclasses.replace(
        state,
        observed=observed,
        asked=sorted(asked),
        stacks_no=stacks_no,
        profile_no=profile_no,
        shards_no=shards_no,
    )


def remove_socket_dir(path: str) -> None:
    """Delete a shim's socket folder; leave any other folder alone."""
    if Path(path).name.startswith(SOCKET_DIR_PREFIX):
        shutil.rmtree(path, ignore_errors=True)


SOCKET_DIR_PREFIX = "muster-shim-"
