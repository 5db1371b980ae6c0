"""Whether an uploaded bundle holds the entry point."""

from __future__ import annotations

import pytest

from muster.document.experiment import ExperimentConfig
from muster_server.services.documents.bundles import check_entry_file


def config(*entrypoint: str) -> ExperimentConfig:
    return ExperimentConfig(name="x", entrypoint=entrypoint)


@pytest.mark.parametrize("name", ["train.py", "./train.py"])
def test_the_file_is_found(name: str) -> None:
    assert check_entry_file(config(name), ["a.py", "train.py", "z.py"]) is None


def test_a_missing_file_is_named_with_near_names() -> None:
    problem = check_entry_file(config("trian.py"), ["train.py", "src/model.py"])
    assert problem is not None
    assert problem.path == "entrypoint"
    assert "'trian.py'" in problem.message
    assert "train.py" in (problem.hint or "")


def test_a_file_in_another_folder_is_suggested() -> None:
    problem = check_entry_file(config("train.py"), ["src/train.py", "other.py"])
    assert problem is not None
    assert "src/train.py" in (problem.hint or "")


def test_a_bundle_without_scripts_says_so() -> None:
    problem = check_entry_file(config("train.py"), ["readme.txt"])
    assert problem is not None
    assert "no .py file" in (problem.hint or "")


@pytest.mark.parametrize("entrypoint", [("-m", "package.train"), ("/opt/train.py",)])
def test_modules_and_absolute_paths_are_not_judged(entrypoint: tuple[str, ...]) -> None:
    assert check_entry_file(config(*entrypoint), ["a.py"]) is None
    assert check_entry_file(ExperimentConfig(name="x"), []) is None
