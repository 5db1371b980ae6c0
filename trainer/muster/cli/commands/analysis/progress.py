"""The commands about a trial that does not move: how far its ranks are, and where."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster import wire

from ...absent import server
from ...output import console, escape, printed_json, say, table
from ...trials import TrialArgument, address, find_trial

if TYPE_CHECKING:
    from muster.client import schema

WAIT_S = 30.0
"""Seconds to wait for the answers of all ranks."""
POLL_S = 0.5
WITNESSES = {
    "counts": "Collectives",
    "nccl": "NCCL",
    "devices": "Devices",
    "stacks": "Stacks",
}


def progress(trial: TrialArgument) -> None:
    """Show the progress of each rank of a trial, and which rank blocks it if it is stuck."""
    chosen = find_trial(trial)
    found = server().get(f"/trials/{chosen['id']}/progress")
    if printed_json(found):
        return
    say(
        f"Trial {address(chosen)} ({chosen['experiment_name']}), attempt {found['attempt_no']}: "
        f"{found['reason']}"
    )
    for evidence in found["evidence"]:
        say(f"{WITNESSES.get(evidence['witness'], evidence['witness'])}: {evidence['text']}")
    if found["ranks"]:
        console().print(_ranks(found["ranks"]))


def stacks(
    trial: TrialArgument,
    last: Annotated[
        bool, typer.Option("--last", help="Show the latest stacks instead of requesting new ones.")
    ] = False,
) -> None:
    """Show the call stacks of all threads of every rank of a running trial."""
    client = server()
    chosen = find_trial(trial)
    path = f"/trials/{chosen['id']}"
    if last:
        found = client.get(f"{path}/stacks")
    else:
        found = client.post(f"{path}:stacks")
        deadline = time.monotonic() + WAIT_S
        while _num_answers(found) < found["num_expected"] and time.monotonic() < deadline:
            time.sleep(POLL_S)
            found = client.get(f"{path}/stacks", no=found["no"])
    if printed_json(found):
        return
    if not found["ranks"]:
        say(f"There are no stacks of trial {address(chosen)} in attempt {found['attempt_no']}.")
    for rank in found["ranks"]:
        names = {-1: "launcher", wire.RAS_RANK: "status of NCCL (RAS)"}
        who = names.get(rank["rank"], f"rank {rank['rank']}")
        print(f"{who} on {rank['node_name']}, {rank['at']}")
        if rank["is_cut"]:
            print("(the beginning is cut off)")
        print(rank["text"].rstrip() or f"no stacks: {rank['problem']}", end="\n\n")
    missing = found["num_expected"] - _num_answers(found)
    if missing > 0 and not last:
        say(f"{missing} of {found['num_expected']} ranks have not answered within {WAIT_S:.0f} s.")


def _num_answers(found: schema.StacksOut) -> int:
    """Return how many processes have answered; NCCL's status is no process's."""
    return sum(rank["rank"] != wire.RAS_RANK for rank in found["ranks"])


def _ranks(ranks: list[schema.RankProgressOut]) -> Any:
    names = ("RANK", "NODE", "PROCESS", "STEP", "PHASE", "GROUP", "LAST", "CALLED", "OVER", "AT")
    shown = table(*names, right=("RANK", "STEP", "CALLED", "OVER"))
    for rank in ranks:
        own: tuple[str, ...] = (
            str(rank["rank"]),
            escape(rank["node_name"]),
            rank["process"] or "-",
            "-" if rank["step"] is None else str(rank["step"]),
            rank["phase"] or "-",
        )
        groups: list[schema.GroupCountOut | None] = [*rank["groups"]]
        for group in groups or [None]:
            counts: tuple[str, ...] = ("-",) * 5
            if group is not None:
                counts = (
                    escape(group["group"]),
                    group["kind"],
                    str(group["num_enqueued"]),
                    str(group["num_completed"]),
                    escape(group.get("source", "")) or "-",
                )
            shown.add_row(*own, *counts)
            own = ("", "", "", "", "")
    return shown
