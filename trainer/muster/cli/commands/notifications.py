"""Commands about notifications: rules, targets, tests and history. An address is never an argument."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..absent import server
from ..group import CommandSet
from ..output import (
    Cell,
    CommandFailure,
    age,
    last_use,
    print_json,
    print_rows,
    printed_json,
    report,
    say,
    usage_error,
    wants_json,
)
from ..selecting import YesOption
from .secrets import read_value

if TYPE_CHECKING:
    from muster.client import Client, schema

TEST_TIMEOUT_S = 60.0
"""Seconds for which `muster notify test` waits for the outcome."""
POLL_S = 0.5
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL

app = CommandSet(help="Notifications by e-mail, webhook and chat.")

NameArgument = Annotated[str, typer.Argument(metavar="TARGET", help="Name of the target.")]
ProjectOption = Annotated[
    str | None, typer.Option("--project", help="The project that owns it; without it, you do.")
]


@app.command("targets")
def targets(project: ProjectOption = None) -> None:
    """List your targets, or those of a project. Addresses and secrets are never shown."""
    found = list(server().pages("/notifications/targets", **_of(project)))
    columns: dict[str, Cell[schema.NotificationTargetOut]] = {
        "name": "name",
        "kind": "kind",
        "to": "summary",
        "state": _state,
        ">waiting": "num_waiting",
        "last sent": ("last_sent_at", last_use),
    }
    empty = "There are no targets yet: `muster notify add NAME webhook` creates one."
    print_rows(found, columns, empty=empty)


@app.command("add")
def add(
    name: NameArgument,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="email, webhook or apprise.")
    ] = "webhook",
    to: Annotated[
        list[str] | None, typer.Option("--to", help="Address that mail goes to; repeatable.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file", metavar="F", help="Take the address from this file, on one line."
        ),
    ] = None,
    secret_to: Annotated[
        Path | None,
        typer.Option(
            "--secret-to",
            metavar="F",
            help="Write the secret that signs a webhook to this new file (0600).",
        ),
    ] = None,
    project: ProjectOption = None,
) -> None:
    """Create a target.

    The address of a webhook, or of a service in the notation of Apprise (slack://…, ntfy://…),
    comes from a file, from standard input, or from a prompt that does not show it: such addresses
    are secrets. Mail goes through the mail server of the installation.
    """
    if kind == "email":
        if not to:
            raise usage_error("Where to?", "name an address with --to")
        config: dict[str, Any] = {"kind": kind, "to": to}
    elif kind in ("webhook", "apprise"):
        config = {"kind": kind, "url": read_value("the address", from_file).strip()}
    else:
        raise usage_error(f"{kind!r} is no kind of target.", "use email, webhook or apprise")
    body = {"name": name, "config": config, **_of(project)}
    with _new_file(secret_to) as file:
        made = server().post("/notifications/targets", body)
        if file is not None:
            file.write((made["secret"] or "") + "\n")
    if printed_json(made):
        return
    say(f"Created target {name}. Try it with `muster notify test {name}`.")
    if made["secret"] and secret_to is not None:
        say(f"The secret that its receiver checks signatures with is in {secret_to}.")
    elif made["secret"]:
        say("Its receiver checks signatures with this secret, which is shown only now:")
        typer.echo(made["secret"])


@app.command("remove")
def remove(name: NameArgument, project: ProjectOption = None, yes: YesOption = False) -> None:
    """Delete a target and its history. Pending messages are not sent."""
    if not yes and not wants_json():
        typer.confirm(f"Delete target {name}?", abort=True, err=True)
    server().delete(f"/notifications/targets/{_find(server(), name, project)['id']}")
    report({"name": name, "deleted": True}, f"Deleted target {name}.")


@app.command("test")
def send_test(name: NameArgument, project: ProjectOption = None) -> None:
    """Send a test notification and wait for its outcome, up to a minute. Exit code 1 if it was not
    sent."""
    client = server()
    target = _find(client, name, project)
    path = f"/notifications/targets/{target['id']}"
    before = _latest(client, path)
    client.post(f"{path}/test", {})
    outcome = _wait(client, path, before)
    if wants_json():
        print_json(outcome)
    if outcome is None:
        raise CommandFailure(
            f"The test did not leave within {TEST_TIMEOUT_S:g} s: the Celery worker may be away, or "
            "other notifications wait before it.",
            f"look again with `muster notify history {name}`",
        )
    if outcome["state"] != "sent":
        raise CommandFailure(
            f"The test was not sent: {outcome['error']}", "it is tried again until it arrives"
        )
    if not wants_json():
        say(f"Sent a test to {name}.")


@app.command("history")
def history(
    name: NameArgument,
    project: ProjectOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=200, help="Maximum number of messages.")
    ] = 20,
) -> None:
    """List what was sent to a target, newest first."""
    target = _find(server(), name, project)
    found = server().get(f"/notifications/targets/{target['id']}/deliveries", limit=limit)
    columns: dict[str, Cell[schema.DeliveryOut]] = {
        "message": "title",
        "state": "state",
        ">attempts": "num_tries",
        "when": lambda row: age(row["ended_at"] or row["created_at"]),
        "error": "error",
    }
    print_rows(found["items"], columns, empty=f"Nothing was sent to {name} yet.")


@app.command("rules")
def rules(project: ProjectOption = None) -> None:
    """List your rules, or those of a project."""
    found = list(server().pages("/notifications/rules", **_of(project)))
    names = {
        row["id"]: row["name"] for row in server().pages("/notifications/targets", **_of(project))
    }

    def receivers(row: schema.NotificationRuleOut) -> str:
        targets = (names.get(id_, f"target {id_}") for id_ in row["target_ids"])
        return ", ".join([*(["inbox"] if row["inbox"] else []), *targets])

    columns: dict[str, Cell[schema.NotificationRuleOut]] = {
        ">id": "id",
        "about": ("kinds", ", ".join),
        "experiments": _experiments,
        "to": receivers,
        "on": ("is_enabled", lambda is_enabled: "yes" if is_enabled else "no"),
    }
    empty = "There are no rules yet: `muster notify on trial.failed` creates one."
    print_rows(found, columns, empty=empty)


@app.command("on")
def on(
    kinds: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT...",
            help="Events such as trial.failed; `muster catalog events` lists them.",
        ),
    ],
    to: Annotated[
        list[str] | None, typer.Option("--to", help="Name of a target; repeatable.")
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="Include everybody's experiments, not only your own.")
    ] = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="P", help="Only experiments of this project.")
    ] = None,
    inbox: Annotated[
        bool, typer.Option("--inbox/--no-inbox", help="Also show it in the inbox of the dashboard.")
    ] = True,
    project: ProjectOption = None,
) -> None:
    """Create a rule that notifies you of these events, in your inbox and at the targets you name."""
    body = {
        "kinds": kinds,
        "whose": "all" if everybody else "mine",
        "project": only,
        "inbox": inbox,
        "owner_project": project,
        "target_ids": [_find(server(), name, project)["id"] for name in to or ()],
    }
    made = server().post("/notifications/rules", body)
    report(made, f"Created rule {made['id']}.")


@app.command("off")
def off(
    rule_id: Annotated[int, typer.Argument(metavar="RULE", help="Number of the rule.")],
) -> None:
    """Delete a rule. What it has already caused is still sent."""
    server().delete(f"/notifications/rules/{rule_id}")
    report({"id": rule_id, "deleted": True}, f"Deleted rule {rule_id}.")


@app.command("inbox")
def inbox(
    read: Annotated[bool, typer.Option("--read", help="Mark all entries as read.")] = False,
) -> None:
    """List the unread entries of your inbox, newest first."""
    found = server().get("/notifications/inbox", unread=True)["items"]
    if read:
        server().post("/notifications/inbox/read", {})
    columns: dict[str, Cell[schema.InboxEntryOut]] = {
        "when": ("at", age),
        "what": "title",
        "message": "message",
    }
    print_rows(found, columns, empty="Nothing is unread.")


@contextlib.contextmanager
def _new_file(path: Path | None) -> Iterator[TextIO | None]:
    """Yield a new file that only its owner can read, None for no path. It is removed again when
    what happens meanwhile fails. Raises CommandFailure when it cannot be created."""
    if path is None:
        yield None
        return
    try:
        fd = os.open(path, NEW_FILE, 0o600)
    except OSError as error:
        raise usage_error(f"{path} cannot be created: {error.strerror}.") from None
    try:
        with os.fdopen(fd, "w") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _of(project: str | None) -> dict[str, Any]:
    return {} if project is None else {"project": project}


def _experiments(rule: schema.NotificationRuleOut) -> str:
    """Return whose experiments a rule is about, and of which project."""
    whose = "own" if rule["whose"] == "mine" else "all"
    project = rule["owner_project"] or rule["project"]
    return f"{whose}, project {project}" if project else whose


def _state(row: schema.NotificationTargetOut) -> str:
    if not row["is_enabled"]:
        return row["disabled_reason"] or "disabled"
    return row["last_error"] if row["num_failures"] else "ok"


def _find(client: Client, name: str, project: str | None) -> schema.NotificationTargetOut:
    """Return the target of this name. Raises CommandFailure."""
    found = list(client.pages("/notifications/targets", **_of(project)))
    for row in found:
        if row["name"] == name:
            return row
    names = ", ".join(row["name"] for row in found)
    raise CommandFailure(
        f"There is no target {name!r}.",
        f"you have {names}" if names else "create one with `muster notify add NAME webhook`",
    )


def _latest(client: Client, path: str) -> tuple[int, int]:
    """Return the id of the latest message, and how often it was tried; zeros without one."""
    for row in client.get(f"{path}/deliveries", limit=1)["items"]:
        return row["id"], row["num_tries"]
    return 0, 0


def _wait(client: Client, path: str, before: tuple[int, int]) -> schema.DeliveryOut | None:
    """Return the latest message once an attempt after `before` has ended; None if none does in
    time."""
    deadline = time.monotonic() + TEST_TIMEOUT_S
    while time.monotonic() < deadline:
        for row in client.get(f"{path}/deliveries", limit=1)["items"]:
            has_ended = row["state"] != "sending" or row["error"]
            if (row["id"], row["num_tries"]) > before and has_ended:
                outcome: schema.DeliveryOut = row
                return outcome
        time.sleep(POLL_S)
    return None
