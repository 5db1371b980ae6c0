"""Commands about what scripts log per step: images, histograms, text, tables, sound and video."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.byte_sizes import byte_size

from ..absent import server
from ..group import CommandSet
from ..output import (
    CommandFailure,
    age,
    console,
    escape,
    printable,
    printed_json,
    say,
    table,
    usage_error,
)
from ..trials import TrialArgument, find_trial
from .operations import count
from .outputs import report_fetched, target_folder

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Images, histograms, tables and the like that scripts log.")

RANKS_SHOWN = 4
RankOption = Annotated[int | None, typer.Option("--rank", min=0, help="Only items of this rank.")]
StepOption = Annotated[int | None, typer.Option("--step", min=0, help="Only items of this step.")]


@app.command("list")
def list_(
    trial: TrialArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="List each item of this name.")
    ] = None,
    step: StepOption = None,
    rank: RankOption = None,
) -> None:
    """List the names that a trial has logged media under, or the items of one name.

    Items that were left out, because they exceeded a limit or were invalid, are counted below.
    """
    from muster.client.media import list_media

    if name is None and (step is not None or rank is not None):
        raise usage_error(
            "--step and --rank choose among the items of one name: give the name, too."
        )
    trial_id = find_trial(trial)["id"]
    found = server().get(f"/trials/{trial_id}/media/series")
    items = (
        list(list_media(server(), trial_id, names=[name], step=step, rank=rank))
        if name is not None
        else []
    )
    if name is not None and not items:
        raise _nothing(found, name)
    if printed_json(items if name is not None else found):
        return
    shown = _items(items) if name is not None else _names(found["series"])
    if items or found["series"]:
        console().print(shown)
    if name is None:
        for sentence in _sentences(found):
            say(sentence)


def _names(series: list[schema.MediaSeriesOut]) -> Any:
    shown = table(
        "name", "kind", "items", "steps", "first", "last", "ranks", right=("items", "steps", "last")
    )
    for one in series:
        ranks = ", ".join(str(rank) for rank in one["ranks"][:RANKS_SHOWN])
        cells = [
            one["name"],
            one["kind"],
            f"{one['num_items']:,}",
            f"{one['num_steps']:,}",
            str(one["steps"][0]),
            str(one["steps"][-1]),
            ranks + (", …" if len(one["ranks"]) > RANKS_SHOWN else ""),
        ]
        shown.add_row(*(escape(cell) for cell in cells))
    return shown


def _items(items: list[schema.MediaItemOut]) -> Any:
    shown = table("step", "rank", "type", "size", "logged", "caption", right=("step", "size"))
    for item in items:
        cells = [
            str(item["step"]),
            str(item["rank"]),
            item["mime"],
            byte_size(item["size_bytes"]),
            f"{age(item['at'])} ago",
            item["caption"],
        ]
        shown.add_row(*(escape(cell) for cell in cells))
    return shown


def _sentences(found: schema.MediaOverviewOut) -> list[str]:
    items = sum(one["num_items"] for one in found["series"])
    sentences = [f"{count(items, 'item')} under {count(found['num_series'], 'name')}."]
    if found["num_series"] > len(found["series"]):
        sentences.append(f"The first {len(found['series']):,} names are listed.")
    if found["dropped"]:
        reasons = ", ".join(f"{one['num']:,} {one['reason']}" for one in found["dropped"])
        total = sum(one["num"] for one in found["dropped"])
        sentences.append(f"Left out: {count(total, 'item')} ({reasons}).")
    return [printable(sentence) for sentence in sentences]


@app.command("get")
def get(
    trial: TrialArgument,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Names; all by default.")
    ] = None,
    step: StepOption = None,
    last: Annotated[
        bool, typer.Option("--last", help="Only items of the last step of each name.")
    ] = False,
    rank: RankOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder to write to; media-TRIAL by default."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that have other content.")
    ] = False,
) -> None:
    """Fetch media into files, such as samples/step-40-rank-0.png.

    After an interruption, run the command again: files that you already have are not fetched again.
    """
    from muster.client.media import fetch_media, list_media

    if last and step is not None:
        raise usage_error("Give either --step or --last.")
    folder = target_folder(output, f"media-{trial}")
    client = server()
    trial_id = find_trial(trial)["id"]
    found = client.get(f"/trials/{trial_id}/media/series")
    known = {one["name"] for one in found["series"]}
    for name in names or []:
        if name not in known:
            raise _nothing(found, name)
    items = list(list_media(client, trial_id, names=names or [], rank=rank, step=step))
    if last:
        ends = {item["name"]: item["step"] for item in items}  # they come by step
        items = [item for item in items if item["step"] == ends[item["name"]]]
    done = fetch_media(client, items, folder, force=force, on_progress=say)
    report_fetched(done, folder)


def _nothing(found: schema.MediaOverviewOut, name: str) -> CommandFailure:
    names = ", ".join(repr(one["name"]) for one in found["series"][:10]) or "none"
    return CommandFailure(printable(f"No media are called {name!r} here. There are: {names}."))
