"""Which container engine works on this node.

That an engine describes itself does not mean that it can run anything: limits, cgroups and user
namespaces fail only then. So a container is run, with the options that jobs get.
"""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from muster.wire import Inventory
from muster_agent.containers.client import EngineFailed, call, call_json, last_words
from muster_agent.isolation.cdi import cdi_files
from muster_agent.isolation.containers import Container, Engine, EngineKind, run_argv
from muster_agent.isolation.walls import outer_environment_of
from muster_agent.settings import ContainerSetting

PROBE_TIMEOUT_S = 60.0
PROBE_IMAGE = "localhost/muster-probe:1"
"""Name of an image without files, in which a program of this node is run."""
_AUTOMATIC: tuple[EngineKind, ...] = ("podman", "docker")
"""Engines that are chosen without being named. Apptainer lacks what jobs may ask for."""
_PROGRAM = "/usr/bin/true"
_CLIENT_VARIABLES = (
    "PATH", "HOME", "USER", "TMPDIR", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "CONTAINERS_*",
    "CONTAINER_HOST", "DOCKER_*", "APPTAINER_*", "SINGULARITY_*", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy",
    "https_proxy", "no_proxy",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineProbe:
    """The engine of a node, and what a person should know of it."""

    engine: Engine | None = None
    reason: str = ""
    """Why there is none, or what it does not do, as a sentence; "" for neither."""

    def added_to(self, inventory: Inventory) -> Inventory:
        """Return the inventory with what belongs into it of the engine."""
        return dataclasses.replace(
            inventory,
            container_runtime=self.engine.kind if self.engine is not None else "",
            container_version=self.engine.version if self.engine is not None else "",
            container_reason=self.reason,
        )


def find(wanted: ContainerSetting, environment: Mapping[str, str]) -> EngineProbe:
    """Return the first engine that works; `environment` is the agent's own. Blocks."""
    if wanted == "none":
        return EngineProbe(reason="MUSTER_AGENT_CONTAINERS is none.")
    reasons = []
    kinds: tuple[EngineKind, ...] = _AUTOMATIC if wanted == "auto" else (wanted,)
    variables = {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in _CLIENT_VARIABLES)
    }
    for kind in kinds:
        path = _path_of(kind, environment.get("PATH"))
        if path is None:
            if wanted != "auto":
                reasons.append(f"{kind} is not installed.")
            continue
        try:
            engine = _describe(Engine(kind=kind, path=path, environment=variables))
            _probe(engine)
        except EngineFailed as error:
            reasons.append(f"{kind} does not work: {str(error).rstrip('.?')}.")
            continue
        return EngineProbe(engine=engine, reason=_shortcomings(engine))
    return EngineProbe(reason=" ".join(reasons) or "Neither Podman nor Docker is installed.")


def _path_of(kind: EngineKind, path: str | None) -> str | None:
    """Return the program of an engine; that of Apptainer may have its older name."""
    found = shutil.which(kind, path=path)
    if found is None and kind == "apptainer":
        found = shutil.which("singularity", path=path)
    return found


def _describe(engine: Engine) -> Engine:
    if engine.is_plain:
        words = call(engine, "--version").split()
        version = words[-1] if words else ""
        return dataclasses.replace(engine, version=version, is_rootless=True, has_limits=False)
    info = call_json(engine, "info", "--format", "{{json .}}")
    has_cdi = any(cdi_files())
    if engine.kind == "podman":
        host = info["host"]
        is_rootless = bool(host["security"]["rootless"])
        return dataclasses.replace(
            engine,
            version=str(info["version"]["Version"]),
            is_rootless=is_rootless,
            has_limits=not (is_rootless and host.get("cgroupVersion") == "v1"),
            has_cdi=has_cdi,
        )
    if problems := info.get("ServerErrors"):
        raise EngineFailed(str(problems[0]))
    version = str(info.get("ServerVersion", ""))
    is_rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or [])
    major = version.partition(".")[0]
    return dataclasses.replace(
        engine,
        version=version,
        is_rootless=is_rootless,
        has_limits=bool(info.get("MemoryLimit")) and bool(info.get("PidsLimit")),
        has_cdi=has_cdi and major.isdigit() and int(major) >= 25,
    )


def _probe(engine: Engine) -> None:
    """Run a program in a container. Raises EngineFailed."""
    if engine.is_plain:
        with tempfile.TemporaryDirectory(prefix="muster-probe-") as image:
            for name in ("dev", "etc", "lib", "lib64", "proc", "sys", "tmp", "usr", "var"):
                (Path(image) / name).mkdir()
            _run_probe(engine, image)
        return
    try:
        call(engine, "image", "inspect", PROBE_IMAGE)
    except EngineFailed:
        _make_probe_image(engine)
    _run_probe(engine, PROBE_IMAGE)


def _run_probe(engine: Engine, image: str) -> None:
    libraries = [path for path in ("/usr", "/lib", "/lib64") if Path(path).is_dir()]
    container = Container(
        engine=engine,
        image=image,
        name=f"muster-probe-{os.getpid()}",
        owner="probe",
        allocation_id="probe",
        python=_PROGRAM,
        memory_bytes=256 * 2**20,
        is_helper=True,
    )
    argv = run_argv(
        container,
        [_PROGRAM],
        user=engine.user(None, own=os.getuid()),
        is_confined=False,
        read=libraries,
        write=(),
        tmp="/tmp",  # noqa: S108
        devices=(),
    )
    call(engine, *argv[1:], timeout_s=PROBE_TIMEOUT_S)


def _make_probe_image(engine: Engine) -> None:
    """Import an image that holds nothing but an empty file. Raises EngineFailed."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("muster-probe"))
    try:
        done = subprocess.run(
            [engine.path, "import", "-", PROBE_IMAGE],
            env=outer_environment_of(engine),
            cwd="/",
            input=archive.getvalue(),
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineFailed(str(error)) from error
    if done.returncode != 0:
        raise EngineFailed(last_words(done.stderr))


def _shortcomings(engine: Engine) -> str:
    if engine.has_limits:
        return ""
    return f"{engine.kind} ignores limits of memory and processes here, so Muster measures them itself."
