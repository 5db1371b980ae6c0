"""Commands that take over from other tools: import determined, import wandb."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import import_wandb
from ..exit_codes import EXIT_ERROR, EXIT_UNREACHABLE
from ..group import CommandSet
from ..output import CommandFailure, print_fields, print_json, say, usage_error, wants_json

if TYPE_CHECKING:
    from muster.client import schema
    from muster.importing.determined_code import ModelFolder

app = CommandSet(help="Import from other tools.")

SCRIPT_BYTES = 1_000_000
"""Longer Python files are not looked into."""
SCRIPTS_MAX = 1000
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
"""Floats of YAML 1.2, which Determined reads; YAML 1.1 takes 5e-4 for text."""


class SlotType(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


@app.callback()
def _import() -> None:
    """Import from other tools."""


app.command("wandb")(import_wandb.wandb)


@app.command("determined")
def determined(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="Determined's configuration.")],
    model_dir: Annotated[
        Path | None,
        typer.Option("--model-dir", metavar="DIR", help="Folder of the code that belongs to it."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the document here, not to stdout."
        ),
    ] = None,
    slot_type: Annotated[
        SlotType, typer.Option(help="Kind of slot; the configuration does not specify it.")
    ] = SlotType.CUDA,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Let the server check the result.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Translate an experiment configuration of Determined into an experiment document.

    Prints what each key became, what was dropped and why. Nothing is written while there are errors.
    Scripts that import `determined` run with muster.det_compat. The server checks the result if one is
    known; if none answers, the document is written all the same, and the exit code is 3.
    """
    import yaml

    from muster.importing.determined import import_determined

    if output is not None and output.exists() and not force:
        raise usage_error(f"{output} already exists.", "use --force to replace it")
    model = None if model_dir is None else _model_folder(model_dir, output)
    draft = import_determined(
        _read(config), fallback_name=config.stem, slot_type=slot_type.value, model=model
    )
    if not wants_json():
        for translation in draft.translations:
            say(translation.text())
    if not draft.errors:
        text = yaml.safe_dump(draft.document, sort_keys=False, allow_unicode=True)
        if output is not None:
            output.write_text(text, encoding="utf-8")
        elif not wants_json():
            print(text, end="")
    checked = _checked(text) if check and not draft.errors else None
    if wants_json():
        print_json(
            {
                "document": draft.document,
                "translations": [vars(t) for t in draft.translations],
                "errors": len(draft.errors),
                "checked": checked,
            }
        )
    if draft.errors:
        count = len(draft.errors)
        raise CommandFailure(
            f"{config} was not translated: {count} error{'' if count == 1 else 's'}.",
            exit_code=EXIT_ERROR,
        )
    if checked is not None and not checked["valid"]:
        say("The server does not accept the result:")
        print_fields(checked["errors"])
        raise typer.Exit(EXIT_ERROR)
    if checked is not None and not wants_json():
        for warning in checked["warnings"]:
            say(f"warning: {warning['path']}: {warning['message']}")
        say("The server accepts the result.")


def _checked(text: str) -> schema.PreviewOut:
    from muster.client import Client, NotConfigured, Unreachable

    try:
        with Client() as client:
            return client.preview(text)
    except (NotConfigured, Unreachable) as error:
        raise CommandFailure(
            f"The result was not checked: {error.message}",
            "start a server, or use --no-check",
            exit_code=EXIT_UNREACHABLE,
        ) from None


def _read(path: Path) -> Any:
    """Return the content of a YAML file as Determined reads it. Raises CommandFailure."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads numbers as YAML 1.2 does."""

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(rf"^(?:{FLOAT.pattern})$"),
        list("-+.0123456789"),
    )
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506  # a safe loader
    except OSError as error:
        raise usage_error(f"{path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise usage_error(f"{path} is not valid YAML: {error}") from None


def _model_folder(folder: Path, output: Path | None) -> ModelFolder:
    from muster.importing.determined_code import ModelFolder

    if not folder.is_dir():
        raise usage_error(f"{folder} is not a folder.")
    scripts = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*.py"))[:SCRIPTS_MAX]
        if path.is_file() and path.stat().st_size <= SCRIPT_BYTES
    }
    base = Path.cwd() if output is None else output.resolve().parent
    return ModelFolder(
        path=os.path.relpath(folder.resolve(), base),
        scripts=scripts,
        others=[path.name for path in folder.iterdir() if path.is_file()],
    )
