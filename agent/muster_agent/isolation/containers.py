"""A container as the walls of a job: the argument lists for Podman, Docker and Apptainer. Pure.

The engine's client is started in the foreground, like bubblewrap. Everything that the job is given
stands at the same path inside as outside, so that nothing else has to know about containers. Ending
the client does not end the container, which muster_agent.containers.upkeep does.

Containers of Apptainer are plain processes below the client, with the pids of the node: nothing knows
them by name, and they are found and ended like any process of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from muster.image_names import HUB, full_name

OWNER_LABEL = "muster.owner"
"""Label of a container: the mark of its agent. Other agents may use the same engine."""
ALLOCATION_LABEL = "muster.allocation"
_BOUND_DEVICES = frozenset({"/dev/infiniband"})
"""Devices that a container of Apptainer does not have by itself, GPUs aside."""
NAME_VARIABLE = "MUSTER_CONTAINER"
"""Variable of every process of a container: its name."""

EngineKind = Literal["podman", "docker", "apptainer"]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A container engine that has run a container on this node."""

    kind: EngineKind
    path: str
    version: str = ""
    is_rootless: bool = False
    """Whether root in a container is the agent's user outside."""
    has_limits: bool = True
    """Whether the engine limits memory and processes; else it ignores such limits silently."""
    has_cdi: bool = False
    """Whether GPUs are described for it by the Container Device Interface."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that its client needs."""

    @property
    def is_plain(self) -> bool:
        """Whether its containers are plain processes of the agent's user, and its images files."""
        return self.kind == "apptainer"

    def user(self, uid: int | None, *, own: int) -> int:
        """Return the user in the container.

        uid: that of the job; None for the agent's, `own`. The user that an image names could not
        write the work folder.
        """
        if uid is not None:
            return uid
        if self.is_plain:
            return own
        return 0 if self.is_rootless else own


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A path of the node in a container."""

    source: str
    target: str
    is_writable: bool = False

    @staticmethod
    def parse(text: str) -> Mount:
        """Read an entry of `environment.mounts`, whose form the document's check guarantees."""
        source, *rest = text.split(":")
        mode = rest.pop() if rest and rest[-1] in ("ro", "rw") else "ro"
        return Mount(source=source, target=rest[0] if rest else source, is_writable=mode == "rw")


@dataclass(frozen=True, kw_only=True)
class Container:
    """The container of one allocation."""

    engine: Engine
    image: str
    """Id of the image, or its file. A tag may mean another image by now."""
    name: str
    owner: str
    """Mark of the agent, without its host."""
    allocation_id: str
    python: str
    """Interpreter in the image."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that the image sets."""
    marks: dict[str, str] = field(default_factory=dict)
    """Variables by which its processes are found from outside."""
    mounts: list[Mount] = field(default_factory=list)
    network: str = "host"
    shm_bytes: int = 0
    """Size of /dev/shm; 0 for the engine's default."""
    memory_bytes: int = 0
    """Limit of memory; 0 for none."""
    gpus: list[str] = field(default_factory=list)
    """UUIDs of its NVIDIA devices: an index moves when another device is lost."""
    takes_stdin: bool = False
    is_helper: bool = False
    """Whether it is removed when it ends, because nobody asks how."""


def helper_of(container: Container, name: str, *, takes_stdin: bool = False) -> Container:
    """Return a container for a program beside the job, which needs no GPU."""
    return replace(
        container,
        name=f"{container.name}-{name}",
        takes_stdin=takes_stdin,
        is_helper=True,
        gpus=[],
    )


def registry_of(image: str) -> str:
    """Return the key under which engines look up a login for an image."""
    registry = full_name(image).partition("/")[0]
    return "https://index.docker.io/v1/" if registry == HUB else registry


def run_argv(
    container: Container,
    argv: Sequence[str],
    *,
    user: int,
    is_confined: bool,
    read: Iterable[str],
    write: Iterable[str],
    tmp: str,
    devices: Iterable[str],
) -> list[str]:
    """Return the command that runs `argv` in a new container.

    user: user and group in the container. is_confined: whether the node isolates jobs, which then
    have no capability. read, write: paths of the node that stand at the same place inside. tmp:
    folder that stands at /tmp. devices: device files.
    """
    engine = container.engine
    volumes = _mounts(container, read=read, write=write, tmp=tmp)
    if engine.is_plain:
        binds = [
            *volumes,
            *(f"{device}:{device}" for device in devices if device in _BOUND_DEVICES),
        ]
        return _apptainer_argv(container, argv, is_confined=is_confined, binds=binds)
    found = [
        engine.path, "run", "--name", container.name, "--init", "--pull", "never",
        "--network", container.network, "--log-driver", "none",
        "--label", f"{OWNER_LABEL}={container.owner}",
        "--label", f"{ALLOCATION_LABEL}={container.allocation_id}",
        "--user", f"{user}:{user}", "--workdir", "/",
        # Relabelling would change who may read the files outside.
        "--security-opt", "label=disable",
    ]  # fmt: skip
    if container.is_helper:
        found.append("--rm")
    if container.takes_stdin:
        found.append("--interactive")
    if user or is_confined:
        found += ["--security-opt", "no-new-privileges"]
    if is_confined:
        found += ["--cap-drop", "all"]
    if container.shm_bytes:
        found += ["--shm-size", str(container.shm_bytes)]
    found += _limits(container)
    for name, value in {**container.marks, NAME_VARIABLE: container.name}.items():
        found += ["--env", f"{name}={value}"]
    found += _devices(container, devices)
    found += [word for volume in volumes for word in ("--volume", volume)]
    return [*found, "--entrypoint", argv[0], container.image, *argv[1:]]


def _apptainer_argv(
    container: Container, argv: Sequence[str], *, is_confined: bool, binds: Sequence[str]
) -> list[str]:
    """Return the command for Apptainer. It has no pid namespace, so that the job's processes are found
    as they are without a container. `--nv` shows all GPUs of the node: which of them the job uses is
    CUDA_VISIBLE_DEVICES' to say."""
    found = [
        container.engine.path, "exec", "--contain", "--ipc", "--cleanenv", "--no-home", "--pwd", "/",
    ]  # fmt: skip
    if is_confined:
        found.append("--no-privs")
    if container.gpus:
        found.append("--nv")
    for name, value in {**container.marks, NAME_VARIABLE: container.name}.items():
        found += ["--env", f"{name}={value}"]
    found += [word for bind in binds for word in ("--bind", bind)]
    return [*found, container.image, *argv]


def exec_argv(
    container: Container, argv: Sequence[str], *, user: int, has_terminal: bool
) -> list[str]:
    """Return the command that runs `argv` in a running container."""
    terminal = ["--tty"] if has_terminal else []
    engine = container.engine
    return [
        engine.path, "exec", "--interactive", *terminal, "--user", f"{user}:{user}",
        container.name, *argv,
    ]  # fmt: skip


def _limits(container: Container) -> list[str]:
    """Return the limits. The engine's own limit of processes is too low for many DataLoaders; that of
    the document is the shim's to measure, because a job that may start no thread only waits."""
    if not container.engine.has_limits:
        return []
    found = ["--pids-limit", "-1"]
    if container.memory_bytes:
        size = str(container.memory_bytes)
        found += ["--memory", size, "--memory-swap", size]
    return found


def _devices(container: Container, devices: Iterable[str]) -> list[str]:
    found: list[str] = []
    if container.engine.has_cdi:
        for uuid in container.gpus:
            found += ["--device", f"nvidia.com/gpu={uuid}"]
    elif container.gpus:
        found += ["--gpus", f'"device={",".join(container.gpus)}"']
    for device in devices:
        if not device.startswith("/dev/nvidia"):
            found += ["--device", device]
            if device == "/dev/infiniband":
                found += ["--ulimit", "memlock=-1:-1"]
    return found


def _mounts(
    container: Container, *, read: Iterable[str], write: Iterable[str], tmp: str
) -> list[str]:
    mounts = {"/tmp": f"{tmp}:/tmp:rw"}  # noqa: S108
    mounts |= {path: f"{path}:{path}:ro" for path in read}
    mounts |= {path: f"{path}:{path}:rw" for path in write}
    for mount in container.mounts:
        mode = "rw" if mount.is_writable else "ro"
        mounts.setdefault(mount.target, f"{mount.source}:{mount.target}:{mode}")
    # Outer ones first: they would cover the inner ones.
    ordered = sorted(mounts, key=lambda path: (path.count("/"), path))
    return [mounts[path] for path in ordered]
