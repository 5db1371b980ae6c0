"""The command as people call it: exit codes, one-sentence errors, and what it needs to start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from muster.cli.app import command_line, listing
from muster.cli.trials import parse_experiment, parse_trial
from support import preloaded


def muster(
    *arguments: str, home: Path, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    environment |= {"MUSTER_HOME": str(home), **variables}
    if "PYTHONPATH" not in variables:
        return preloaded.run(
            [preloaded.COMMANDS, *arguments], environment=environment, stdin=stdin, timeout_s=60
        )
    return subprocess.run(
        [sys.executable, "-m", "muster.cli", *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_a_server_it_says_how_to_get_one(tmp_path: Path) -> None:
    result = muster("list", home=tmp_path)
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == "error: No server is known."
    assert "muster up" in result.stderr


def test_errors_are_json_when_asked_for(tmp_path: Path) -> None:
    result = muster("list", "--json", home=tmp_path)
    assert result.returncode == 3
    assert json.loads(result.stderr)["error"]["code"] == "client.not_configured"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "no-such-file.yaml"], "no-such-file.yaml cannot be read"),
        (["submit", "train.py"], "run it: muster run -- python train.py"),
        (["validate", "-"], "The input is empty."),
        (["up", "--no-agents", "--demo"], "--no-agents goes with neither"),
        (["logs", "1", "--stream", "stdin"], "'stdout'"),
        (["logs", "1", "--tail", "0"], "--tail"),
        (["logs", "1", "--rank", "7-4"], "--rank '7-4' names no ranks"),
        (["logs", "1", "-q", "a", "-g", "b"], "exclude each other"),
        (["list", "--state", "walking"], "'running'"),
        (["token", "create", "x", "--role", "king"], "viewer"),
        (["frobnicate"], "frobnicate"),
        (["show", " "], "' ' is neither a number (36, 36.2) nor a name"),
        (["performance", "name:"], "'name:' is neither a number"),
        (["fork", "36.2"], "'36.2' names a trial"),
        (["move", "1"], "--front, --back, --before and --after"),
        (["move", "1", "--front", "--after", "2"], "Give one of"),
        (["move", "1", "--before", ""], "'' is neither a number"),
        (["priority", "1", "101"], "less than or equal to 100"),
    ],
)
def test_wrong_use_is_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = muster(*arguments, home=tmp_path)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_binary_document_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    result = muster("submit", str(path), home=tmp_path)
    assert result.returncode == 2
    assert "is not UTF-8 text" in result.stderr


def test_status_of_nothing(tmp_path: Path) -> None:
    result = muster("status", home=tmp_path)
    assert result.returncode == 1
    assert f"does not run from {tmp_path}" in result.stderr
    assert json.loads(muster("status", "--json", home=tmp_path).stdout)["running"] is False


def test_missing_packages_are_named_with_the_way_to_install_them(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(\"No module\", name='typer')")
    result = muster("--version", home=tmp_path, PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert "'typer'" in result.stderr
    assert "muster-train[cli]" in result.stderr


def test_starting_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, muster.cli.all_commands\n"
        "heavy = {'torch', 'numpy', 'httpx', 'rich', 'sqlalchemy', 'fastapi', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments", [["show", "name:"], ["logs", "1", "-n", "0"], ["frobnicate"], ["list", "--nope"]]
)
def test_wrong_use_is_json_when_asked_for(tmp_path: Path, arguments: list[str]) -> None:
    result = muster(*arguments, "--json", home=tmp_path)
    assert result.returncode == 2
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "cli.usage"
    assert error["message"]


def test_states_may_be_written_in_any_case(tmp_path: Path) -> None:
    result = muster("list", "--state", "running", home=tmp_path)
    assert result.returncode == 3, result.stderr  # no server, but nothing wrong with the state


def test_help_tells_exit_codes_and_how_the_server_is_named(tmp_path: Path) -> None:
    text = " ".join(muster("--help", home=tmp_path).stdout.split())
    assert "Queue, run and watch" in text
    assert "3 no server" in text
    assert "MUSTER_URL and MUSTER_TOKEN" in text


@pytest.mark.parametrize(
    ("words", "offered"),
    [("muster lo", "logs"), ("muster list --st", "--state"), ("muster list --state RU", "RUNNING")],
)
def test_shells_are_offered_what_fits(words: str, offered: str) -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("muster")],
        env={
            **os.environ,
            "_MUSTER_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert offered in result.stdout.split()


@pytest.mark.parametrize("command", ["status", "model"])
def test_a_command_is_started_without_loading_the_others(command: str) -> None:
    code = (
        f"import sys; from muster.cli.app import command_line; command_line(['{command}'])\n"
        "print(*(name for name in sys.modules if name.startswith(('muster.cli.commands.', 'muster_models'))))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.rpartition(".")[2] for name in result.stdout.split()}
    assert "notifications" not in loaded
    assert {"local"} <= loaded if command == "status" else {"models"} <= loaded


def test_the_list_of_commands_is_that_of_the_commands_without_loading_them() -> None:
    def listed(app: typer.Typer) -> list[tuple[str, str]]:
        group: Any = typer.main.get_command(app)
        return [(name, c.get_short_help_str(1_000)) for name, c in group.commands.items()]

    assert listed(listing()) == listed(command_line())
    assert all(about for _, about in listed(listing()))
    code = (
        "import sys; from muster.cli.app import listing; listing()\n"
        "print(*(name for name in sys.modules if name.startswith(('muster.cli.commands.', 'muster_models'))))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["muster.cli.commands.operations"]


def test_every_command_that_takes_an_experiment_or_a_trial_takes_its_name() -> None:
    def commands(group: Any) -> Iterator[Any]:
        for command in group.commands.values():
            yield from commands(command) if hasattr(command, "commands") else [command]

    taken = [
        (command.name, parameter)
        for command in commands(typer.main.get_command(command_line()))
        for parameter in command.params
        if {"EXPERIMENT", "TRIAL"} & set(re.findall("[A-Z]+", parameter.metavar or ""))
    ]
    assert len(taken) > 40
    parsers = {parameter.type_descriptor.parameter_info.parser for _, parameter in taken}
    assert parsers == {parse_trial, parse_experiment}
