"""Commands about reservations of nodes: create, list, show, change, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...absent import server
from ...group import CommandSet
from ...maintenance_notes import moment, utc
from ...output import Cell, print_rows, printable, printed_json, say, usage_error

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Reservations: nodes for one user or project alone, for a time.")

NumberArgument = Annotated[
    int, typer.Argument(metavar="NUMBER", help="From `muster reservation list`.")
]
WHEN = (
    "2026-12-01 18:00 in the time zone of this machine, or with one of its own, or a length of time"
)


@app.command("create")
def create(
    for_: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="user:NAME|project:NAME",
            help="Whose trials may use the nodes: those of a user, or those in a project.",
        ),
    ],
    until: Annotated[
        str, typer.Option(metavar="WHEN", help=f"When it ends: {WHEN} from its start, such as 8h.")
    ],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHEN", help=f"When it begins: {WHEN} from now; now if left out."
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME", help="Node to reserve, whole; repeatable."),
    ] = None,
    pool: Annotated[
        str | None, typer.Option(metavar="NAME", help="Pool to choose nodes from.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="How many nodes of the pool.")] = None,
    slots: Annotated[
        int | None, typer.Option(help="As many nodes of the pool as have this number of slots.")
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Why, in one line; everybody who waits reads it.")
    ] = "",
) -> None:
    """Reserve nodes: what others run there leaves in time for the start."""
    kind, colon, name = for_.partition(":")
    if not (colon and name and kind in ("user", "project")):
        raise usage_error(
            f"--for {printable(for_)!r} names neither a user nor a project.",
            "write user:NAME or project:NAME",
        )
    body = {
        kind: name,
        "starts_at": None if from_ is None else moment("--from", from_),
        "ends_at": moment("--until", until),
        "nodes": list(node or ()),
        "pool": pool,
        "num_nodes": nodes,
        "num_slots": slots,
        "reason": reason,
    }
    _say_made(server().post("/reservations", body))


def _say_made(made: schema.ReservationOut) -> None:
    if printed_json(made):
        return
    say(_sentence(made))
    if made["num_taken_from"]:
        say(f"Leaves in time for the start: {_taken_from(made)}.")


@app.command("list")
def list_() -> None:
    """List active and planned reservations."""
    columns: dict[str, Cell[schema.ReservationOut]] = {
        ">number": "id",
        "state": lambda one: _state(one),
        "for": lambda one: _beneficiary(one),
        "nodes": lambda one: ", ".join(one["nodes"]),
        "from": ("starts_at", utc),
        "until": ("ends_at", utc),
        ">takes from": "num_taken_from",
        "reason": "reason",
    }
    found = server().get("/reservations")["items"]
    print_rows(found, columns, empty="No nodes are reserved.")


@app.command("show")
def show(number: NumberArgument) -> None:
    """Show a reservation, and the running trials from which it takes slots."""
    one = server().get(f"/reservations/{number}")
    if printed_json(one):
        return
    say(_sentence(one))
    say(f"Created by {printable(one['created_by'])} at {utc(one['created_at'])}.")
    if one["num_taken_from"]:
        say(f"Takes slots from {_taken_from(one)}.")


@app.command("change")
def change(
    number: NumberArgument,
    until: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help=f"When it ends: {WHEN} from its start, such as 8h."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHEN", help=f"When it begins, if it has not: {WHEN} from now."
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NAME", help="All its nodes from now on; repeatable."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why, in one line.")] = None,
) -> None:
    """Extend, shorten or move a reservation, or give it other nodes; what you leave out stays."""
    wish = {
        "starts_at": None if from_ is None else moment("--from", from_),
        "ends_at": None if until is None else moment("--until", until),
        "nodes": node or None,
        "reason": reason,
    }
    body = {name: value for name, value in wish.items() if value is not None}
    if not body:
        raise usage_error(
            f"Nothing of reservation {number} is to change.",
            "give --until, --from, --node or --reason",
        )
    _say_made(server().patch(f"/reservations/{number}", body))


@app.command("cancel")
def cancel(number: NumberArgument) -> None:
    """End an active reservation, or take a planned one back."""
    one = server().post(f"/reservations/{number}:cancel")
    if not printed_json(one):
        say(f"Reservation {number} is cancelled. {_names(one)}: open to everybody.")


def _sentence(one: schema.ReservationOut) -> str:
    why = f": {printable(one['reason'])}" if one["reason"] else ""
    return (
        f"Reservation {one['id']} ({_state(one)}): {_names(one)} for {_beneficiary(one)}, "
        f"{utc(one['starts_at'])} to {utc(one['ends_at'])}{why}."
    )


def _state(one: schema.ReservationOut) -> str:
    if one["ended_at"] is not None:
        return "cancelled" if one["ended_by"] else "ended"
    return "active" if one["is_active"] else "planned"


def _beneficiary(one: schema.ReservationOut) -> str:
    if one["user"] is not None:
        return f"user {printable(one['user'])}"
    return f"project {printable(one['project'] or '')}"


def _names(one: schema.ReservationOut) -> str:
    return printable(", ".join(one["nodes"]))


def _taken_from(one: schema.ReservationOut) -> str:
    named = [
        f"{trial['experiment_id']}.{trial['trial_no']} of {trial['owner'] or 'nobody'} "
        f"({', '.join(trial['nodes'])})"
        for trial in one["taken_from"]
    ]
    more = one["num_taken_from"] - len(named)
    return printable("; ".join(named)) + (f"; and {more:,} more" if more else "")
