"""requirements.lock against pyproject.toml and what is installed; without the network."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
PLATFORMS = [
    {"python_version": version, "python_full_version": f"{version}.{patch}", "sys_platform": system}
    for version, patch in [("3.11", 2), ("3.11", 9), ("3.12", 1), ("3.13", 0), ("3.14", 0)]
    for system in ("linux", "darwin")
]
UNLOCKED = {"muster-train", "muster-models", "torch"}
"""This project, its parts, and what pyproject.toml says why."""


class Pin(NamedTuple):
    version: str
    marker: Marker | None
    num_hashes: int


def read_lock(text: str) -> dict[str, list[Pin]]:
    """Return the pins of each package: several where they depend on the platform."""
    pins: dict[str, list[Pin]] = {}
    for entry in re.split(r"^(?=[^ #])", text, flags=re.MULTILINE)[1:]:
        match = re.match(r"(\S+)==(\S+)(?: ; (.+?))?(?: \\|$)", entry)
        assert match, entry
        name, version, marker = match.groups()
        num_hashes = len(
            re.findall(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$", entry, re.MULTILINE)
        )
        pin = Pin(version, Marker(marker) if marker else None, num_hashes)
        pins.setdefault(canonicalize_name(name), []).append(pin)
    return pins


def find_gaps(
    lock: dict[str, list[Pin]], wanted: list[Requirement], platform: dict[str, str]
) -> list[str]:
    """Return the requirements for which the lock does not have exactly one fitting version."""
    environment = {**default_environment(), **platform}
    gaps = []
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        if name in UNLOCKED or (
            requirement.marker and not requirement.marker.evaluate({**environment, "extra": ""})
        ):
            continue
        versions = [
            pin.version
            for pin in lock.get(name, [])
            if pin.marker is None or pin.marker.evaluate(environment)
        ]
        if len(versions) != 1 or not requirement.specifier.contains(versions[0], prereleases=True):
            gaps.append(f"{requirement}: {', '.join(versions) or 'nothing'}")
    return gaps


TEXT = (ROOT / "requirements.lock").read_text()
LOCK = read_lock(TEXT)
DIRECT = [
    Requirement(line)
    for line in [
        *PROJECT["build-system"]["requires"],
        *(line for lines in [*EXTRAS.values(), *GROUPS.values()] for line in lines),
    ]
]


def test_every_package_has_hashes_and_no_address() -> None:
    assert [name for name, pins in LOCK.items() if any(pin.num_hashes == 0 for pin in pins)] == []
    lines = [line for line in TEXT.splitlines() if not line.startswith((" ", "#"))]
    assert len(lines) == sum(len(pins) for pins in LOCK.values())
    assert "://" not in TEXT
    assert not re.search("(?m)^-", TEXT)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: " ".join(p.values()))
def test_it_has_what_pyproject_asks_for(platform: dict[str, str]) -> None:
    """Otherwise: renew it with the command in CONTRIBUTING.md."""
    assert find_gaps(LOCK, DIRECT, platform) == []


def test_it_has_what_the_installed_packages_depend_on() -> None:
    """Torch's dependencies, which pyproject.toml repeats, included; its CUDA libraries are not."""
    waiting = [Requirement(f"muster-train[{','.join(EXTRAS)}]"), *DIRECT]
    seen: set[tuple[str, str]] = set()
    gaps = []
    while waiting:
        requirement = waiting.pop()
        for extra in ["", *requirement.extras]:
            key = (canonicalize_name(requirement.name), extra)
            if key in seen or (
                requirement.marker and not requirement.marker.evaluate({"extra": ""})
            ):
                continue
            seen.add(key)
            try:
                lines = importlib.metadata.requires(requirement.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            for needed in map(Requirement, lines):
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    needed.marker = None
                    waiting.append(needed)
                    if not (key[0] == "torch" and re.match("nvidia-|cuda-|triton", needed.name)):
                        gaps += find_gaps(LOCK, [needed], {})
    assert len(seen) > 100
    assert gaps == []


@pytest.mark.parametrize(
    ("line", "gap"),
    [
        ("fastapi>=0.128", []),
        ("fastapi>=99", ["fastapi>=99: 1.0"]),
        ("flask", ["flask: nothing"]),
        ("flask; sys_platform == 'win32'", []),
        ("numpy>=2", []),
        ("numpy>=2.5", ["numpy>=2.5: 2.4"]),
        ("torch", []),
    ],
)
def test_a_gap_is_found(line: str, gap: list[str]) -> None:
    pinned = [
        "fastapi==1.0 \\",
        f"    --hash=sha256:{'0' * 64}",
        "    # via muster-train",
        "numpy==2.4 ; python_full_version < '3.12' \\",
        "numpy==2.5 ; python_full_version >= '3.12' \\",
    ]
    lock = read_lock("# made by\n" + "\n".join(pinned) + "\n")
    assert [pin.num_hashes for pins in lock.values() for pin in pins] == [1, 0, 0]
    platform = {"python_full_version": "3.11.9", "sys_platform": "linux"}
    assert find_gaps(lock, [Requirement(line)], platform) == gap


def test_the_version_of_torch_is_the_same_everywhere() -> None:
    (pin,) = (line for line in GROUPS["torch"] if line.startswith("torch=="))
    for name in ("agent/Dockerfile", "docker-compose.yml", "docs/guides/compose.md"):
        versions = re.findall(r"torch==[\w.]+", (ROOT / name).read_text())
        assert set(versions) == {pin}, name
