"""The command that traces ranks of a running trial and downloads the traces."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...absent import server
from ...output import CommandFailure, console, escape, printed_json, say, table
from ...trials import TrialArgument, address, find_trial

if TYPE_CHECKING:
    from muster.client import Client, schema

POLL_S = 0.5


def profile(
    trial: TrialArgument,
    ranks: Annotated[str, typer.Option(help="Global ranks, such as 0,1; at most 8.")] = "0",
    steps: Annotated[
        int, typer.Option(min=1, max=20, help="Number of optimizer steps, from the next one on.")
    ] = 5,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the traces.")
    ] = Path(),
    last: Annotated[
        bool, typer.Option("--last", help="Fetch the newest window instead of opening one.")
    ] = False,
) -> None:
    """Trace chosen ranks of a running trial with torch's profiler for some steps.

    Training continues, more slowly while the trace is recorded. Open the files in https://ui.perfetto.dev or in
    chrome://tracing.
    """
    client = server()
    chosen = find_trial(trial)
    trial_id = chosen["id"]
    if last:
        windows = client.get(f"/trials/{trial_id}/profiles")["items"]
        if not windows:
            raise CommandFailure(
                f"Trial {address(chosen)} has no stored traces.", f"muster profile {trial}"
            )
        found = windows[0]
    else:
        body = {"ranks": _ranks(ranks), "steps": steps}
        found = client.post(f"/trials/{trial_id}/profiles", body)
    while not found["is_complete"]:
        time.sleep(POLL_S)
        found = client.get(f"/trials/{trial_id}/profiles/{found['no']}")
    files = _fetch(client, chosen, found, output)
    if printed_json({**found, "files": [str(file) for file in files]}):
        return
    shown = table("RANK", "NODE", "STEPS", "KIB", "", right=("RANK", "KIB"))
    for rank in found["ranks"]:
        ready = rank["state"] == "ready"
        shown.add_row(
            str(rank["rank"]),
            escape(rank["node_name"]),
            f"{rank['first_step']} to {rank['last_step']}" if ready else "-",
            f"{rank['size_bytes'] / 1024:.0f}" if ready else "-",
            escape(rank["problem"]),
        )
    console().print(shown)
    for file in files:
        print(file)
    if not files:
        raise typer.Exit(1)
    say("Open them in https://ui.perfetto.dev or chrome://tracing.")


def _ranks(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise CommandFailure(f"--ranks {text!r} is not a list of ranks.", "--ranks 0,1") from None


def _fetch(
    client: Client, trial: schema.TrialOut, found: schema.ProfileOut, folder: Path
) -> list[Path]:
    """Download the available traces; an existing file is overwritten."""
    files = []
    folder.mkdir(parents=True, exist_ok=True)
    for rank in found["ranks"]:
        if rank["state"] != "ready":
            continue
        place = f"/trials/{found['trial_id']}/profiles/{found['no']}/ranks/{rank['rank']}/trace"
        name = f"trial-{address(trial)}-window-{found['no']}-rank-{rank['rank']}.json.gz"
        file = folder / name
        file.write_bytes(client.download(place))
        files.append(file)
    return files
