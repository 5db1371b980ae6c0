"""A container engine for tests, and an image that needs no registry: it is empty, and the programs and
libraries of this machine are mounted into it.

Podman is tried, or the engine that the variable MUSTER_TEST_ENGINE names (`docker`).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from pathlib import Path

from muster_agent.containers import engines
from muster_agent.isolation.containers import Engine, EngineKind

IMAGE = engines.PROBE_IMAGE
MOUNTS = [
    path
    for path in dict.fromkeys(
        ("/usr", "/bin", "/lib", "/lib64", "/etc", sys.prefix, sys.base_prefix)
    )
    if Path(path).exists()
]


@functools.cache
def find_engine() -> tuple[Engine | None, str]:
    """Return the engine, or why there is none."""
    wanted: EngineKind = "docker" if os.environ.get("MUSTER_TEST_ENGINE") == "docker" else "podman"
    found = engines.find(wanted, os.environ)
    if found.engine is None and wanted == "podman":
        found = engines.find(wanted, {**os.environ, **variables()})
    return found.engine, found.reason


def variables() -> dict[str, str]:
    """Return the variables with which Podman works on machines with few rights."""
    return {"CONTAINERS_CONF": str(Path(__file__).with_suffix(".conf"))}


def with_registry(engine: Engine, address: str, folder: Path) -> Engine:
    """Return the engine as one that trusts the registry at `address` without TLS, as Docker trusts
    everything on the loopback interface. folder: for the file that says so."""
    registries = folder / "registries.conf"
    registries.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
    environment = {**engine.environment, "CONTAINERS_REGISTRIES_CONF": str(registries)}
    return dataclasses.replace(engine, environment=environment)


def section(**more: object) -> dict[str, object]:
    """Return the section `environment` of a document whose job runs in the image."""
    return {
        "image": IMAGE,
        "pull_policy": "never",
        "mounts": MOUNTS,
        "python": sys.executable,
        **more,
    }
