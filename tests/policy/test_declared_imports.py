"""Every package that the sources import is declared by an extra that their process is installed with;
what happens to be there in a development environment does not count."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
OWN = {"muster", "muster_agent", "muster_server", "muster_models"}
OF_A_SCRIPT = {
    "IPython", "accelerate", "keras", "lightgbm", "lightning", "onnxruntime", "pandas", "polars", "tensorboard",
    "transformers", "wandb", "xgboost",
}  # fmt: skip
"""Libraries that only a user's script, notebook or document brings along."""


NOT_INSTALLED = {"backports": ["backports.tarfile"], "pynvml": ["nvidia-ml-py"]}
"""Packages that are there on some machines only, by the name they are imported under."""


@functools.cache
def packages() -> Mapping[str, list[str]]:
    """Return the packages that have a module of a name; to find all reads the files of each."""
    return NOT_INSTALLED | dict(importlib.metadata.packages_distributions())


@functools.cache
def closure(extras: frozenset[str]) -> set[str]:
    """Return the packages of these extras and what they depend on, as far as it is installed."""
    left = [Requirement(line) for extra in extras for line in EXTRAS[extra]]
    found: set[str] = set()
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found.add(name)
        try:
            needed = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for line in needed:
            other = Requirement(line)
            contexts = [{"extra": extra} for extra in ("", *requirement.extras)]
            if other.marker is None or any(other.marker.evaluate(each) for each in contexts):
                left.append(other)
    return found


def imported(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name.partition(".")[0], path
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield node.module.partition(".")[0], path


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        *(
            (str(path.relative_to(ROOT)), {"local"} if path.name == "local" else {"server", "cold"})
            for path in sorted((ROOT / "server/muster_server").iterdir())
            if path.suffix == ".py"
            or (path.is_dir() and path.name not in ("static", "__pycache__"))
        ),
        ("parts/models/muster_models", {"server", "cli"}),
        ("agent/muster_agent", {"agent", "gpu"}),
        # What server and agent share is below it, too.
        ("trainer/muster", {"cli", "train", "serve", "s3", "agent", "otel", "mcp", "sessions"}),
    ],
)
def test_imports_are_declared(folder: str, extras: set[str]) -> None:
    declared = closure(frozenset(extras))
    missing = {
        f"{name} in {path.relative_to(ROOT)}"
        for name, path in imported(ROOT / folder)
        if name not in sys.stdlib_module_names | OWN | OF_A_SCRIPT
        and not declared & {canonicalize_name(each) for each in packages().get(name, [name])}
    }
    assert missing == set()
