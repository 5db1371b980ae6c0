"""The command that tells where the time of a trial's steps goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...absent import server
from ...follow import communication_text, speed_text
from ...output import console, escape, printed_json, say, table
from ...trials import TrialArgument, address, find_trial

if TYPE_CHECKING:
    from muster.client import schema

BESIDE: dict[Literal["other_idle_ms", "validation_ms"], str] = {
    "other_idle_ms": "IDLE",
    "validation_ms": "VALIDATION",
}
SHORT = {
    "time/data_wait_ms": "data",
    "time/host_to_device_ms": "to device",
    "time/forward_ms": "forward",
    "time/backward_ms": "backward",
    "comm/exposed_ms": "exposed",
    "pipeline/bubble_ms": "bubble",
    "time/optimizer_ms": "optimizer",
    "time/no_grad_ms": "no grad",
    "time/checkpoint_ms": "checkpoint",
    "time/other_ms": "outside",
}


def performance(
    trial: TrialArgument,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Number of the attempt; the current one by default.")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of newest rows of each rank to use.")
    ] = 100,
) -> None:
    """Show where the time of a trial's newest steps goes, rank by rank."""
    params = {"rows": rows} if attempt is None else {"rows": rows, "attempt": attempt}
    chosen = find_trial(trial)
    found = server().get(f"/trials/{chosen['id']}/performance", **params)
    if printed_json(found):
        return
    if not found["ranks"]:
        say(f"Trial {address(chosen)} has measured no steps in attempt {found['attempt_no']}.")
        return
    say(
        f"Trial {address(chosen)} ({chosen['experiment_name']}), attempt {found['attempt_no']}, steps "
        f"{found['first_step']} to {found['last_step']}: means over the newest {found['num_rows']} rows "
        "of each rank, in milliseconds per step."
    )
    say(_in_short(found) + ".")
    if source := found.get("source"):
        say(source)
    for use in found.get("foreign", []):
        say(f"{use}, which may have slowed its steps.")
    if found["bottleneck"] is not None:
        say(f"{found['bottleneck']['headline']} {found['bottleneck']['reason']}")
    out = console()
    out.print(_ranks(found["ranks"]))
    if len(found["ranks"]) < found["num_ranks"]:
        say(f"The first {len(found['ranks'])} of {found['num_ranks']} ranks.")
    if found["traffic"]:
        out.print(_traffic(found["traffic"]))
        for line in _rare(found["traffic"], is_of_steps=found["bucket_steps"] == 1):
            say(line)
    if found["stages"]:
        out.print(_stages(found["stages"]))
        if found["imbalance"] is not None:
            say(f"The slowest stage computes {found['imbalance']:.0%} longer than the mean.")
    bottleneck, culprit = found["bottleneck"], found["culprit"]
    if culprit is not None and (bottleneck is None or bottleneck["kind"] != "waiting"):
        say(culprit["reason"])


def _in_short(found: schema.PerformanceOut) -> str:
    """Return what the head of the trial's page shows."""
    speed, share = speed_text(found["figures"]), communication_text(found["figures"])
    parts = [f"{_ms(found['figures'].get('time/step_ms'))} ms per step"]
    if speed != "–":
        parts.insert(0, speed)
    if share != "–":
        parts.append(f"communication and waiting {share}")
    return ", ".join(parts)


def _ranks(ranks: list[schema.RankSteps]) -> Any:
    parts = [name for name in SHORT if any(name in r["parts"] for r in ranks)]
    beside = {
        name: title for name, title in BESIDE.items() if any(r[name] is not None for r in ranks)
    }
    headers = (SHORT[p].upper() for p in parts)
    names = ("RANK", "ROWS", "STEP", *headers, *beside.values(), "WAIT", "HELD UP")
    shown = table(*names, right=names)
    for rank in ranks:
        shown.add_row(
            str(rank["rank"]),
            str(rank["num_rows"]),
            _ms(rank["step_ms"]),
            *(_ms(rank["parts"].get(part)) for part in parts),
            *(_ms(rank[name]) for name in beside),
            _ms(rank["wait_ms"]),
            _ms(rank["held_up_ms"]),
        )
    return shown


def _traffic(traffic: list[schema.KindTraffic]) -> Any:
    numbers = ("RANKS", "COUNT", "BYTES", "TIME", "TRANSFER", "WAIT", "BUS MB/S")
    shown = table("GROUP", "KIND", *numbers, right=numbers)
    for kind in traffic:
        bus = kind["bus_bytes_per_s"]
        shown.add_row(
            escape(kind["group"]),
            escape(kind["kind"]),
            str(len(kind["ranks"])),
            f"{kind['count']:.1f}",
            f"{kind['num_bytes']:,.0f}",
            _ms(kind["time_ms"]),
            _ms(kind["transfer_ms"]),
            _ms(kind["wait_ms"]),
            "-" if bus is None else f"{bus / 1e6:,.1f}",
        )
    return shown


def _rare(traffic: list[schema.KindTraffic], *, is_of_steps: bool) -> list[str]:
    """Return a sentence for each kind that only some steps have: the table averages it over all
    steps."""
    of = "steps" if is_of_steps else "rows"
    return [
        f"{kind['kind']} of {kind['group']} is in {kind['num_rows_with']} of {kind['num_rows']} {of}, "
        f"{kind['time_ms_with']:.1f} ms in each of them."
        for kind in traffic
        if kind["num_rows_with"] < kind["num_rows"]
    ]


def _stages(stages: list[schema.Stage]) -> Any:
    shown = table(
        "STAGE", "RANKS", "COMPUTE", "BUBBLE", "STEP", right=("COMPUTE", "BUBBLE", "STEP")
    )
    for stage in stages:
        shown.add_row(
            str(stage["stage"]),
            ", ".join(map(str, stage["ranks"])),
            _ms(stage["compute_ms"]),
            _ms(stage["bubble_ms"]),
            _ms(stage["step_ms"]),
        )
    return shown


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
