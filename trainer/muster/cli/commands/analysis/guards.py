"""The commands for guards."""

from __future__ import annotations

from typing import Annotated

import typer

from ...absent import server
from ...group import CommandSet
from ...output import console, escape, printed_json
from ...sending import read_document
from ...trials import TrialArgument, find_trial

app = CommandSet(help="Guards: rules on metrics that act.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Work with guards: rules on metrics that act."""


@app.command(name="try")
def try_(
    trial: TrialArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="Guards, or a document with guards; - for standard input. Default: the trial's.",
        ),
    ] = None,
) -> None:
    """Show what guards would have done with the stored values of a trial. Nothing changes."""
    text = read_document(file) if file is not None else None
    chosen = find_trial(trial)
    found = server().post(f"/trials/{chosen['id']}/guards:try", {"guards": text})
    if printed_json(found):
        return
    out = console()
    if not found["items"]:
        out.print("The trial has no guards.")
    for item in found["items"]:
        out.print(f"Guard {item['guard']}: {escape(item['explanation'])}", highlight=False)
        out.print(f"  {escape(item['text'])}", highlight=False)
        if item["is_cut"]:
            out.print(f"  Only the first {item['num_values']:,} values were read.")
