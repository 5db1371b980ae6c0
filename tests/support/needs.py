"""Programs of the system that tests start, and how they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

from .browser import PACKAGES as BROWSERS
from .browser import find_browser
from .nodes import containers
from .postgres import find_binaries

_PLACES = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


def _has(*programs: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(program, path=_PLACES) for program in programs)


def _has_engine() -> bool:
    engine, _ = containers.find_engine.__wrapped__()  # it may have come meanwhile
    return engine is not None


@dataclass(frozen=True, kw_only=True)
class Need:
    """What the tests of some areas need from the system."""

    tests: str
    areas: frozenset[str]
    is_there: Callable[[], bool]
    packages: tuple[str, ...]
    """Names of Debian's packages. One that has an alternative names both, the better one first: "a|b"."""
    is_required: bool = False
    """Whether the areas fail without it. Otherwise these tests are skipped, and the summary says so."""


NEEDS = (
    Need(
        tests="browser tests",
        areas=frozenset({"e2e"}),
        is_there=lambda: find_browser() is not None,
        packages=("|".join(BROWSERS),),
        is_required=True,
    ),
    Need(
        tests="tests of deployments",
        areas=frozenset({"e2e", "integration"}),
        is_there=_has("haproxy"),
        packages=("haproxy",),
        is_required=True,
    ),
    Need(
        tests="tests on PostgreSQL",
        areas=frozenset({"unit", "api", "loops", "integration", "chaos"}),
        is_there=lambda: find_binaries() is not None,
        packages=("postgresql",),
    ),
    Need(
        tests="tests of containers",
        areas=frozenset({"agent", "integration"}),
        is_there=_has_engine,
        packages=("podman", "runc"),
    ),
    Need(
        tests="tests of sandboxes",
        areas=frozenset({"agent", "integration"}),
        is_there=_has("bwrap"),
        packages=("bubblewrap",),
    ),
    Need(
        tests="tests of setting up nodes over ssh",
        areas=frozenset({"integration"}),
        is_there=_has("sshd", "ssh", "ssh-keygen"),
        packages=("openssh-server", "openssh-client"),
    ),
    Need(
        tests="tests of alert rules",
        areas=frozenset({"policy", "integration"}),
        is_there=_has("promtool"),
        packages=("prometheus",),
    ),
    Need(
        tests="tests of Slurm",
        areas=frozenset({"integration"}),
        is_there=_has("slurmctld", "slurmd", "sbatch"),
        packages=("slurm-wlm",),
    ),
)


def provide(areas: Collection[str]) -> set[str]:
    """Install what the tests of these areas need and is not there, where we may; return the areas that
    cannot run all the same, having said why."""
    missing = [need for need in NEEDS if need.areas & set(areas) and not need.is_there()]
    apt = shutil.which("apt-get")
    if missing and apt and os.geteuid() == 0:
        _install(apt, [package for need in missing for package in need.packages])
    lacking: set[str] = set()
    for need in missing:
        if need.is_there():
            continue
        package = " ".join(name.split("|")[-1] for name in need.packages)
        if not need.is_required:
            print(f"warning: the {need.tests} are skipped; they need {package}", flush=True)
            continue
        lacking |= need.areas & set(areas)
        own = ", or set CHROME to its path" if package == BROWSERS[-1] else ""
        print(
            f"error: the {need.tests} need {package}, and there is none here.\n"
            f"hint: install it (Debian: apt-get install {package}){own}; to leave these tests out, "
            "name the other areas: scripts/test unit api …",
            file=sys.stderr,
            flush=True,
        )
    return lacking


def _install(apt: str, packages: list[str]) -> None:
    # A service that starts with its package would take a port, and is not needed.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}

    def call(*arguments: str) -> bool:
        run = subprocess.run(
            [apt, "-q", *arguments], env=quiet, check=False, stdout=subprocess.DEVNULL
        )
        return run.returncode == 0

    names = [package.split("|")[0] for package in packages]
    print(f"installing {' '.join(names)} for the tests", flush=True)
    call("update")
    for package in packages:
        for name in package.split("|"):
            if call("install", "-y", name):
                break
