"""What can never succeed is said before a slot is used, or at the first try, and is no node's fault."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.isolation import walls
from muster_agent.isolation.walls import CannotIsolate, Isolation
from muster_agent.settings import AgentSettings

ONE = {"slots": [0], "world_size": 1, "entrypoint": ["main.py"]}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user reaches."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def of_users(tmp_path: Path) -> Isolation:
    home = tmp_path / "home"
    home.mkdir()
    settings = AgentSettings(server_url="http://127.0.0.1", home=home, isolation="user")
    try:
        offer = walls.choose(settings, gpus=None)
    except CannotIsolate as error:
        pytest.skip(str(error))
    return dataclasses.replace(offer, home=str(home / "homes" / "p1"))


def code_in(folder: Path, *, mode: int) -> wire.CodeSpec:
    folder.mkdir()
    (folder / "main.py").write_text("print('up')\n")
    folder.chmod(mode)
    return wire.CodeSpec(kind="installed", path=str(folder))


def test_a_code_folder_that_is_closed_to_the_jobs_user_is_named(
    shims: Any, of_users: Isolation, open_folder: Path
) -> None:
    folder = open_folder / "code"
    shim = shims(options={"isolation": of_users}, code=code_in(folder, mode=0o700), **ONE)
    state = shim.wait_state("PREPARE_FAILED")
    assert state.message == (
        f"the job's user cannot read the code folder {folder}: it, or a folder above it, is closed to "
        "other users of the machine; open it to them (chmod o+rX)"
    )
    assert state.blames == "placement"


def test_a_data_set_that_is_closed_to_the_jobs_user_is_named(
    shims: Any, of_users: Isolation, open_folder: Path
) -> None:
    sets = open_folder / "sets"
    sets.mkdir(mode=0o700)
    config = {"name": "x", "data": {"words": str(sets)}}
    code = code_in(open_folder / "code", mode=0o755)
    shim = shims(options={"isolation": of_users}, code=code, config=config, **ONE)
    message = shim.wait_state("PREPARE_FAILED").message
    assert message.startswith(f"the job's user cannot read the data set words ({sets}): ")


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is closed to root")
def test_a_code_folder_that_is_closed_to_the_agents_user_is_named(
    shims: Any, tmp_path: Path
) -> None:
    shim = shims(code=code_in(tmp_path / "closed", mode=0o000), **ONE)
    state = shim.wait_state("PREPARE_FAILED")
    assert state.message == f"the code folder {tmp_path / 'closed'} is closed to the agent's user"
    assert state.blames == "placement"


@pytest.mark.parametrize("text", ["#!/nowhere/python\n", "\x7fELF of another machine"])
def test_a_program_that_the_kernel_refuses_is_not_tried_again(
    shims: Any, tmp_path: Path, text: str
) -> None:
    folder = tmp_path / "code"
    (folder / "train").write_text(text)
    (folder / "train").chmod(0o755)
    code = wire.CodeSpec(kind="installed", path=str(folder))
    fields = {**ONE, "entrypoint": ["./train"], "launcher": "shell"}
    shim = shims(code=code, **fields)
    shim.start()
    info = shim.wait_exit()
    assert info.cause == "cannot_run", info
    assert info.message.startswith("the workers could not be started: ")
