"""The recipes of CONTRIBUTING.md work: a toy of each is added to a copy of the tree, and used there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster_server.domain.notifications.kinds import EVENTS
from support.recipes import RECIPES, add

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("server/muster_server", "trainer/muster", "migrations", "docs", "examples")
MAX_FILES = 5


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree with a toy of every recipe."""
    root = tmp_path / "tree"
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("static", "images"))
    (root / "tests").mkdir()
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copy(ROOT / "tests" / "conftest.py", root / "tests")
    shutil.copy(ROOT / "tests" / "policy" / "check_toys.py", root / "tests" / "test_toys.py")
    for toy, _ in RECIPES.values():
        add(toy, root)
    return root


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_names_the_files_that_its_toy_needs(title: str) -> None:
    toy, placeholders = RECIPES[title]
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(rf"\*\*{title}\.\*\*(.*?)\n\n", text, re.DOTALL)
    assert found is not None
    named = {
        name.replace("NAME", placeholders.get("NAME", "NAME"))
        for name in re.findall(r"`([\w./-]+)`", found[1])
        if name.split("/")[0] in ("server", "trainer", "agent", "frontend", "docs", "examples")
    }
    assert named == toy.keys()
    assert len(named) <= MAX_FILES


def test_what_the_recipes_add_works(tree: Path) -> None:
    tests = [f"test_{title.removeprefix('A ').replace(' ', '_')}" for title in RECIPES]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *(f"tests/test_toys.py::{test}" for test in tests),
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree / 'server'}:{tree / 'trainer'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2000:]
    assert f"{len(RECIPES)} passed" in done.stdout


def test_the_guide_says_when_each_notification_is_sent() -> None:
    guide = (ROOT / "docs" / "guides" / "notifications.md").read_text()
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (.*?) \|$", guide, re.MULTILINE)
    assert dict(rows) == {kind: event.when for kind, event in EVENTS.items()}
