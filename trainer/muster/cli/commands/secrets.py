"""Commands about secrets: set, list, delete. A value is never an argument."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..absent import server
from ..group import CommandSet
from ..output import (
    Cell,
    age,
    last_use,
    print_rows,
    printed_json,
    report,
    say,
    usage_error,
    wants_json,
)
from ..selecting import YesOption

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Secrets that jobs get as environment variables, hidden in their logs.")

SecretArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the variable, such as HF_TOKEN.")
]
ProjectOption = Annotated[
    str | None, typer.Option("--project", help="The project that owns it; without it, you do.")
]


@app.command("set")
def set_(
    name: SecretArgument,
    project: ProjectOption = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file", metavar="F", help="Take the content of this file as the value."
        ),
    ] = None,
) -> None:
    """Create a secret, or replace its value.

    The value comes from a file, from standard input, or from a prompt that does not show it. The
    newline after a single line is dropped. A value is never an argument, because every user of the
    machine can read arguments.
    """
    value = read_value(f"value of {name}", from_file)
    made = server().put(f"{_owner(project)}/secrets/{_quoted(name)}", {"value": value})
    if printed_json(made):
        return
    whose = "yours" if project is None else f"project {project}"
    say(f"Set {name} ({whose}), version {made['version']}. Use it in a document:")
    say(f"  environment: {{secrets: [{name}]}}")


@app.command("list")
def list_(project: ProjectOption = None) -> None:
    """List your secrets, or those of a project. Values are never shown."""
    found = list(server().pages(f"{_owner(project)}/secrets"))
    columns: dict[str, Cell[schema.SecretOut]] = {
        "name": "name",
        "owner": lambda row: "you" if row["owner"] == "user" else f"project {row['owner_name']}",
        ">version": "version",
        "changed": ("changed_at", age),
        "by": "changed_by",
        "last used": ("last_used_at", last_use),
    }
    empty = "There are no secrets yet: `muster secret set NAME` creates one."
    print_rows(found, columns, empty=empty)


@app.command("delete")
def delete(name: SecretArgument, project: ProjectOption = None, yes: YesOption = False) -> None:
    """Delete a secret. Running jobs keep it; jobs that name it can no longer start."""
    if not yes and not wants_json():
        typer.confirm(f"Delete secret {name}?", abort=True, err=True)
    server().delete(f"{_owner(project)}/secrets/{_quoted(name)}")
    report({"name": name, "deleted": True}, f"Deleted secret {name}.")


def read_value(what: str, from_file: Path | None) -> str:
    """Return a secret from a file, from standard input, or from a prompt that does not show it.

    what: what is asked for. Raises CommandFailure for what is not text.
    """
    if from_file is not None:
        try:
            return _without_newline(from_file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise usage_error(
                f"{from_file} cannot be read: {reason}.",
                "encode binary data, for example with base64",
            ) from None
    if sys.stdin.isatty():
        value: str = typer.prompt(what[:1].upper() + what[1:], hide_input=True, err=True)
        return value
    try:
        return _without_newline(sys.stdin.read())
    except UnicodeDecodeError:
        raise usage_error(
            "Standard input is not text.", "encode binary data, for example with base64"
        ) from None


def _without_newline(text: str) -> str:
    """Return a single line without its newline; a key of several lines may need the last one."""
    return text.removesuffix("\n").removesuffix("\r") if len(text.splitlines()) == 1 else text


def _owner(project: str | None) -> str:
    return "" if project is None else f"/projects/{_quoted(project)}"


def _quoted(text: str) -> str:
    from muster.client import quoted

    return quoted(text)
