"""Commands about checkpoints: list, pin, clean up, export."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.byte_sizes import byte_size

from ..absent import server
from ..group import CommandSet
from ..output import (
    Cell,
    CommandFailure,
    age,
    number,
    print_json,
    print_rows,
    printed_json,
    say,
    usage_error,
    wants_json,
)
from ..trials import ExperimentArgument, TrialArgument, find_trial

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Checkpoints: list, pin, clean up, export.")

LastOption = Annotated[
    int | None, typer.Option("--last", min=0, help="Keep the newest N of each trial.")
]
BestOption = Annotated[
    int | None, typer.Option("--best", min=0, help="Keep the best N of each trial.")
]
ExperimentBestOption = Annotated[
    int | None, typer.Option("--experiment-best", min=0, help="Keep the best N of all trials.")
]


@app.command("list")
def list_(trial: TrialArgument) -> None:
    """List the checkpoints of a trial, newest first."""
    found = find_trial(trial)
    checkpoints = list(server().pages(f"/trials/{found['id']}/checkpoints"))
    columns: dict[str, Cell[schema.CheckpointOut]] = {
        ">id": "id",
        ">step": "step",
        ">size": ("size_bytes", byte_size),
        "state": _state,
        "saved": ("created_at", age),
        "node": "node_name",
        "": _marks,
    }
    print_rows(checkpoints, columns)


def _state(row: schema.CheckpointOut) -> str:
    # It is used by nothing but the next attempt there.
    return f"local, on {row['node_name']}" if row["state"] == "local" else row["state"]


def _marks(row: schema.CheckpointOut) -> str:
    marks = ["best"] if row["is_best"] else []
    marks += ["latest"] if row["is_latest"] else []
    marks += ["pinned"] if row["pinned_at"] else []
    marks += [f"from the script: {row['path']}"] if row.get("kind") == "adopted" else []
    return ", ".join(marks)


CheckpointsArgument = Annotated[
    list[int], typer.Argument(metavar="CHECKPOINT...", help="Numbers of the checkpoints.", min=1)
]


@app.command("pin")
def pin(checkpoints: CheckpointsArgument) -> None:
    """Keep checkpoints regardless of their experiment's retention policy."""
    _pin(checkpoints, "pin")


@app.command("unpin")
def unpin(checkpoints: CheckpointsArgument) -> None:
    """Make checkpoints subject to their experiment's retention policy again."""
    _pin(checkpoints, "unpin")


def _pin(checkpoints: list[int], action: str) -> None:
    done = []
    for checkpoint_id in checkpoints:
        row = server().post(f"/checkpoints/{checkpoint_id}:{action}", repeatable=True)
        done.append(row)
        if not wants_json():
            say(
                f"Checkpoint {row['id']} is {action}ned: step {row['step']} of trial "
                f"{row['trial_no']} of experiment {row['experiment_id']}."
            )
    if wants_json():
        print_json(done)


@app.command("clean")
def clean(
    experiment: ExperimentArgument,
    last: LastOption = None,
    best: BestOption = None,
    experiment_best: ExperimentBestOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, without deleting it.")
    ] = False,
) -> None:
    """Delete, once, the checkpoints of an experiment that a policy does not keep.

    Numbers that you leave out are 0. With --dry-run and no number, the experiment's own policy is
    shown. Checkpoints that an unfinished trial or a fork may resume from are always kept.
    """
    numbers = {"last": last, "best": best, "experiment_best": experiment_best}
    given = {name: n for name, n in numbers.items() if n is not None}
    if not given and not dry_run:
        raise usage_error(
            "Give the number of checkpoints to keep.", "use --last, --best or --experiment-best"
        )
    if dry_run:
        plan = server().get(f"/experiments/{experiment}/checkpoints:plan", **given)
    else:
        body = {name: given.get(name, 0) for name in numbers}
        done = server().post(f"/experiments/{experiment}/checkpoints:clean", body)
    if not dry_run:
        if not printed_json(done):
            num = done["num_deleted"]
            go = (
                "Deleted 1 checkpoint; agents delete its"
                if num == 1
                else f"Deleted {num} checkpoints; agents delete their"
            )
            say(f"{go} files.")
        return
    if printed_json(plan):
        return
    _print_plan(plan)


def _print_plan(plan: schema.CleaningPlanOut) -> None:
    columns: dict[str, Cell[schema.CheckpointVerdict]] = {
        ">id": "id",
        "trial": "trial_no",
        ">step": "step",
        "value": ("value", number),
        ">size": ("size_bytes", byte_size),
        "": ("is_kept", lambda is_kept: "keep" if is_kept else "delete"),
        "reason": "reason",
    }
    print_rows(plan["checkpoints"], columns)
    say(
        f"{plan['num_dropped']} of {plan['num_dropped'] + plan['num_kept']} checkpoints would be deleted, "
        f"{byte_size(plan['freed_bytes'])} ({plan['policy']})."
    )


@app.command("export", takes_json=False)
def export(
    place: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="Number, folder or URL of the checkpoint."),
    ],
    output: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write, such as model.safetensors.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Export the model of a built-in trainer's checkpoint to one safetensors file, or a checkpoint that
    the script saved, as it is (several files as a tar archive).

    For a checkpoint's number, an agent writes the file and the server passes it on. For a folder or
    URL, the file is written here, without a server and without torch; an object store needs the
    same credentials as the workers, and space for a copy. The checkpoint is verified first.
    """
    if output.exists() and not force:
        raise usage_error(f"{output} already exists.", "use --force to replace it")
    if place.isdecimal() and not Path(place).is_dir():
        _export_by_server(int(place), output)
    else:
        _export_here(place, output)


def _export_by_server(checkpoint_id: int, output: Path) -> None:
    from muster.client.exports import wait_for_export

    client = server()
    found = client.post(f"/checkpoints/{checkpoint_id}:export", repeatable=True)
    found = wait_for_export(client, found, on_wait=lambda what: say(f"Waiting for {what}."))
    if found["state"] == "failed":
        raise CommandFailure(f"Checkpoint {checkpoint_id} was not exported: {found['message']}.")
    client.download_to(f"/exports/{found['id']}/file", output)
    what = "model" if found["file_name"].endswith(".safetensors") else "checkpoint"
    say(
        f"Wrote the {what} of step {found['step']} to {output} ({byte_size(found['size_bytes'] or 0)})."
    )


def _export_here(place: str, output: Path) -> None:
    from muster.sdk import object_store, shards
    from muster.sdk.checkpoints import CheckpointDamaged, verify_checkpoint

    draft = output.with_name(f".{output.name}.{os.getpid()}")
    copy = output.with_name(f".{output.name}.{os.getpid()}-fetched")
    try:
        if object_store.is_url(place):
            folder, manifest = object_store.fetch(place, copy)
        else:
            folder = Path(place)
            manifest = verify_checkpoint(folder)
        num_bytes, pieces = shards.exported(folder)
        with draft.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        draft.replace(output)
    except FileNotFoundError as error:
        raise CommandFailure(
            f"{place} has no {shards.INDEX}, so it was not saved by the built-in trainer."
        ) from error
    except CheckpointDamaged as error:
        raise CommandFailure(str(error)) from error
    except object_store.StoreRefused as error:
        raise CommandFailure(str(error.strerror)) from error
    finally:
        draft.unlink(missing_ok=True)
        shutil.rmtree(copy, ignore_errors=True)
    say(f"Wrote the model of step {manifest.step} to {output} ({byte_size(num_bytes)}).")
