"""Commands that do something with experiments: pause, resume, stop, kill, archive, delete, label.

All of them take numbers, or a filter in their place. They ask the server which experiments that
is, and then do it to exactly those: should the selection change in between, nothing is done.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import EXIT_USAGE
from .experiments import TrialOption, find_trial
from .output import Failure, JsonOption, console, escape, print_json, say, styled_state, table

if TYPE_CHECKING:
    from ..client import Client


class State(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


class Archived(StrEnum):
    exclude = "exclude"
    include = "include"
    only = "only"


NumbersArgument = Annotated[
    list[int] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Their numbers.")
]
StateOption = Annotated[
    list[State] | None,
    typer.Option("--state", case_sensitive=False, help="All in this state; repeatable."),
]
ProjectOption = Annotated[str | None, typer.Option("--project", help="All of this project.")]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME[=VALUE]", help="All with this label; repeatable."),
]
OwnerOption = Annotated[str | None, typer.Option("--owner", help="All of this user.")]
QueryOption = Annotated[str | None, typer.Option("-q", "--query", help="Part of the name.")]
ArchivedOption = Annotated[
    Archived, typer.Option("--archived", help="Whether a filter finds archived ones.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show which experiments it would be.")
]

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


def selection(
    numbers: list[int] | None,
    *,
    state: list[State] | None = None,
    project: str | None = None,
    label: list[str] | None = None,
    owner: str | None = None,
    query: str | None = None,
    archived: Archived = Archived.exclude,
) -> dict[str, Any]:
    """The part of a bulk request that says which experiments. Raises Failure."""
    given: dict[str, Any] = {
        "state": [s.value for s in state or ()],
        "project": project,
        "label": list(label or ()),
        "owner": owner,
        "q": query,
        "archived": archived.value if archived is not Archived.exclude else None,
    }
    filters = {k: v for k, v in given.items() if v}
    if bool(numbers) == bool(filters):
        wrong = "Numbers and a filter exclude each other." if numbers else "Which experiments?"
        raise Failure(
            wrong,
            "their numbers, or a filter such as --state FAILED --label team=vision",
            exit_code=EXIT_USAGE,
        )
    return {"ids": numbers} if numbers else {"filter": filters}


def operate(
    action: str, which: dict[str, Any], *, yes: bool, dry_run: bool, as_json: bool, **more: Any
) -> None:
    """Preview, ask where that is due, and do it. Exit code 1 when something was refused."""
    body = {"action": action, **which, **more}
    with client_of_environment() as client:
        preview = client.post("/experiments:bulk-preview", body, repeatable=True)
        if dry_run:
            _print_preview(preview, as_json=as_json)
            raise typer.Exit(1 if preview["num_refused"] else 0)
        if preview["num"] == 0:
            say("No experiment is selected.")
            if as_json:
                print_json({**preview, "num_changed": 0, "num_unchanged": 0})
            return
        must_ask = action in _ALWAYS_ASK or "filter" in which or preview["num"] > 1
        if must_ask and preview["num_changes"] and not yes:
            _ask(action, preview, as_json=as_json)
        done = client.call(
            "POST",
            "/experiments:bulk",
            body={**body, "digest": preview["digest"]},
            headers={"Idempotency-Key": uuid.uuid4().hex},
            repeatable=True,
        ).json()
    if as_json:
        print_json(done)
    else:
        _print_done(action, done)
    if done["num_refused"]:
        raise typer.Exit(1)


def _ask(action: str, preview: dict[str, Any], *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise Failure(
            f"{preview['num_changes']} experiments are selected, and nobody can be asked.",
            "look with --dry-run, then say --yes",
            exit_code=EXIT_USAGE,
        )
    _print_preview(preview, as_json=False)
    if not typer.confirm(f"{action.capitalize()} {preview['num_changes']}?", err=True):
        say("Nothing was done.")
        raise typer.Exit(1)


def _print_preview(preview: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(preview)
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


def print_freed(freed: dict[str, Any]) -> None:
    """What deleting would take away."""
    say(
        f"Frees {freed['num_trials']} trials, {size(freed['metric_bytes'])} of metrics, "
        f"{size(freed['log_bytes'])} of logs, {size(freed['bundle_bytes'])} of code and "
        f"{freed['num_checkpoints']} checkpoints ({size(freed['checkpoint_bytes'])})."
    )
    for storage in freed["storages"]:
        where = ", ".join(storage["nodes"])
        if not storage["storage_id"]:
            say(f"  on {where}: no agent can delete these files; they stay")
        elif not storage["is_reachable"]:
            say(f"  on {where}: deleted as soon as one of them is back")


def size(num_bytes: int) -> str:
    """ "1.2 MB"."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _print_done(action: str, done: dict[str, Any]) -> None:
    for item in done["items"]:
        if item["outcome"] == "refused":
            print(f"error: experiment {item['id']}: {item['message']}", file=sys.stderr)
        elif item["outcome"] == "unchanged":
            say(f"Experiment {item['id']}: nothing to do ({item['state']})")
        else:
            say(f"Experiment {item['id']} {PAST[action]}.")


def client_of_environment() -> Client:
    from ..client import Client as HttpClient

    return HttpClient.from_environment()


def _command(action: str, text: str) -> Callable[..., None]:
    def command(
        numbers: NumbersArgument = None,
        state: StateOption = None,
        project: ProjectOption = None,
        label: LabelOption = None,
        owner: OwnerOption = None,
        query: QueryOption = None,
        archived: ArchivedOption = Archived.exclude,
        yes: YesOption = False,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        which = selection(
            numbers, state=state, project=project, label=label, owner=owner, query=query,
            archived=archived,
        )  # fmt: skip
        operate(action, which, yes=yes, dry_run=dry_run, as_json=as_json)

    command.__doc__ = text
    return command


def _ending(action: str, text: str) -> Callable[..., None]:
    def command(
        numbers: NumbersArgument = None,
        trial: TrialOption = None,
        state: StateOption = None,
        project: ProjectOption = None,
        label: LabelOption = None,
        owner: OwnerOption = None,
        query: QueryOption = None,
        yes: YesOption = False,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        which = selection(
            numbers, state=state, project=project, label=label, owner=owner, query=query
        )
        if trial is None:
            operate(action, which, yes=yes, dry_run=dry_run, as_json=as_json)
            return
        if numbers is None or len(numbers) != 1 or dry_run:
            raise Failure("--trial goes with the number of one experiment.", exit_code=EXIT_USAGE)
        with client_of_environment() as client:
            found = find_trial(client, numbers[0], trial)
            ended = client.post(f"/trials/{found['id']}:{action}", repeatable=True)
        if as_json:
            print_json(ended)
        else:
            say(f"Experiment {numbers[0]} trial {trial}: {ended['state']}")

    command.__doc__ = text
    return command


pause = _command("pause", "Let trials save a checkpoint and give up their slots until resumed.")
resume = _command("resume", "Let what is paused go on from its checkpoints.")
stop = _ending("stop", "Stop experiments, or one trial, with time for a last checkpoint.")
kill = _ending("kill", "End experiments, or one trial, at once and without a checkpoint.")
archive = _command("archive", "Leave experiments that have ended out of lists.")
unarchive = _command("unarchive", "Show archived experiments in lists again.")


def delete(
    numbers: NumbersArgument = None,
    state: StateOption = None,
    project: ProjectOption = None,
    label: LabelOption = None,
    owner: OwnerOption = None,
    query: QueryOption = None,
    archived: ArchivedOption = Archived.exclude,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Leave their checkpoint files.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete experiments that have ended, with all they recorded and their files."""
    which = selection(
        numbers, state=state, project=project, label=label, owner=owner, query=query,
        archived=archived,
    )  # fmt: skip
    operate("delete", which, yes=yes, dry_run=dry_run, as_json=as_json, keep_files=keep_files)


def label(
    numbers: NumbersArgument = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set this label; repeatable."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NAME", help="Remove this label; repeatable."),
    ] = None,
    state: StateOption = None,
    project: ProjectOption = None,
    having: LabelOption = None,
    owner: OwnerOption = None,
    query: QueryOption = None,
    archived: ArchivedOption = Archived.exclude,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Set and remove labels of experiments; those that are not named stay."""
    if not (set_ or remove):
        raise Failure("Which label?", "--set team=vision or --remove team", exit_code=EXIT_USAGE)
    labels: dict[str, str] = {}
    for text in set_ or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"{text!r} is no label.", "--set team=vision", exit_code=EXIT_USAGE)
        labels[name] = value
    which = selection(
        numbers, state=state, project=project, label=having, owner=owner, query=query,
        archived=archived,
    )  # fmt: skip
    operate(
        "label", which, yes=yes, dry_run=dry_run, as_json=as_json,
        set_labels=labels, remove_labels=list(remove or ()),
    )  # fmt: skip
