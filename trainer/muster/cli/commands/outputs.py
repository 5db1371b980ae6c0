"""Commands about the files that jobs wrote: list, get, clean up."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.byte_sizes import SIZE_EXAMPLES, byte_size, parse_size

from ..absent import server
from ..group import CommandSet
from ..output import (
    age,
    console,
    escape,
    number,
    print_json,
    printable,
    printed_json,
    report,
    say,
    table,
    until,
    usage_error,
    wants_json,
)
from ..trials import ExperimentArgument, TrialArgument, find_trial
from .operations import count

if TYPE_CHECKING:
    from muster.client import Client, schema
    from muster.client.outputs import Fetched

WAIT_POLL_S = 1.0

app = CommandSet(help="Files that jobs wrote: list, get, clean up.")


@app.command("list")
def list_(
    trial: TrialArgument,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Show state, nodes and digest, too.")
    ] = False,
) -> None:
    """List the files that a trial wrote, and what was not kept.

    Files are those of all its nodes. Where two nodes wrote different content under one name, the
    second is shown with @node1 behind it.
    """
    from muster.client.outputs import list_outputs

    found = find_trial(trial)
    summary = server().get(f"/trials/{found['id']}/outputs/summary")
    files = list_outputs(server(), found["id"])
    if printed_json({"summary": summary, "files": files}):
        return
    if files:
        console().print(_table(files, long=long))
    for sentence in (*_sentences(summary), *_kept_for(summary)):
        say(sentence)


def _table(files: list[schema.OutputFileOut], *, long: bool) -> Any:
    columns = ["path", "size", "modified", *(["state", "nodes", "sha256"] if long else []), ""]
    shown = table(*columns, right=("size",))
    for file in files:
        note = ""
        if file["state"] == "link":
            note = f"→ {file['target']}"
        elif file["state"] == "left_out":
            note = f"not kept: {file['reason']}"
        elif file["state"] == "growing":
            note = "still being written"
        more = [file["state"], ", ".join(file["nodes"]), file["sha256"][:12]] if long else []
        cells = [
            file["path"],
            byte_size(file["size_bytes"]),
            f"{age(file['modified_at'])} ago",
            *more,
            note,
        ]
        shown.add_row(*(escape(cell) for cell in cells))
    return shown


def _sentences(summary: schema.OutputsSummaryOut) -> list[str]:
    if summary["state"] == "deleted":
        size = byte_size(summary["deleted_bytes"])
        return [
            f"Its outputs, {size}, were deleted {age(summary['deleted_at'])} ago; its events say why."
        ]
    if summary["state"] == "off":
        return ["Nothing is kept: the document says `outputs: null`."]
    kept = f"{count(summary['num_files'], 'file')} kept, {byte_size(summary['size_bytes'])}"
    left_out = f"{summary['num_left_out']:,} not kept, {byte_size(summary['left_out_bytes'])}"
    found = [f"{kept}; {left_out}." if summary["num_left_out"] else f"{kept}."]
    for node in summary["nodes"]:
        if node["problem"]:
            found.append(f"{node['node_name']}: {node['problem']}")
        elif node["state"] == "missing":
            found.append(f"{node['node_name']}: its last files have not been collected yet.")
        if not node["is_reachable"]:
            found.append(f"{node['node_name']}: no node is online that can read its storage.")
    if summary["state"] == "collecting":
        found.append("The job is running: files are collected from time to time, and at its end.")
    return [printable(sentence) for sentence in found]


def _kept_for(summary: schema.OutputsSummaryOut) -> list[str]:
    """Return what the document says of keeping the files; empty if they stay."""
    keep = summary["keep"]
    if keep is None:
        return []
    rules = []
    if keep["days"] is not None:
        rules.append(f"outputs {keep['days']:g} d after their last change")
    if keep["max_bytes"] is not None:
        rules.append(f"the oldest beyond {byte_size(keep['max_bytes'])} of the experiment")
    found = [f"The experiment's policy deletes {' and '.join(rules)}."]
    if keep["experiment_best"]:
        found[0] = f"{found[0][:-1]}; those of the {keep['experiment_best']} best trials stay."
    if summary["held"]:
        found.append(f"These stay for now: {summary['held']}.")
    elif summary["expires_at"] is not None:
        found.append(f"These reach that age {until(summary['expires_at'])}.")
    return found


@app.command("get")
def get(
    trial: TrialArgument,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Files, folders or patterns such as '*.pt'."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder to write to; outputs-TRIAL by default."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that have other content.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait until the job has stopped and all its files are collected."
        ),
    ] = False,
) -> None:
    """Fetch files that a trial wrote.

    Every file is checked against its digest. After an interruption, run the command again: files that
    you already have are not fetched again, and large files continue where they stopped.
    """
    from muster.client.outputs import fetch_outputs

    folder = target_folder(output, f"outputs-{trial}")
    found = find_trial(trial)
    if wait:
        _wait(server(), found["id"])
    done = fetch_outputs(server(), found["id"], paths or [], folder, force=force, on_progress=say)
    report_fetched(done, folder, skipped=done.skipped)
    for file in done.skipped if not wants_json() else ():
        why = f"a link to {file['target']}" if file["state"] == "link" else file["reason"]
        say(printable(f"  not fetched: {file['path']} ({byte_size(file['size_bytes'])}): {why}"))


def target_folder(output: Path | None, default: str) -> Path:
    """Return the folder to write files to. Raises CommandFailure for what is none."""
    folder = output if output is not None else Path(default)
    if folder.exists() and not folder.is_dir():
        raise usage_error(f"{folder} is not a folder.")
    return folder


def report_fetched(done: Fetched, folder: Path, **more: Any) -> None:
    """Print what came of fetching files. more: further fields of the JSON."""
    files = count(done.num_files, "file")
    unchanged = f"; {count(done.num_unchanged, 'file')} there already" if done.num_unchanged else ""
    report(
        {
            "folder": str(folder),
            "num_files": done.num_files,
            "size_bytes": done.size_bytes,
            "num_unchanged": done.num_unchanged,
            **more,
        },
        f"Wrote {files} to {folder} ({byte_size(done.size_bytes)}){unchanged}.",
    )


def _wait(client: Client, trial_id: int) -> None:
    """Return once nothing more comes. What an agent cannot collect is said meanwhile, once."""
    said: set[str] = set()
    while True:
        summary = client.get(f"/trials/{trial_id}/outputs/summary")
        if summary["state"] in ("complete", "off", "deleted"):
            return
        for sentence in _sentences(summary)[1:]:
            if sentence not in said:
                said.add(sentence)
                say(sentence)
        time.sleep(WAIT_POLL_S)


AGE_EXAMPLES = "write an age such as 12h, 30d or 8w"
_AGE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) ?([hdw])")
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
MAX_AGE_DAYS = 36_500


def parse_days(text: str) -> float:
    """Return the days that "12h", "30d" or "8w" stand for. Raises BadParameter."""
    found = _AGE.fullmatch(text.strip())
    days = float(found[1]) * _DAYS[found[2]] if found is not None else 0.0
    if not 0 < days <= MAX_AGE_DAYS:
        raise typer.BadParameter(f"{text!r} is not an age: {AGE_EXAMPLES}.")
    return days


def parse_bytes(text: str) -> int:
    """Return the bytes that "50GB" stands for; "0" is allowed. Raises BadParameter."""
    try:
        return 0 if text.strip() == "0" else parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} {error}: {SIZE_EXAMPLES}.") from None


@app.command("clean")
def clean(
    experiment: ExperimentArgument,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            parser=parse_days,
            help="Delete outputs whose last change was collected longer ago: 12h, 30d or 8w.",
        ),
    ] = None,
    max_size: Annotated[
        int | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            parser=parse_bytes,
            help="Delete the oldest until the experiment's outputs take at most this, such as 50GiB.",
        ),
    ] = None,
    keep_best: Annotated[
        int, typer.Option("--keep-best", min=0, help="Keep those of the best N trials regardless.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, without deleting it.")
    ] = False,
) -> None:
    """Delete, once, the outputs of an experiment's trials by age and size.

    The outputs of a trial are deleted as a whole. They are kept if the trial may still run or has a
    pinned checkpoint, if its last files have not been collected, or if somebody is downloading them.
    With --dry-run and no limit, the policy of the experiment's document is shown.
    """
    if older_than is None and max_size is None and (keep_best or not dry_run):
        raise usage_error(
            "Neither an age nor a size is given: nothing says what is to be deleted.",
            "use --older-than, --max-size or both",
        )
    policy = {"older_than_days": older_than, "max_bytes": max_size, "keep_best": keep_best or None}
    given = {name: value for name, value in policy.items() if value is not None}
    if dry_run:
        plan = server().get(f"/experiments/{experiment}/outputs:plan", **given)
    else:
        done = server().post(f"/experiments/{experiment}/outputs:clean", given)
    if wants_json():
        print_json(plan if dry_run else done)
    elif dry_run:
        _print_plan(plan)
    else:
        of = count(done["num_deleted"], "trial")
        say(
            f"Deleted the outputs of {of}, {byte_size(done['freed_bytes'])}; agents delete the files."
        )


def _print_plan(plan: schema.OutputsCleaningPlanOut) -> None:
    if plan["trials"]:
        right = ("files", "size", "metric")
        shown = table("trial", "files", "size", "collected", "metric", "", "reason", right=right)
        for row in plan["trials"]:
            shown.add_row(
                f"{plan['experiment_id']}.{row['trial_no']}",
                f"{row['num_files']:,}",
                byte_size(row["size_bytes"]),
                f"{age(row['collected_at'])} ago",
                number(row["value"]),
                "keep" if row["is_kept"] else "delete",
                row["reason"],
            )
        console().print(shown)
    num = plan["num_dropped"] + plan["num_kept"]
    if num > len(plan["trials"]):
        say(f"The first {len(plan['trials']):,} of {num:,} trials are shown.")
    say(
        f"The outputs of {plan['num_dropped']:,} of {count(num, 'trial')} would be deleted, "
        f"{byte_size(plan['freed_bytes'])}; {byte_size(plan['kept_bytes'])} would stay "
        f"({plan['policy']})."
    )
