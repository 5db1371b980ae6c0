"""Commands that act on experiments: pause, resume, stop, kill, archive, delete, label.

All of them take numbers, or a filter in their place. They ask the server which experiments that
is, and then do it to exactly those: should the selection change in between, nothing is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.byte_sizes import byte_size

from ..absent import server
from ..output import (
    console,
    duration,
    escape,
    print_json,
    printed_json,
    say,
    styled_state,
    table,
    usage_error,
    wants_json,
)
from ..selecting import SelectionOptions, selecting
from ..trials import TrialArgument, address, find_trial

if TYPE_CHECKING:
    from muster.client import schema


PAST = {
    "pause": "is to pause",
    "resume": "goes on",
    "stop": "is to stop",
    "kill": "is to be killed",
    "continue": "goes on",
    "archive": "is archived",
    "unarchive": "is shown again",
    "delete": "is deleted",
    "label": "is labeled",
}
_ALWAYS_ASK = frozenset({"delete"})
SHOWN = 50
"""Experiments a preview lists in the terminal; --json lists all of them."""


def operate(action: str, asked: SelectionOptions, **more: Any) -> None:
    """Preview, confirm where required, and run the operation. Exit code 1 when something was
    refused."""
    body = {"action": action, **asked.which, **more}
    preview = server().post("/experiments:bulk-preview", body, repeatable=True)
    if asked.dry_run:
        _print_preview(preview)
        raise typer.Exit(1 if preview["num_refused"] else 0)
    if preview["num"] == 0:
        say("No experiments match.")
        if wants_json():
            print_json({**preview, "num_changed": 0, "num_unchanged": 0})
        return
    unsaved = preview.get("unsaved")
    if unsaved and not wants_json():
        _warn_of_unsaved(unsaved)
    must_ask = action in _ALWAYS_ASK or "filter" in asked.which or preview["num"] > 1
    if must_ask and preview["num_changes"] and not asked.yes:
        _ask(action, preview)
    done = server().post_once("/experiments:bulk", {**body, "digest": preview["digest"]})
    if not printed_json(done):
        _print_done(action, done)
    if done["num_refused"]:
        raise typer.Exit(1)


def _warn_of_unsaved(unsaved: schema.UnsavedOut) -> None:
    """Say before anything ends what is in no checkpoint."""
    num, ran = unsaved["num_trials"], duration(unsaved["longest_s"])
    who = "1 running trial has" if num == 1 else f"{num:,} running trials have"
    how_long = f"started {ran} ago" if num == 1 else f"the first started {ran} ago"
    print(
        f"warning: {who} no checkpoint yet ({how_long}). Unless one is saved on the request to stop, or "
        "the script loads files that it saved, training starts from the beginning when it is resumed. "
        "The work folder is kept.",
        file=sys.stderr,
    )


def _ask(action: str, preview: schema.BulkPreviewOut) -> None:
    if wants_json() or not sys.stdin.isatty():
        raise usage_error(
            f"{preview['num_changes']} experiments are selected; confirming needs a terminal.",
            "check with --dry-run, then add --yes",
        )
    _print_preview(preview)
    if not typer.confirm(f"{action.capitalize()} {preview['num_changes']}?", err=True):
        say("Nothing was done.")
        raise typer.Exit(1)


def _print_preview(preview: schema.BulkPreviewOut) -> None:
    if printed_json(preview):
        return
    shown = table("id", "name", "state", "outcome", right=("id",))
    for item in preview["items"][:SHOWN]:
        shown.add_row(
            str(item["id"]),
            escape(item["name"]),
            styled_state(item["state"]),
            escape(item["message"] or item["outcome"]),
        )
    console().print(shown)
    if len(preview["items"]) > SHOWN:
        say(f"… and {len(preview['items']) - SHOWN} more; --json lists all of them.")
    if preview["freed"] is not None:
        print_freed(preview["freed"])


def print_freed(freed: schema.FreedOut) -> None:
    """Print what deleting would free."""
    say(
        f"Frees {count(freed['num_trials'], 'trial')}, {byte_size(freed['metric_bytes'])} of metrics, "
        f"{byte_size(freed['log_bytes'])} of logs, {byte_size(freed['bundle_bytes'])} of code, "
        f"{count(freed['num_checkpoints'], 'checkpoint')} ({byte_size(freed['checkpoint_bytes'])}) and "
        f"{count(freed['num_outputs'], 'output file')} ({byte_size(freed['outputs_bytes'])})."
    )
    for storage in freed["storages"]:
        where = ", ".join(storage["nodes"])
        if not storage["storage_id"]:
            say(f"  on {where}: no agent can delete these files; they stay")
        elif not storage["is_reachable"]:
            say(f"  on {where}: deleted as soon as one of them is online again")


def count(number: int, noun: str) -> str:
    """Return a count with its noun, for example "1 trial" or "2 trials"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _print_done(action: str, done: schema.BulkOut) -> None:
    for item in done["items"]:
        if item["outcome"] == "refused":
            print(f"error: experiment {item['id']}: {item['message']}", file=sys.stderr)
        elif item["outcome"] == "unchanged":
            say(f"Experiment {item['id']}: nothing to do ({item['state']})")
        else:
            say(f"Experiment {item['id']} {PAST[action]}.")


def _command(action: str, text: str) -> Callable[..., None]:
    def command(asked: SelectionOptions) -> None:
        operate(action, asked)

    command.__doc__ = text
    return selecting()(command)


def _ending(action: str, text: str) -> Callable[..., None]:
    def command(asked: SelectionOptions) -> None:
        if not asked.trials:
            operate(action, asked)
            return
        if asked.dry_run:
            raise usage_error("--dry-run goes with experiments.")
        found = [find_trial(trial) for trial in asked.trials]
        end = server().kill_trial if action == "kill" else server().stop_trial
        ended = [end(trial["id"]) for trial in found]
        if printed_json(ended[0] if len(ended) == 1 else ended):
            return
        for trial in ended:
            say(f"Trial {address(trial)}: {trial['state']}")

    command.__doc__ = text
    return selecting(archived=False, trials=True)(command)


pause = _command("pause", "Let trials save a checkpoint and give up their slots until resumed.")
resume = _command("resume", "Resume paused experiments from their checkpoints.")
stop = _ending("stop", "Stop experiments or trials, leaving time to save a last checkpoint.")
kill = _ending("kill", "End experiments or trials, at once and without a checkpoint.")


def keep(
    trial: TrialArgument,
    hours: Annotated[float, typer.Option(help="For how long, 168 at most.")] = 8.0,
) -> None:
    """Keep a trial running for some hours that was noticed to hold slots and do nothing."""
    kept = server().post(f"/trials/{find_trial(trial)['id']}:keep", {"hours": hours})
    if not printed_json(kept):
        say(f"Trial {address(kept)} is kept running until {kept['keep_until']}.")


archive = _command("archive", "Hide experiments that have ended from lists.")
unarchive = _command("unarchive", "Show archived experiments in lists again.")


@selecting()
def delete(
    asked: SelectionOptions,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Keep their checkpoint files.")
    ] = False,
) -> None:
    """Delete finished experiments with all their data and files."""
    operate("delete", asked, keep_files=keep_files)


@selecting()
def label(
    asked: SelectionOptions,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set this label; repeatable."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NAME", help="Remove this label; repeatable."),
    ] = None,
) -> None:
    """Set and remove labels of experiments. Other labels are kept."""
    if not (set_ or remove):
        raise usage_error("Give a label to set or remove.", "--set team=vision or --remove team")
    labels: dict[str, str] = {}
    for text in set_ or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise usage_error(f"{text!r} is not a label.", "--set team=vision")
        labels[name] = value
    operate("label", asked, set_labels=labels, remove_labels=list(remove or ()))
