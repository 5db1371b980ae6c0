"""Commands about maintenance windows: start, plan, list, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...absent import server
from ...group import CommandSet
from ...maintenance_notes import moment, scope, until, utc
from ...output import Cell, print_rows, printed_json, say

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Maintenance: stop nodes without losing work.")

ReasonOption = Annotated[str, typer.Option(help="Why, in one line; everybody who waits reads it.")]
PoolOption = Annotated[
    list[str] | None,
    typer.Option("--pool", metavar="NAME", help="Pool that it concerns; repeatable."),
]
NodeOption = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="NAME", help="Node that it concerns; repeatable."),
]
RunningOption = Annotated[
    Literal["checkpoint", "keep"],
    typer.Option(
        help="What happens to running trials: they save a checkpoint and continue afterwards, or "
        "go on."
    ),
]
RUNNING = {
    "checkpoint": "Running trials save a checkpoint and continue afterwards.",
    "keep": "Running trials go on.",
}


@app.command("start")
def start(
    reason: ReasonOption,
    pool: PoolOption = None,
    node: NodeOption = None,
    running: RunningOption = "checkpoint",
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="LENGTH", help="End it after this time, such as 1h."),
    ] = None,
) -> None:
    """Stop starting work now: on the whole cluster, or on some pools and nodes."""
    _create({"ends_at": for_, "reason": reason, "running": running}, pool, node)


@app.command("plan")
def plan(
    reason: ReasonOption,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHEN",
            help="When it begins: 2026-12-01 18:00 in the time zone of this machine, or with one of "
            "its own.",
        ),
    ],
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="LENGTH", help="End it after this time, such as 2h."),
    ] = None,
    pool: PoolOption = None,
    node: NodeOption = None,
    running: RunningOption = "checkpoint",
) -> None:
    """Plan maintenance: what would still run then by its time limit is not started before it."""
    body = {
        "starts_at": moment("--from", from_),
        "ends_at": for_,
        "reason": reason,
        "running": running,
    }
    _create(body, pool, node)


@app.command("list")
def list_() -> None:
    """List active and planned maintenance."""
    found = server().get("/maintenance")["items"]
    columns: dict[str, Cell[schema.MaintenanceOut]] = {
        ">id": "id",
        "state": lambda window: "active" if window["is_active"] else "planned",
        "concerns": lambda window: scope(window),
        "from": ("starts_at", utc),
        "until": ("ends_at", lambda at: utc(at) if at else "ended by hand"),
        "running": "running",
        "by": "created_by",
        "reason": "reason",
    }
    print_rows(found, columns, empty="No maintenance is active or planned.")


@app.command("end")
def end(
    window_id: Annotated[int, typer.Argument(metavar="ID", help="From `muster maintenance list`.")],
) -> None:
    """End active maintenance, or take planned maintenance back."""
    window = server().post(f"/maintenance/{window_id}:end")
    if not printed_json(window):
        say(f"Maintenance {window_id} of {scope(window)} is over. What waited there starts again.")


def _create(body: dict[str, Any], pools: list[str] | None, nodes: list[str] | None) -> None:
    window = server().post(
        "/maintenance", {**body, "pools": list(pools or ()), "nodes": list(nodes or ())}
    )
    if printed_json(window):
        return
    begins = "has started" if window["is_active"] else f"starts at {utc(window['starts_at'])}"
    say(
        f"Maintenance {window['id']} of {scope(window)} {begins}, {until(window)}. "
        f"{RUNNING[window['running']]}"
    )
