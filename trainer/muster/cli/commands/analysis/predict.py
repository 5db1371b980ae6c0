"""The command that lets a version of a model predict many rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...absent import server
from ...output import printed_json, say, wants_json
from ...sending import CodeOption, SetOption, submit_with_code

NAME_MAX_CHARS = 200


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="NAME:3, NAME@production, or NAME.")
    ],
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUTS...",
            help="Files with rows, patterns of them ('/data/rows/*.parquet'), or folders of images, as "
            "the nodes see them.",
        ),
    ],
    slots: Annotated[int, typer.Option("--slots", "-n", min=1, help="Number of workers.")] = 1,
    function: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Function of the current folder that takes a list of rows and returns a prediction for "
            "each. Default: the model of the built-in trainer is called.",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column with the inputs of a built-in model.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column that stands beside each prediction.")
    ] = None,
    max_errors: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the rows that may fail.")
    ] = 0.0,
    name: Annotated[str | None, typer.Option(help="Name of the experiment.")] = None,
    set_: SetOption = None,
    code: CodeOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show progress until it has ended.")
    ] = False,
) -> None:
    """Predict many rows with a version of a model; every row is in the results once."""
    section: dict[str, Any] = {
        "model": model,
        # What is relative to this folder is so on this machine only.
        "inputs": [str(Path(path).absolute()) for path in inputs],
        "max_errors": max_errors,
    }
    chosen = {"function": function, "column": column, "key": key}
    section |= {field: value for field, value in chosen.items() if value is not None}
    written: dict[str, Any] = {
        "name": (name or f"predict {model}")[:NAME_MAX_CHARS],
        "predict": section,
        "resources": {"slots": slots},
    }
    if function is not None:
        written["code"] = {"path": "."}
    document, overrides = json.dumps(written, indent=2), list(set_ or ())
    client = server()
    experiment = submit_with_code(client, "-", document, overrides, code)
    url = f"{client.target.url}/experiments/{experiment['id']}"
    if not follow and not printed_json(experiment):
        print(experiment["id"])
    if not wants_json():
        say(f"Submitted experiment {experiment['id']} ({experiment['name']}): {url}")
    if follow:
        from ...follow import follow_to_the_end

        follow_to_the_end(client, experiment["id"])
