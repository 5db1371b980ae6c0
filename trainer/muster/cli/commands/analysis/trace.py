"""The commands for traces of torch's profiler, whoever recorded them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from muster.byte_sizes import byte_size
from muster.timeline.summary import summarize

from ...group import CommandSet
from ...output import CommandFailure, console, escape, printed_json, say, table

app = CommandSet(help="Traces of torch's profiler.")

_TIMES = ("communication", "computation", "overlap", "exposed", "copy", "idle")


@app.callback()
def _group() -> None:
    """Work with traces of torch's profiler, from any source."""


@app.command()
def summary(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Traces, .json or .json.gz; one per rank.")
    ],
) -> None:
    """Show where the time of a trace went, and with traces of several ranks who waited for whom.

    Communication that no computation runs beside is exposed. Steps are shown where the trace marks them.
    Over several ranks, the shortest time of a collective is its transfer, and the rest is waiting for the
    rank that came last.
    """
    found = summarize([(None, file) for file in files])
    for file, rank in zip(files, found["ranks"], strict=True):
        if rank["problem"]:
            raise CommandFailure(f"{file}: {rank['problem']}")
    if printed_json(found):
        return
    ranks = found["ranks"]
    columns = [name.upper() for name in _TIMES]
    shown = table("RANK", "STEP", "SPAN", *columns, right=("RANK", "STEP", "SPAN", *columns))
    for rank in ranks:
        shown.add_row(str(rank["rank"]), "all", *_row(rank))
        for step in rank["steps"]:
            shown.add_row("", str(step["step"]), *_row(step))
    console().print(shown)
    kinds = table("RANK", "GROUP", "KIND", "COUNT", "BYTES", "TIME", "EXPOSED",
                  right=("RANK", "COUNT", "BYTES", "TIME", "EXPOSED"))  # fmt: skip
    for rank in ranks:
        for kind in rank["kinds"]:
            size = "-" if kind["bytes"] is None else byte_size(kind["bytes"])
            kinds.add_row(
                str(rank["rank"]), escape(kind["group"]), kind["kind"], str(kind["count"]), size,
                _ms(kind["communication_us"]), _ms(kind["exposed_us"]),
            )  # fmt: skip
    if any(rank["kinds"] for rank in ranks):
        console().print(kinds)
    if any(rank["device"] == "cpu" for rank in ranks):
        say("No activity of a device: these are operations of the training thread and gloo's.")
    if len(ranks) > 1:
        _show_waiting(found["waiting"])


def _show_waiting(waiting: dict[str, Any] | None) -> None:
    if waiting is None:
        say("Two traces are of the same rank, so waiting is not compared.")
        return
    if not waiting["collectives"]:
        say("No collective is in the traces of all its ranks, so waiting is not known.")
        return
    shown = table("RANK", "WAITED", "CAME LAST", right=("RANK", "WAITED", "CAME LAST"))
    for rank in waiting["ranks"]:
        shown.add_row(str(rank["rank"]), _ms(rank["waiting_us"]), str(rank["last"]))
    console().print(shown)
    if waiting["bandwidths"]:
        columns = ("COUNT", "BYTES", "TRANSFER", "ALGORITHM", "BUS")
        rates = table("GROUP", "KIND", "RANKS", *columns, right=("RANKS", *columns))
        for kind in waiting["bandwidths"]:
            rates.add_row(
                escape(kind["group"]), kind["kind"], str(kind["ranks"]), str(kind["collectives"]),
                byte_size(kind["bytes"]), _ms(kind["transfer_us"]),
                _rate(kind["algorithm_bytes_per_s"]), _rate(kind["bus_bytes_per_s"]),
            )  # fmt: skip
        console().print(rates)
    num = waiting["collectives"]
    of = "a collective" if num == 1 else f"{num} collectives"
    for pair in waiting["pairs"][:5]:
        rank, culprit = pair["rank"], pair["waits_for"]
        say(f"Rank {rank} waited {_ms(pair['waiting_us'])} for rank {culprit}, in {of}.")


def _row(times: dict[str, Any]) -> list[str]:
    return [_ms(times[f"{name}_us"]) for name in ("span", *_TIMES)]


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e9:.3f} GB/s"


def _ms(us: float) -> str:
    return f"{us / 1000:.3f} ms"
