"""The commit that a code folder is sent with, against real repositories."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.code import version as versions
from muster.code.version import code_version

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A repository with one commit of `job/train.py`; runs git in it."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")

    def run(*arguments: str) -> str:
        identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("init", "--initial-branch=main")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text("lr = 0.1\n")
    run("add", ".")
    run("commit", "-m", "Add a job")
    return run


def test_a_clean_folder_has_a_commit_and_a_branch(git: Git, tmp_path: Path) -> None:
    found = code_version(tmp_path / "job")
    assert found is not None
    assert (found.commit, found.branch) == (git("rev-parse", "HEAD"), "main")
    assert (found.is_dirty, found.diff, found.untracked) == (False, "", [])
    git("checkout", "--detach")
    detached = code_version(tmp_path / "job")
    assert detached is not None
    assert detached.branch == ""


def test_changes_of_the_folder_count_and_others_do_not(git: Git, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    clean = code_version(tmp_path / "job")
    assert clean is not None
    assert not clean.is_dirty
    (tmp_path / "job" / "train.py").write_text("lr = 0.2\n")
    (tmp_path / "job" / "größe.py").write_text("")
    found = code_version(tmp_path / "job")
    assert found is not None
    assert found.is_dirty
    assert "-lr = 0.1\n+lr = 0.2\n" in found.diff
    assert found.untracked == ["größe.py"]
    assert not found.is_diff_cut


def test_a_long_diff_is_cut_at_a_line(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "DIFF_MAX_BYTES", 400)
    (tmp_path / "job" / "train.py").write_text("".join(f"ä = {i}\n" for i in range(500)))
    found = code_version(tmp_path / "job")
    assert found is not None
    assert found.is_diff_cut
    assert 300 < len(found.diff.encode()) <= 400
    assert found.diff.endswith("\n")


def test_a_folder_that_git_does_not_track_has_none(git: Git, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("scratch/\n")
    for name in ("scratch", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text("")
        assert code_version(tmp_path / name) is None


def test_without_a_commit_or_when_git_fails_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_version(tmp_path) is None
    subprocess.run(["git", "init"], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "train.py").write_text("")
    subprocess.run(["git", "add", "."], cwd=tmp_path, capture_output=True, check=True)
    assert code_version(tmp_path) is None
    (tmp_path / ".git" / "HEAD").write_text("damaged")
    assert code_version(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert code_version(tmp_path) is None


def test_a_project_with_setuptools_scm_has_the_version_that_its_repository_says(
    git: Git, tmp_path: Path
) -> None:
    def version() -> str:
        found = code_version(tmp_path / "job")
        assert found is not None
        assert found.body().get("version", "") == found.version
        return found.version

    git("tag", "v1.2.3")
    assert version() == ""
    (tmp_path / "job" / "pyproject.toml").write_text('[tool.setuptools_scm]\nroot = ".."\n')
    git("add", ".")
    git("commit", "-m", "Take the version from git")
    node = "g" + git("rev-parse", "HEAD")[:9]
    assert version() == f"1.2.4.dev1+{node}"
    git("tag", "notes")  # no version
    git("tag", "release-2.0rc1")
    assert version() == "2.0rc1"
    (tmp_path / "job" / "train.py").write_text("lr = 0.2\n")
    assert re.fullmatch(r"2\.0rc2\.dev0\+d\d{8}", version())
    git("tag", "-d", "release-2.0rc1", "v1.2.3")
    assert re.fullmatch(rf"0\.1\.dev2\+{node}\.d\d{{8}}", version())
