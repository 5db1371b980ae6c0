"""The command that lets an assistant use Muster."""

from __future__ import annotations

from typing import Annotated

import typer

from ..output import CommandFailure


def mcp(
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            help="Also offer tools that submit, fork, continue, stop, pause, resume and diagnose.",
        ),
    ] = False,
) -> None:
    """Serve tools for assistants over stdio, by the Model Context Protocol.

    An assistant starts this command itself. It may read what your token may, and with
    --allow-actions also submit and stop; the audit trail marks what it does.
    """
    try:
        from muster.mcp.serving import assistant_server
    except ModuleNotFoundError as error:
        package = (error.name or "mcp").partition(".")[0]
        raise CommandFailure(
            f"`muster mcp` needs the package {package!r}, which is not installed.",
            hint='pip install "muster-train[mcp]"',
        ) from None
    from muster.client import Client, find_target
    from muster.mcp import PRODUCT

    client = Client(find_target(), product=PRODUCT)
    assistant_server(lambda: client, allows_actions=allow_actions, is_local=True).run("stdio")
