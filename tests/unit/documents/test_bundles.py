"""Whether an uploaded bundle holds the entry point."""

from __future__ import annotations

import pytest

from muster.code.archive import ArchiveMember
from muster.document.experiment import ExperimentConfig
from muster.document.running import EnvironmentSection
from muster_server.services.documents.bundles import (
    check_entry_file,
    check_line_ends,
    check_requirements,
)


def files(*names: str, **content: bytes) -> list[ArchiveMember]:
    """Files of a bundle, and those with content, without their suffix .txt."""
    known = [ArchiveMember(f"{name}.txt", len(b), content=b) for name, b in content.items()]
    return [*(ArchiveMember(name, 0) for name in names), *known]


def config(*entrypoint: str) -> ExperimentConfig:
    return ExperimentConfig(name="x", entrypoint=entrypoint)


@pytest.mark.parametrize("name", ["train.py", "./train.py"])
def test_the_file_is_found(name: str) -> None:
    assert check_entry_file(config(name), files("a.py", "train.py", "z.py")) is None


def test_a_missing_file_is_named_with_near_names() -> None:
    problem = check_entry_file(config("trian.py"), files("train.py", "src/model.py"))
    assert problem is not None
    assert problem.path == "entrypoint"
    assert "'trian.py'" in problem.message
    assert "train.py" in (problem.hint or "")


def test_a_file_in_another_folder_is_suggested() -> None:
    problem = check_entry_file(config("train.py"), files("src/train.py", "other.py"))
    assert problem is not None
    assert "src/train.py" in (problem.hint or "")


def test_a_bundle_without_scripts_says_so() -> None:
    problem = check_entry_file(config("train.py"), files("readme.txt"))
    assert problem is not None
    assert "no .py file" in (problem.hint or "")


@pytest.mark.parametrize("entrypoint", [("-m", "package.train"), ("/opt/train.py",)])
def test_modules_and_absolute_paths_are_not_judged(entrypoint: tuple[str, ...]) -> None:
    assert check_entry_file(config(*entrypoint), files("a.py")) is None
    assert check_entry_file(ExperimentConfig(name="x"), []) is None


def test_files_of_requirements_are_looked_for() -> None:
    def check(*requirements: str) -> str:
        problem = check_entry_file(
            ExperimentConfig(
                name="x",
                entrypoint=("a.py",),
                environment=EnvironmentSection(requirements=requirements),
            ),
            files("a.py", "deps/requirements.txt"),
        )
        return "" if problem is None else f"{problem.path}: {problem.message} ({problem.hint})"

    assert check("einops", "deps/requirements.txt") == ""
    assert check("requirements.txt") == (
        "environment.requirements: the code bundle has no file 'requirements.txt' "
        "(it holds deps/requirements.txt)"
    )


def test_the_script_of_a_command_is_looked_for() -> None:
    assert check_entry_file(config("bash", "-e", "run.sh"), files("run.sh")) is None
    assert check_entry_file(config("torchrun", "--nnodes=1", "train.py"), files("train.py")) is None
    problem = check_entry_file(config("bash", "run.sh"), files("scripts/run.sh"))
    assert problem is not None
    assert problem.hint == "it holds scripts/run.sh"


def test_a_script_behind_a_link_is_found() -> None:
    members = [*files("code/src/train.py"), ArchiveMember("train.py", 0, link="src/train.py")]
    members += [ArchiveMember("src", 0, link="code/src"), ArchiveMember("loop", 0, link="loop")]
    assert check_entry_file(config("train.py"), members) is None
    assert check_entry_file(config("src/train.py"), members) is None
    assert check_entry_file(config("loop/train.py"), members) is not None


@pytest.mark.parametrize(
    ("words", "content", "is_refused"),
    [
        (("bash", "run.sh"), b"echo a\r\n", True),
        (("sh", "-e", "job"), b"echo a\r\n", True),
        (("./run.sh",), b"#!/bin/sh\r\necho a\r\n", True),
        (("bash", "run.sh"), b"echo a\n", False),
        (("train.py",), b"#!/usr/bin/env python\r\nprint()\r\n", False),
        (("python", "train.py"), b"print()\r\n", False),
    ],
)
def test_line_ends_of_dos_are_refused_where_a_shell_reads_them(
    words: tuple[str, ...], content: bytes, is_refused: bool
) -> None:
    member = ArchiveMember(words[-1].removeprefix("./"), len(content), content=content)
    problem = check_line_ends(config(*words), [member])
    assert (problem is not None) is is_refused
    if problem is not None:
        assert "CRLF" in str(problem.message)
        assert (problem.hint or "").startswith("convert it: sed -i")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\ufeffsix\nidna\n".encode("utf-16-le"), ""),
        ("\ufeffsix\n".encode(), ""),
        ("# für alle\nsix\n".encode(), ""),
        ("six\n# für alle\n".encode("latin-1"), "r.txt cannot be read: line 2 is not UTF-8; save"),
        ("six\n".encode("utf-16-le"), "r.txt cannot be read: it is not text in UTF-8; save"),
        (b"-r other.txt\n", ""),
        (b"-r missing.txt\n", "missing.txt does not exist in the code folder"),
        (b"-r /shared/all.txt\n", ""),
        (b"-r r.txt\n", ""),
        (b"-e .\n", "environment.requirements has an editable package"),
    ],
)
def test_requirements_that_no_node_could_install_are_refused(content: bytes, message: str) -> None:
    members = files("a.py", r=content, other=b"-c deep/../r.txt\nsix\n")
    environment = EnvironmentSection(requirements=("./r.txt",))
    config = ExperimentConfig(name="x", entrypoint=("a.py",), environment=environment)
    problem = check_requirements(config, members, lambda names: members)
    assert str(problem.message if problem is not None else "").startswith(message)
    assert (problem is None) is (message == "")
