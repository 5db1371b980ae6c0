"""Commands about deployments: deploy, list, show, update, roll back, scale, stop, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from muster.cli.absent import server
from muster.cli.commands.operations import count
from muster.cli.group import CommandSet
from muster.cli.output import (
    CommandFailure,
    age,
    console,
    escape,
    number,
    printed_json,
    report,
    say,
    styled_state,
    table,
)
from muster.cli.selecting import YesOption

if TYPE_CHECKING:
    from muster.client import schema

WAIT_S = 600.0
"""Longest wait for a deployment to be ready."""


class DeployGroup(TyperGroup):
    """`muster deploy MODEL` is `muster deploy start MODEL`."""

    default = "start"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


app = CommandSet(
    cls=DeployGroup,
    help="Deployments: versions of models that answer requests. `muster deploy MODEL` starts one.",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the deployment.")]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="NAME:3 for a version, NAME@production for an alias, NAME."
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until it is ready.", show_default=True)
]


@app.command("start")
def start(
    model: ModelArgument,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the deployment; default: the model's.")
    ] = None,
    replicas: Annotated[int, typer.Option("--replicas", min=1, max=64, help="Replicas.")] = 1,
    slots: Annotated[int, typer.Option("--slots", min=1, help="Slots of one replica.")] = 1,
    pool: Annotated[str | None, typer.Option("--pool", help="Pool of nodes to run in.")] = None,
    slot_type: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option("--slot-type", help="Kind of slot.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Project it belongs to.")] = None,
    listen: Annotated[
        bool,
        typer.Option(
            "--listen",
            help="Let replicas listen on the address of their node, for a router on another machine.",
        ),
    ] = False,
    reason: ReasonOption = "",
    wait: WaitOption = True,
) -> None:
    """Deploy a version of a model under an address. An alias is resolved once, now."""
    given = {"pool": pool, "slot_type": slot_type, "project": project}
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if listen:
        options["listen"] = "node"
    found = server().deploy(
        model, name=name, replicas=replicas, slots=slots, reason=reason, **options
    )
    found = _after(found, wait=wait)
    report(
        found,
        f"Deployment {found['name']} serves {_what(found)} at {found['url']}."
        if found["state"] == "ready"
        else f"Deployment {found['name']} is {found['state']}: `muster deploy show {found['name']}`.",
    )


@app.command("list")
def list_() -> None:
    """List deployments with what they serve, their requests and latencies."""
    found = server().deployments()
    if printed_json(found):
        return
    if not found:
        say("No deployments yet: `muster deploy MODEL@production` makes one.")
        return
    right = ("replicas", "req/s", "p50 ms", "p99 ms", "errors")
    shown = table("name", "serves", "state", *right, "address", right=right)
    for row in found:
        shown.add_row(
            escape(row["name"]),
            escape(_what(row)),
            styled_state(row["state"]),
            f"{row['num_ready']}/{row['num_replicas']}",
            number(row["requests_per_s"]),
            number(row["latency_p50_ms"]),
            number(row["latency_p99_ms"]),
            str(row["num_errors"]),
            escape(row["url"] or "–"),
        )
    console().print(shown)


@app.command("show")
def show(name: NameArgument) -> None:
    """Show the replicas of a deployment, and its revisions with who made them and why."""
    found = server().deployment(name)
    if printed_json(found):
        return
    say(f"{found['name']} is {found['state']} and serves {_what(found)} at {found['url'] or '–'}.")
    if found["message"]:
        say(found["message"])
    right = ("version", "requests", "errors", "p99 ms")
    replicas = table("replica", "version", "phase", "node", *right[1:], "reason", right=right)
    for row in found["replicas"]:
        where = f"{row['experiment_id']}.1" if row["experiment_id"] is not None else "–"
        replicas.add_row(
            where,
            str(row["version"]),
            styled_state(row["phase"]),
            escape(row["node"] or "–"),
            str(row["num_requests"]),
            str(row["num_errors"]),
            number(row["latency_p99_ms"]),
            escape(row["reason"]),
        )
    console().print(replicas)
    revisions = table("revision", "version", "state", "by", "made", "reason", right=("revision",))
    for made in found["revisions"]:
        revisions.add_row(
            str(made["number"]),
            escape(f"{made['model']}:{made['version']} ({made['reference']})"),
            styled_state(made["state"]),
            escape(made["created_by"]),
            f"{age(made['created_at'])} ago",
            escape("; ".join(filter(None, (made["reason"], made["message"])))),
        )
    console().print(revisions)


@app.command("update")
def update(
    name: NameArgument, model: ModelArgument, reason: ReasonOption = "", wait: WaitOption = True
) -> None:
    """Roll out another version, replica by replica. Requests are answered meanwhile."""
    found = server().update_deployment(name, model, reason=reason)
    _report_rollout(_after(found, wait=wait), found["revision"])


@app.command("rollback")
def rollback(
    name: NameArgument,
    revision: Annotated[
        int | None,
        typer.Option("--revision", min=1, help="Revision to return to; default: the one before."),
    ] = None,
    reason: ReasonOption = "",
    wait: WaitOption = True,
) -> None:
    """Return to the version that served before."""
    found = server().roll_back_deployment(name, revision=revision, reason=reason)
    _report_rollout(_after(found, wait=wait), found["revision"])


@app.command("scale")
def scale(
    name: NameArgument,
    replicas: Annotated[int, typer.Option("--replicas", min=1, max=64, help="Replicas.")],
) -> None:
    """Change the number of replicas."""
    found = server().scale_deployment(name, replicas)
    report(found, f"{name} is to have {count(replicas, 'replica')}.")


@app.command("stop")
def stop(name: NameArgument, wait: WaitOption = True) -> None:
    """Stop a deployment. Its replicas answer what they have begun."""
    found = _after(server().stop_deployment(name), wait=wait)
    report(found, f"{name} is {found['state']}.")


@app.command("delete", takes_json=False)
def delete(name: NameArgument, yes: YesOption = False) -> None:
    """Delete a stopped deployment with its history."""
    if not yes and not typer.confirm(f"Delete deployment {name} with its history?"):
        raise typer.Exit(1)
    server().delete_deployment(name)
    say(f"Deleted deployment {name}.")


def _after(found: schema.DeploymentOut, *, wait: bool) -> schema.DeploymentOut:
    """Return a deployment when it is ready or stopped, or at once."""
    if not wait:
        return found
    try:
        return server().wait_for_deployment(found["name"], timeout_s=WAIT_S)
    except TimeoutError as error:
        raise CommandFailure(
            str(error), hint=f"`muster deploy show {found['name']}` says what it waits for"
        ) from None


def _report_rollout(found: schema.DeploymentOut, revision: int) -> None:
    if found["state"] == "ready" and found["revision"] != revision:
        raise CommandFailure(
            found["message"] or "The update was given up.",
            hint=f"{found['name']} still serves {_what(found)}",
        )
    state = "serves" if found["state"] == "ready" else f"is {found['state']} to serve"
    report(found, f"{found['name']} {state} {_what(found)}.")


def _what(row: schema.DeploymentItem) -> str:
    return f"{row['model']}:{row['version']}"
