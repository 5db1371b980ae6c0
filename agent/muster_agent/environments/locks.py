"""Whether a uv.lock still belongs to the pyproject.toml beside it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

NAMED_MAX = 5
"""Packages that a sentence names."""

Wanted = Mapping[str, SpecifierSet]


def why_outdated(lock: Path) -> str:
    """Return a sentence that says what a uv.lock lacks of the pyproject.toml beside it, as far as
    its own dependencies tell; "" if it fits or if one of the files cannot be understood."""
    try:
        project = tomllib.loads(lock.with_name("pyproject.toml").read_text())["project"]
        name = canonicalize_name(project["name"])
        wanted = _wanted(project.get("dependencies", []))
        locked = _locked(tomllib.loads(lock.read_text()), name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidRequirement):
        return ""
    if locked is None or wanted == locked:
        return ""
    changed = sorted(n for n in wanted.keys() | locked.keys() if wanted.get(n) != locked.get(n))
    named = ", ".join(changed[:NAMED_MAX]) + (" and others" if len(changed) > NAMED_MAX else "")
    return (
        f"uv.lock is older than pyproject.toml, which has other requirements of {named}: what is "
        "locked is installed. `uv lock` brings it up to date"
    )


def _wanted(dependencies: list[str]) -> Wanted:
    found = [Requirement(text) for text in dependencies]
    return _together((one.name, one.specifier) for one in found)


def _locked(lock: Mapping[str, Any], name: str) -> Wanted | None:
    """Return what the project required when it was locked; None if the lock is of another one."""
    for package in lock["package"]:
        if package["name"] == name and not package["source"].keys() & {"registry", "git", "url"}:
            return _together(
                (one["name"], SpecifierSet(one.get("specifier", "")))
                for one in package.get("metadata", {}).get("requires-dist", [])
                if "extra ==" not in one.get("marker", "")
            )
    return None


def _together(requirements: Iterable[tuple[str, SpecifierSet]]) -> Wanted:
    """Return the requirements by package; several of one package count together."""
    found: dict[str, SpecifierSet] = {}
    for name, specifier in requirements:
        key = canonicalize_name(name)
        found[key] = found.get(key, SpecifierSet()) & specifier
    return found
