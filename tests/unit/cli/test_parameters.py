"""Most commands run without pydantic, and their parameters take and refuse what typer does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer._coercion import build_runtime_param

from muster.cli.app import command_line

TEXTS = ["", "0", "3", "-1", "+3", "007", "1_000", "1.5", "1e3", "9" * 12, "٣", "running", "RUNNING", "x", "a=b"]  # fmt: skip
LOADED = {
    "annotated_doc", "anyio", "certifi", "h11", "httpcore", "httpx", "idna", "muster", "pathspec", "re2",
    "shellingham", "tenacity", "tornado", "typer", "typing_extensions",
}  # fmt: skip
"""Packages that a command may load before the server answers: tenacity once it does not, and with it tornado, where
that is installed."""


def commands(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from commands(command) if hasattr(command, "commands") else [command]


def outcome(convert: Any, value: Any, parameter: Any, context: Any) -> tuple[str, Any]:
    try:
        return "", convert.coerce(value, param=parameter, ctx=context)
    except typer.BadParameter as error:
        return error.format_message(), None
    except Exception as error:
        return repr(error), None


def test_every_parameter_takes_and_refuses_what_typer_does() -> None:
    for command in commands(typer.main.get_command(command_line())):
        context = command.context_class(command, info_name=command.name)
        for parameter in command.params:
            is_list = parameter.multiple or parameter.nargs == -1
            defaults = [None, parameter.default]
            for value in [*defaults, *([text] if is_list else text for text in TEXTS)]:
                expected = outcome(
                    build_runtime_param(parameter.type_descriptor), value, parameter, context
                )
                found = outcome(parameter.get_runtime_param(), value, parameter, context)
                assert found == expected, (command.name, parameter.name, value)


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--limit", "5", "--state", "RUNNING", "--label", "a"], ["show", "12"]],
)
def test_a_command_loads_no_package_that_it_does_not_need(
    tmp_path: Path, arguments: list[str]
) -> None:
    code = (
        "import sys\n"
        "from muster.cli import main\n"
        f"sys.argv = ['muster', *{arguments!r}]\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    environment = {**os.environ, "MUSTER_HOME": str(tmp_path), "MUSTER_URL": "http://127.0.0.1:9"}
    result = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 3, result.stderr
    assert {name for name in result.stdout.split() if not name.startswith("_")} <= LOADED
