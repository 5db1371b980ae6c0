"""Commands about the queue: queue, priority, move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..absent import server
from ..output import (
    Cell,
    Markup,
    age,
    escape,
    print_rows,
    printed_json,
    report,
    say,
    until,
    usage_error,
)
from ..trials import (
    ExperimentArgument,
    ExperimentOrTrialArgument,
    TrialReference,
    find_trial,
    parse_trial,
)

if TYPE_CHECKING:
    from muster.client import Client, schema


def queue() -> None:
    """List the trials that are waiting for slots: position, estimated start and reason."""
    items = list(server().pages("/queue"))
    columns: dict[str, Cell[schema.QueueItem]] = {
        ">#": lambda item: str(item["position"] or "–"),
        ">trial": lambda item: f"{item['experiment_id']}.{item['trial_no']}",
        "experiment": "experiment_name",
        "asks for": _asks,
        ">priority": "priority",
        ">waiting": ("waiting_since", age),
        "starts": ("estimated_start_at", until),
        "why": _reason,
    }
    print_rows(items, columns, empty="The queue is empty.")


def _reason(item: schema.QueueItem) -> Markup:
    """Return the reason, in amber if the present nodes can never run it."""
    words = escape(item["pending_reason"])
    is_never = item.get("is_impossible", False)
    prefix = "[yellow]Cannot start with the present nodes.[/yellow] " if is_never else ""
    return Markup(prefix + words)


def priority(
    experiment: ExperimentArgument,
    value: Annotated[int, typer.Argument(min=0, max=100, help="Higher is more urgent.")],
) -> None:
    """Change the priority of a waiting or running experiment."""
    changed = server().patch(f"/experiments/{experiment}", {"priority": value})
    report(changed, f"Experiment {experiment}: priority {changed['priority']}")


def move(
    trial: ExperimentOrTrialArgument,
    front: Annotated[
        bool, typer.Option("--front", help="Move to the front of its equals.")
    ] = False,
    back: Annotated[bool, typer.Option("--back", help="Move to the back of its equals.")] = False,
    before: Annotated[
        TrialReference | None,
        typer.Option(
            metavar="EXPERIMENT[.TRIAL]",
            parser=parse_trial,
            help="Move before this experiment (12) or trial (12.3).",
        ),
    ] = None,
    after: Annotated[
        TrialReference | None,
        typer.Option(
            metavar="EXPERIMENT[.TRIAL]",
            parser=parse_trial,
            help="Move after this experiment or trial.",
        ),
    ] = None,
) -> None:
    """Move an experiment's waiting trials, or one of them, in the queue.

    Only among equals: the same pool, kind of slot, priority and project.
    """
    chosen = [front, back, before is not None, after is not None]
    if sum(chosen) != 1:
        raise usage_error("Give one of --front, --back, --before and --after.")
    target = before if before is not None else after
    client = server()
    body = _body(client, trial)
    if target is not None:
        body["before" if before is not None else "after"] = _body(client, target)
    else:
        body["to"] = "front" if front else "back"
    moved = client.post("/queue:move", body)
    if printed_json(moved):
        return
    first, num = moved["first"], moved["num_trials"]
    what = (
        f"{num} trials"
        if num > 1
        else f"Trial {trial.experiment}.{first['trial_no']}"
        if first
        else "1 trial"
    )
    place = ""
    if first and first["position"]:
        place = f", {'the first of them ' if num > 1 else ''}now number {first['position']}"
    say(f"{what} moved{place}")


def _asks(item: schema.QueueItem) -> str:
    slots = str(item["num_slots"])
    if item["min_slots"] < item["num_slots"]:
        slots = f"{item['min_slots']}–{slots}"
    return f"{slots} {item['slot_type']} in {item['pool']}"


def _body(client: Client, named: TrialReference) -> dict[str, Any]:
    if named.no is None:
        return {"experiment_id": named.experiment}
    return {"trial_id": find_trial(named)["id"]}
