"""Whether an uploaded bundle holds the entry point."""

from __future__ import annotations

import pytest

from muster.document.experiment import ExperimentConfig
from muster.document.running import EnvironmentSection
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


def test_files_of_requirements_are_looked_for() -> None:
    def check(*requirements: str) -> str:
        problem = check_entry_file(
            ExperimentConfig(
                name="x",
                entrypoint=("a.py",),
                environment=EnvironmentSection(requirements=requirements),
            ),
            ["a.py", "deps/requirements.txt"],
        )
        return "" if problem is None else f"{problem.path}: {problem.message} ({problem.hint})"

    assert check("einops", "deps/requirements.txt") == ""
    assert check("requirements.txt") == (
        "environment.requirements: the code bundle has no file 'requirements.txt' "
        "(it holds deps/requirements.txt)"
    )


def test_the_script_of_a_command_is_looked_for() -> None:
    assert check_entry_file(config("bash", "-e", "run.sh"), ["run.sh"]) is None
    assert check_entry_file(config("torchrun", "--nnodes=1", "train.py"), ["train.py"]) is None
    problem = check_entry_file(config("bash", "run.sh"), ["scripts/run.sh"])
    assert problem is not None
    assert problem.hint == "it holds scripts/run.sh"
