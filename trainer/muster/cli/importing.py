"""Commands that take over from other tools: import wandb."""

from __future__ import annotations

import typer

from . import import_wandb

app = typer.Typer(no_args_is_help=True, help="Take over from other tools.")


@app.callback()
def _import() -> None:
    """Take over from other tools."""


app.command("wandb")(import_wandb.wandb)
