"""PREPARE of a job with an image: the image, and the container that its processes will run in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from muster import wire
from muster.byte_sizes import parse_size
from muster.document.running import EnvironmentSection
from muster_agent.containers import images
from muster_agent.containers.cache import ImageCache
from muster_agent.isolation.cdi import undescribed
from muster_agent.isolation.containers import Container, Engine, Mount
from muster_agent.isolation.variables import MARK
from muster_agent.isolation.walls import Isolation, why_not_readable
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.launch import environment_of
from muster_agent.jobs.process import OWNER_VARIABLE, TOKEN_VARIABLE
from muster_agent.records.logs import launcher_log
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.limits import limits_of
from muster_agent.shim.preparation.work import Tell

DEFAULT_PYTHON = "python3"


def open_image(
    spec: wire.AllocationSpec,
    options: ShimOptions,
    folder: AllocationFolder,
    *,
    secrets: Mapping[str, str],
    tell: Tell,
    is_canceled: Callable[[], bool],
) -> tuple[Container, images.Image] | tuple[None, None]:
    """Return the container of a job and its image, pulled if need be; nothing if the document names
    no image. Blocks. Raises PrepareFailed and BuildCanceled."""
    wanted = environment_of(spec)
    if wanted.image is None:
        return None, None
    engine = options.engine
    if engine is None:
        raise PrepareFailed(
            f"image {wanted.image} needs a container engine, and none works on this node now"
        )
    if engine.is_plain:
        check_plain(wanted, options.isolation)
    gpus = _gpus_of(spec, engine, options.isolation)
    mounts = [Mount.parse(text) for text in wanted.mounts]
    for mount in mounts:
        _check_mount(mount, options.isolation)
    cache = ImageCache(Path(options.images), limit_bytes=options.images_limit_bytes)
    log = launcher_log(folder.logs, "stdout")
    try:
        image = images.get(
            engine,
            wanted.image,
            policy=wanted.pull_policy,
            login=secrets.get(wanted.registry_login or "", ""),
            cache=cache,
            log=log,
            is_canceled=is_canceled,
        )
    except images.NoImage as error:
        raise PrepareFailed(str(error), blames=error.fault, passes=error.fault == "node") from error
    if image.was_pulled:
        _trim(cache, engine, log=log, tell=tell)
    limits = limits_of(spec, memory_share_bytes=options.memory_share_bytes)
    if (limits.memory_bytes or limits.processes) and not engine.has_limits:
        tell(
            "info",
            f"{engine.kind} ignores limits of memory and processes on this node, so Muster measures "
            "them: a job that exceeds one is ended within a second or so",
        )
    memory_bytes = limits.memory_bytes or psutil.virtual_memory().total
    owner = folder.owner.partition("@")[0]
    marks = {TOKEN_VARIABLE: spec.allocation_id, OWNER_VARIABLE: folder.owner}
    if MARK in os.environ:
        marks[MARK] = os.environ[MARK]
    container = Container(
        engine=engine,
        image=image.file or image.id,
        name=f"muster-{owner}-{spec.allocation_id}",
        owner=owner,
        allocation_id=spec.allocation_id,
        python=_python_of(spec.python),
        environment=image.environment,
        marks=marks,
        mounts=mounts,
        network=wanted.network,
        shm_bytes=parse_size(wanted.shm_size) if wanted.shm_size else memory_bytes // 2,
        memory_bytes=limits.memory_bytes,
        gpus=gpus,
    )
    return container, image


def _gpus_of(spec: wire.AllocationSpec, engine: Engine, isolation: Isolation) -> list[str]:
    """Return the UUIDs of the devices that a container is given. Raises PrepareFailed."""
    if spec.slot_type == "cpu":
        return []
    gpus = list(isolation.gpus or ())
    if not gpus:
        raise PrepareFailed(
            "the driver of this node does not tell the UUIDs of the job's devices, by which a container "
            "is given NVIDIA GPUs",
            blames="node",
        )
    if engine.has_cdi and (unknown := undescribed(gpus)):
        raise PrepareFailed(
            f"the description of this node's GPUs for containers does not name {unknown[0]}: write it "
            "again with `nvidia-ctk cdi generate --device-name-strategy=uuid "
            "--output=/etc/cdi/nvidia.yaml`",
            blames="node",
        )
    return gpus


def check_plain(wanted: EnvironmentSection, isolation: Isolation) -> None:
    """Raise PrepareFailed if Apptainer cannot do what a document or this node wants."""
    if wanted.network != "host":
        raise PrepareFailed(
            f"environment.network is {wanted.network}, and Apptainer, which this node has, gives "
            "containers the network of the host"
        )
    if wanted.shm_size is not None:
        raise PrepareFailed(
            "environment.shm_size is set, and Apptainer, which this node has, cannot set the size of "
            "/dev/shm"
        )
    if isolation.uid is not None:
        raise PrepareFailed(
            "this node runs jobs as other users, as which Apptainer starts no container: run its "
            "agent without root, or set MUSTER_AGENT_ISOLATION=none there"
        )


def _trim(cache: ImageCache, engine: Engine, *, log: Path, tell: Tell) -> None:
    """Delete images that exceed the limit of the node, and say so."""
    try:
        deleted, problems = cache.trim(engine)
    except OSError as error:  # The job has its image all the same.
        deleted, problems = [], [f"images could not be deleted: {error}"]
    limit = f"MUSTER_AGENT_IMAGES_LIMIT_BYTES ({cache.limit_bytes / 1e9:,.1f} GB)"
    lines = [
        f"deleted the image {image.names[0]} ({image.size_bytes / 1e9:,.1f} GB), which was not used "
        f"for the longest time: the images pulled on this node exceeded {limit}"
        for image in deleted
    ]
    for line in lines:
        tell("info", line)
    with contextlib.suppress(OSError), log.open("a") as file:
        file.writelines(f"[setup] {line}\n" for line in [*lines, *problems])


def _python_of(wanted: str | None) -> str:
    """Return the interpreter in the image: a version stands for the program of its name."""
    if wanted is None:
        return DEFAULT_PYTHON
    if wanted[:1].isdigit():
        return f"python{'.'.join(wanted.split('.')[:2])}"
    return wanted


def _check_mount(mount: Mount, isolation: Isolation) -> None:
    """Raise PrepareFailed if a path of the node cannot be mounted, or this job may not have it."""
    path = Path(mount.source)
    if not path.exists():
        raise PrepareFailed(
            f"{mount.source}, which environment.mounts names, does not exist on this node"
        )
    real = path.resolve()
    if mount.is_writable and isolation.is_on:
        if not any(real.is_relative_to(folder) for folder in isolation.write):
            raise PrepareFailed(
                f"this node isolates jobs, so {mount.source} can be mounted writable only if "
                "MUSTER_AGENT_JOB_WRITES names it there"
            )
    elif why := why_not_readable(isolation, path):
        raise PrepareFailed(
            f"{mount.source} cannot be mounted: {why}; name the folder in MUSTER_AGENT_JOB_READS "
            "on the node"
        )
