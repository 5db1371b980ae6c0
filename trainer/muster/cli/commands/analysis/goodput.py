"""The command that tells where slot-seconds went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from muster.byte_sizes import byte_size
from muster.counting import counted

from ...absent import server
from ...output import console, duration, number, printed_json, say, table
from ...trials import TrialReference, address, find_trial, parse_trial

if TYPE_CHECKING:
    from muster.client import schema

_USED = {
    "cpu_pct": "CPU of its nodes",
    "memory_bytes": "memory of its nodes",
    "gpu_pct": "GPU",
    "gpu_memory_pct": "GPU memory",
}
_SHORT_S = 3600.0
"""Slot-seconds below which hours would show nothing but zeros."""


def goodput(
    trial: Annotated[
        TrialReference | None,
        typer.Argument(
            metavar="TRIAL",
            parser=parse_trial,
            help="The trial: 36.2, or 36 or a name for the only trial of that experiment. Without one, "
            "the whole cluster.",
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="Days to sum up.")] = 7,
    by: Annotated[
        Literal["project", "pool", "user"], typer.Option(help="What to sum up by.")
    ] = "project",
    export: Annotated[
        bool, typer.Option("--csv", help="Print slot-hours by day, project, person and pool.")
    ] = False,
) -> None:
    """Show where slot time went: productive, repeated, stalled, starting and so on."""
    if trial is not None:
        chosen = find_trial(trial)
        of_trial: schema.TrialGoodputOut = server().get(f"/trials/{chosen['id']}/goodput")
        if not printed_json(of_trial):
            _show_trial(address(chosen), of_trial)
        return
    if export:
        print(server().download(f"/goodput/export?days={days}").decode(), end="")
        return
    found: schema.GoodputOut = server().get("/goodput", days=days, by=by)
    if printed_json(found):
        return
    if not found["allocated_s"]:
        say(f"No slot was held in the last {days} days, or none has been counted yet.")
        return
    say(found["headline"] or "")
    console().print(_classes(found["classes"], found["allocated_s"]))
    groups = table(by.upper(), "SLOT-HOURS", "PRODUCTIVE", f"COST {found['currency']}")
    for group in found["groups"]:
        share = group["classes"].get("productive", 0.0) / group["allocated_s"]
        groups.add_row(
            group["name"] or "-",
            number(group["allocated_s"] / 3600),
            f"{share:.1%}",
            number(group["cost"]),
        )
    console().print(groups)
    if found["trials"]:
        trials = table("TRIAL", "NAME", "LOST SLOT-HOURS", "MOSTLY")
        for one in found["trials"]:
            trials.add_row(
                one["address"], one["name"], number(one["lost_s"] / 3600), one["largest"]
            )
        console().print(trials)


def _show_trial(name: str, found: schema.TrialGoodputOut) -> None:
    if not found["allocated_s"]:
        say(f"Trial {name} has held no slots yet.")
        return
    say(found["headline"] or "")
    console().print(_classes(found["classes"], found["allocated_s"]))
    if found["queued_s"] >= 1:
        say(f"It also spent {duration(found['queued_s'])} in the queue, which held no slots.")
    if found["save_interval"] is not None:
        say(found["save_interval"]["reason"])
    if found["continuation"] is not None:
        say(
            " ".join(
                filter(None, (found["continuation"]["verdict"], found["continuation"]["curve"]))
            )
        )
    if found["efficiency"] is not None:
        _show_efficiency(found["efficiency"])


def _show_efficiency(card: schema.EfficiencyOut) -> None:
    memory = card["memory_bytes"]
    asked = counted(card["slots"], "slot")
    say(f"Asked for {asked}" + (f" and {byte_size(memory)} on each node." if memory else "."))
    if card["used"]:
        shown = table("USED", "MEDIAN", "PEAK", "SAMPLES")
        for use in card["used"]:
            is_bytes = use["name"] == "memory_bytes"
            values = (use["median"], use["peak"])
            texts = [byte_size(int(value)) if is_bytes else f"{value:.0f}%" for value in values]
            shown.add_row(_USED[use["name"]], *texts, f"{use['num_samples']:,}")
        console().print(shown)
    for advice in card["advice"]:
        say(advice["text"])


def _classes(classes: Mapping[str, float], whole: float) -> object:
    is_short = whole < _SHORT_S
    shown = table("CLASS", "SLOT-SECONDS" if is_short else "SLOT-HOURS", "SHARE")
    for name, slot_s in sorted(classes.items(), key=lambda item: -item[1]):
        amount = f"{slot_s:,.1f}" if is_short else f"{slot_s / 3600:,.3f}"
        shown.add_row(name, amount, f"{slot_s / whole:.1%}")
    return shown
