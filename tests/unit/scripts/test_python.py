"""Which Python a checkout is set up with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def add_python(folder: Path, name: str, *, is_new: bool = True, is_optimized: bool = False) -> None:
    """A program that answers the script's two questions."""
    program = folder / name
    program.write_text(
        f'#!/bin/sh\ncase "$2" in\n*CONFIG_ARGS*) exit {1 - (is_new and is_optimized)} ;;\n'
        f"*) exit {int(not is_new)} ;;\nesac\n"
    )
    program.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    scripts = tmp_path / "checkout" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "python.sh", scripts)
    (scripts / "which").write_text(
        'set -eu\n. "$(dirname -- "$0")/python.sh"\necho "$MUSTER_PYTHON" "$@"\n'
    )
    return tmp_path / "checkout"


def which(checkout: Path, path: Path) -> str:
    result = subprocess.run(
        ["/bin/sh", str(checkout / "scripts" / "which"), "an", "argument"],
        env={"PATH": f"{path}{os.pathsep}/bin"}, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    return result.stdout.strip()


def test_an_optimized_python_comes_before_one_that_is_not(checkout: Path, tmp_path: Path) -> None:
    add_python(tmp_path, "python3", is_new=False, is_optimized=True)
    add_python(tmp_path, "python3.13")
    add_python(tmp_path, "python3.12", is_optimized=True)
    assert which(checkout, tmp_path) == "python3.12 an argument"


def test_the_environment_of_the_checkout_stays(checkout: Path, tmp_path: Path) -> None:
    add_python(tmp_path, "python3", is_optimized=True)
    own = checkout / ".venv" / "bin"
    own.mkdir(parents=True)
    add_python(own, "python")
    assert which(checkout, tmp_path) == f"{own}/python an argument"
