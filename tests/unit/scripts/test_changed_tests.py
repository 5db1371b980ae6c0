"""Which tests a change selects, on the tree as it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def changed_tests() -> Iterator[ModuleType]:
    path = ROOT / "scripts" / "changed_tests.py"
    spec = importlib.util.spec_from_file_location("changed_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["changed_tests"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["changed_tests"]


@pytest.fixture(scope="module")
def select(changed_tests: ModuleType) -> Callable[..., Any]:
    """`select("docs/a.md", …)`: (nearest, others, checks)."""
    tree = changed_tests.Tree(ROOT)

    def run(*files: str) -> tuple[set[str], set[str], set[str]]:
        found = tree.select(files)
        nearest = {file for files in found.nearest.values() for file in files}
        return nearest, {file for files in found.others.values() for file in files}, found.checks

    return run


def areas(files: set[str]) -> set[str]:
    return {file.split("/")[1] for file in files}


def test_a_rule_selects_its_own_test_first_and_what_reaches_it_through_fixtures(
    select: Callable[..., Any],
) -> None:
    nearest, others, checks = select("server/muster_server/domain/search/asha.py")
    assert "tests/unit/search/test_promotion.py" in nearest
    assert "tests/loops/scheduling/test_budgets.py" in others
    assert {"integration", "chaos", "e2e", "policy"} <= areas(others)
    assert "tests/unit/launch/test_site_signals.py" not in nearest | others
    assert {"style", "types", "imports"} <= checks


def test_commands_are_not_loaded_by_jobs(select: Callable[..., Any]) -> None:
    nearest, others, _ = select("trainer/muster/cli/output.py")
    assert nearest
    assert "e2e" in areas(others)
    assert "tests/sdk/test_windows.py" not in others
    assert "tests/training/test_recipe.py" not in others


def test_whole_areas_run_for_what_their_processes_load(select: Callable[..., Any]) -> None:
    _, others, _ = select("trainer/muster/training/strategies/pipeline.py")
    training = {f"tests/training/{file.name}" for file in (ROOT / "tests/training").glob("test_*")}
    assert training <= others
    assert "api" not in areas(others)


def test_a_deleted_module_counts_as_its_package(select: Callable[..., Any]) -> None:
    nearest, _, _ = select("server/muster_server/domain/search/no_longer_there.py")
    assert "tests/unit/search/test_promotion.py" in nearest


def test_a_test_file_brings_those_that_import_from_it(select: Callable[..., Any]) -> None:
    nearest, others, _ = select("tests/loops/files/test_lineage.py")
    assert nearest == {"tests/loops/files/test_lineage.py"}
    assert areas(others) == {"loops", "policy"}
    assert "tests/loops/files/test_exports.py" in others


@pytest.mark.parametrize(
    ("file", "selected", "check"),
    [
        ("parts/models/muster_models/__init__.py", "api", "frontend"),
        ("docs/concepts/search.md", "policy", "frontend"),
        ("docs/guides/quickstart.md", "integration", "frontend"),
        ("frontend/src/app/router.tsx", "e2e", "frontend"),
        ("migrations/versions/0001.py", "loops", "style"),
        ("requirements.lock", "training", "frontend"),
        ("tests/conftest.py", "api", "style"),
        ("tests/support/batch/ray.txt", "integration", "style"),
        ("scripts/bootstrap.py", "unit", "style"),
    ],
)
def test_other_files_select_what_reads_them(
    select: Callable[..., Any], file: str, selected: str, check: str
) -> None:
    nearest, others, checks = select(file)
    assert selected in areas(nearest | others)
    assert check in checks


def test_changes_are_those_of_the_branch_and_of_the_working_tree(
    changed_tests: ModuleType, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        given = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *given, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def write(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)

    git("init")
    write(same="1", edited="1", moved="a = 1\n" * 20, committed="1")
    git("add", ".")
    git("commit", "-m", "first")
    git("switch", "-c", "branch")
    write(committed="2")
    git("mv", "moved.py", "there.py")
    git("commit", "-a", "-m", "second")
    git("switch", "main")
    write(upstream="1")
    git("add", ".")
    git("commit", "-m", "meanwhile")
    git("switch", "branch")
    write(edited="2", untracked="1")
    found = changed_tests.changed_files(tmp_path, "main")
    names = ("committed", "edited", "moved", "there", "untracked")
    assert found == {f"{name}.py" for name in names}
    with pytest.raises(subprocess.CalledProcessError):
        changed_tests.changed_files(tmp_path, "nowhere")
