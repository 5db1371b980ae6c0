"""Commands about schedules: add, list, change, pause, resume, run, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...absent import server
from ...group import CommandSet
from ...output import Cell, age, print_rows, printed_json, say, wants_json
from ...sending import CodeOption, DocumentArgument, SetOption, read_document, send_code

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Schedules: experiments that start at the times of a cron expression.")

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="From `muster schedule list`.")]
Overlap = Literal["skip", "allow", "replace"]
OVERLAP_HELP = "If the experiment of the time before has not ended: start none, start another one, or stop the old one first."


@app.command("add")
def add(
    file: DocumentArgument,
    cron: Annotated[
        str,
        typer.Option(
            help='Minute, hour, day of month, month, day of week: "30 2 * * 1-5" is 02:30 from Monday to Friday.'
        ),
    ],
    timezone: Annotated[
        str, typer.Option(help="Time zone of these times, such as Europe/Berlin.")
    ] = "UTC",
    overlap: Annotated[Overlap, typer.Option(help=OVERLAP_HELP)] = "skip",
    set_: SetOption = None,
    code: CodeOption = None,
) -> None:
    """Submit a document again and again, with its code as it is now."""
    document, overrides, client = read_document(file), list(set_ or ()), server()
    sent = send_code(client, file, document, overrides, code, quiet=wants_json())
    experiment: dict[str, Any] = {"document": document, "overrides": overrides}
    if sent.sha256 is not None:
        experiment |= {
            "blob_sha256": sent.sha256,
            "left_out": sent.left_out,
            "code_version": sent.version,
        }
    body = {"cron": cron, "timezone": timezone, "overlap": overlap, "experiment": experiment}
    _say(client.post("/schedules", body), "")


@app.command("list")
def list_() -> None:
    """List schedules, the next to start first."""
    columns: dict[str, Cell[schema.ScheduleOut]] = {
        ">id": "id",
        "name": "name",
        "project": "project",
        "owner": lambda one: one["owner"] or "-",
        "cron": "cron",
        "timezone": "timezone",
        "overlap": "overlap",
        "next": lambda one: (
            "paused" if one["is_paused"] else _moment(next(iter(one["upcoming"]), None))
        ),
        "last": lambda one: age(one["last_at"]) if one["last_at"] else "-",
        ">experiment": lambda one: str(one["last_experiment_id"] or "-"),
        "what came of it": "last_reason",
    }
    print_rows(server().get("/schedules")["items"], columns, empty="There are no schedules.")


@app.command("change")
def change(
    schedule_id: IdArgument,
    cron: Annotated[str | None, typer.Option(help="New cron expression.")] = None,
    timezone: Annotated[str | None, typer.Option(help="New time zone.")] = None,
    overlap: Annotated[Overlap | None, typer.Option(help=OVERLAP_HELP)] = None,
) -> None:
    """Change the times of a schedule."""
    wish = {"cron": cron, "timezone": timezone, "overlap": overlap}
    _patch(schedule_id, {name: value for name, value in wish.items() if value is not None})


@app.command("pause")
def pause(schedule_id: IdArgument) -> None:
    """Start nothing until it is resumed; what runs goes on."""
    _patch(schedule_id, {"is_paused": True})


@app.command("resume")
def resume(schedule_id: IdArgument) -> None:
    """Start at its times again. Those that passed meanwhile are not made up for."""
    _patch(schedule_id, {"is_paused": False})


@app.command("run")
def run(schedule_id: IdArgument) -> None:
    """Start its experiment now, too."""
    made = server().post(f"/schedules/{schedule_id}:run")
    _say(made, f" started experiment {made['last_experiment_id']}")


@app.command("delete")
def delete(schedule_id: IdArgument) -> None:
    """Delete a schedule. The experiments that it started stay."""
    server().delete(f"/schedules/{schedule_id}")
    if not printed_json({"id": schedule_id}):
        say(f"Schedule {schedule_id} is deleted.")


def _patch(schedule_id: int, wish: dict[str, Any]) -> None:
    _say(server().patch(f"/schedules/{schedule_id}", wish), "")


def _say(one: schema.ScheduleOut, did: str) -> None:
    if printed_json(one):
        return
    times = ", ".join(_moment(at) for at in one["upcoming"])
    when = "is paused" if one["is_paused"] else f"next: {times or 'never'}"
    said = f"{one['cron_in_words']} ({one['timezone']})"
    say(f"Schedule {one['id']} ({one['name']}){did}. {said}; {when}.")


def _moment(text: str | None) -> str:
    """Return a moment in the time zone of this machine."""
    import datetime as dt

    if text is None:
        return "-"
    return f"{dt.datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"
