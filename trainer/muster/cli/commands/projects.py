"""Commands about costs and shares: budget, project, pool, deletions, retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from muster.byte_sizes import byte_size

from ..absent import server
from ..group import CommandSet
from ..output import (
    Cell,
    age,
    console,
    escape,
    number,
    print_rows,
    printed_json,
    report,
    say,
    table,
    until,
    usage_error,
    wants_json,
)
from ..selecting import YesOption
from ..sending import read_document
from ..trials import ExperimentArgument
from . import people, providers

if TYPE_CHECKING:
    from muster.client import schema

project_app = CommandSet(help="Projects: members, weights, quotas and budgets.")
project_app.add_typer(people.member_app, name="member")
pool_app = CommandSet(help="Pools of nodes: prices, isolation, containers, providers.")
providers.add_to(pool_app)

SlotHoursOption = Annotated[
    float | None, typer.Option("--slot-hours", min=0, help="Limit in slot hours.")
]
CostOption = Annotated[float | None, typer.Option("--cost", min=0, help="Limit in money.")]
DeadlineOption = Annotated[
    str | None, typer.Option("--deadline", help="6h, 1d12h, or 2026-03-01T18:00Z.")
]
AlertOption = Annotated[
    list[float] | None,
    typer.Option("--alert-at", help="Send an alert at this share, such as 0.5; repeatable."),
]
NoBudgetOption = Annotated[bool, typer.Option("--none", help="Remove the budget.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the project or pool.")]


def budget(
    experiment: ExperimentArgument,
    slot_hours: SlotHoursOption = None,
    cost: CostOption = None,
    deadline: DeadlineOption = None,
    alert_at: AlertOption = None,
    none: NoBudgetOption = False,
) -> None:
    """Show what an experiment has spent, or set what it may spend (all limits together)."""
    limits = _limits(slot_hours, cost, deadline, alert_at, none=none)
    if limits is None:
        detail = server().experiment(experiment)
    else:
        detail = server().put(f"/experiments/{experiment}/budget", limits)
    if not printed_json({"spending": detail["spending"], "budget": detail["budget"]}):
        _print_spending(detail["spending"])
        _print_budget(detail["budget"])


def retention(
    metric_days: Annotated[
        int | None, typer.Option(min=1, help="Assume that metrics are kept for this many days.")
    ] = None,
    log_days: Annotated[
        int | None, typer.Option(min=1, help="Assume that logs are kept for this many days.")
    ] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Show what is stored and when the disk is full.")
    ] = False,
) -> None:
    """Show what retention deletes by age and what that would free now, without deleting it.

    The ages are settings of the server: MUSTER_METRIC_RETENTION_DAYS, MUSTER_LOG_RETENTION_DAYS.
    """
    if forecast:
        _print_forecast()
        return
    found = server().get("/retention", metric_days=metric_days, log_days=log_days)
    if printed_json(found):
        return
    shown = table("what", "kept for", "trials", "takes", "would free", right=("trials",))
    for what, row in (("metrics", found["metrics"]), ("logs", found["logs"])):
        days = row["days"]
        shown.add_row(
            what,
            "ever" if days is None else f"{days} days",
            str(row["num_trials"]),
            byte_size(row["size_bytes"]),
            byte_size(row["freed_bytes"]),
        )
    console().print(shown)
    say(
        "These are the server's settings."
        if found["is_set"]
        else "A question only: the server's settings are others."
    )
    if apart := found["num_projects_apart"]:
        what = "1 project has its" if apart == 1 else f"{apart} projects have their"
        say(f"{what} own retention settings, which are included: see `muster project show NAME`.")
    if found["metrics"]["num_sampled"]:
        say(f"What metrics would free is estimated from {found['metrics']['num_sampled']} blocks.")


_NO_FORECAST = {
    "not_enough_history": "There is not enough history to say when the disk is full: less than two days.",
    "unknown_disk": "The server does not see the disk of PostgreSQL: watch its free space there.",
    "no_growth": "The database has not grown in the last seven days.",
}


def _print_forecast() -> None:
    found = server().get("/retention/forecast")
    if printed_json(found):
        return
    shown = table("what", "where", "takes", "a day", "history", "would free", right=("history",))
    for row in found["items"]:
        a_day, freed = row["bytes_per_day"], row["freed_bytes"]
        shown.add_row(
            row["kind"].replace("_", " "),
            row["place"],
            byte_size(row["size_bytes"]),
            "" if a_day is None else byte_size(a_day),
            f"{row['history_days']} d",
            "" if freed is None else byte_size(freed),
        )
    console().print(shown)
    if found["days_left"] is None:
        say(_NO_FORECAST[found["reason"]])
        return
    days = min(found["history_days"], 7.0)
    say(
        f"At the pace of the last {days:g} days the disk of the database is full in "
        f"{found['days_left']:,} days. Indexes and what is deleted meanwhile are not counted."
    )


def deletions(
    all_: Annotated[bool, typer.Option("--all", help="Include completed deletions.")] = False,
    dismiss: Annotated[
        int | None, typer.Option(metavar="ID", help="Give up this deletion; its files are kept.")
    ] = None,
) -> None:
    """List checkpoint files that agents have yet to delete."""
    if dismiss is not None:
        found = [server().post(f"/deletions/{dismiss}:dismiss", repeatable=True)]
    else:
        found = list(server().pages("/deletions", open_only=None if all_ else "true"))
    columns: dict[str, Cell[schema.FileDeletionOut]] = {
        ">id": "id",
        "experiment": lambda row: f"{row['experiment_id']} {row['experiment_name']}",
        ">size": ("size_bytes", byte_size),
        "state": "state",
        "since": ("requested_at", age),
        "waits for": lambda row: row["message"] or row["waits_for"],
    }
    print_rows(found, columns, empty="No files are waiting to be deleted.")


@project_app.command("list")
def project_list() -> None:
    """List projects with what they have spent."""
    found = list(server().pages("/projects"))
    columns: dict[str, Cell[schema.ProjectOut]] = {
        "name": "name",
        ">weight": ("weight", number),
        ">experiments": "num_experiments",
        ">active": "num_experiments_active",
        ">slot-hours": ("spending", lambda spent: f"{spent['slot_hours']:,.2f}"),
        ">cost": ("spending", lambda spent: f"{spent['cost']:,.2f} {spent['currency']}"),
        "note": "exhausted_reason",
    }
    print_rows(found, columns)


@project_app.command("show")
def project_show(name: NameArgument) -> None:
    """Show a project with its quotas and its budget."""
    project = server().get(f"/projects/{_quoted(name)}")
    if not printed_json(project):
        _print_project(project)


@project_app.command("create")
def project_create(
    name: NameArgument,
    weight: Annotated[
        float, typer.Option(help="Share of a busy cluster, relative to other projects.")
    ] = 1.0,
) -> None:
    """Create a project (administrators)."""
    made = server().post("/projects", {"name": name, "weight": weight})
    report(made, f"Created project {name}.")


RetentionOption = Annotated[
    str | None,
    typer.Option(
        metavar="DAYS|server",
        help="Days after the end of a trial; server: what the server is set to.",
    ),
]


@project_app.command("set")
def project_set(
    name: NameArgument,
    weight: Annotated[
        float | None, typer.Option(help="Share of a busy cluster, relative to other projects.")
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POOL/TYPE=SLOTS",
            help="Maximum number of slots, such as a100/cuda=8; repeatable. Replaces all quotas.",
        ),
    ] = None,
    no_quotas: Annotated[bool, typer.Option("--no-quotas", help="Remove all quotas.")] = False,
    slot_hours: SlotHoursOption = None,
    cost: CostOption = None,
    deadline: DeadlineOption = None,
    alert_at: AlertOption = None,
    none: Annotated[bool, typer.Option("--no-budget", help="Remove the budget.")] = False,
    restart_count: Annotated[
        bool, typer.Option("--restart-count", help="Count spending from now on.")
    ] = False,
    visibility: Annotated[
        Literal["all", "members"] | None, typer.Option(help="Who sees it and what is in it.")
    ] = None,
    submission: Annotated[
        Literal["all", "members"] | None,
        typer.Option(help="Who may submit to it and use its secrets."),
    ] = None,
    log_days: RetentionOption = None,
    metric_days: RetentionOption = None,
    guards: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Guards of what is submitted from now on, as YAML; - for standard input. An empty file removes them.",
        ),
    ] = None,
) -> None:
    """Change who sees a project and submits to it, its weight, quotas, budget, guards or how long its logs and
    metrics are kept (administrators)."""
    body: dict[str, Any] = {}
    if guards is not None:
        body["guards"] = read_document(guards)
    for field, text in (("log", log_days), ("metric", metric_days)):
        if text is not None:
            body[f"{field}_retention_days"] = _days(text)
    if visibility is not None:
        body["visibility"] = visibility
    if submission is not None:
        body["submission"] = submission
    if weight is not None:
        body["weight"] = weight
    if quota or no_quotas:
        body["quotas"] = [_quota(text) for text in quota or ()]
    limits = _limits(slot_hours, cost, deadline, alert_at, none=none)
    if limits is not None:
        body["budget"] = limits or None
    if restart_count:
        body["restart_count"] = True
    if not body:
        raise usage_error("Nothing to change.", "see muster project set --help")
    project = server().patch(f"/projects/{_quoted(name)}", body)
    if not printed_json(project):
        _print_project(project)


@project_app.command("delete")
def project_delete(name: NameArgument, yes: YesOption = False) -> None:
    """Remove a project without experiments (administrators)."""
    if not yes and not wants_json():
        typer.confirm(f"Delete project {name}?", abort=True, err=True)
    server().delete(f"/projects/{_quoted(name)}")
    report({"name": name, "deleted": True}, f"Deleted project {name}.")


@pool_app.command("list")
def pool_list() -> None:
    """List pools with their price, what they require of jobs, and what is in them."""
    found = list(server().pages("/pools"))
    columns: dict[str, Cell[schema.PoolOut]] = {
        "name": "name",
        ">nodes": lambda pool: f"{pool['num_nodes_online']}/{pool['num_nodes']}",
        "slots": ("num_slots", _slots),
        ">used": "num_slots_used",
        "per slot-hour": lambda pool: f"{pool['price_per_slot_hour']:,.4g} {pool['currency']}",
        "isolation": _isolation,
        "containers": ("requires_containers", lambda must: "required" if must else "optional"),
    }
    print_rows(found, columns)


@pool_app.command("price")
def pool_price(
    name: NameArgument,
    price: Annotated[float, typer.Argument(min=0, help="Price per slot and hour.")],
) -> None:
    """Set what a slot costs per hour, for slots reserved from now on (administrators)."""
    pool = _change_pool(name, price_per_slot_hour=price)
    report(pool, f"Pool {name}: {pool['price_per_slot_hour']:g} {pool['currency']} per slot-hour")


@pool_app.command("isolation")
def pool_isolation(
    name: NameArgument,
    level: Annotated[
        Literal["none", "user", "sandbox"],
        typer.Argument(help="Weakest level of isolation at which jobs may run."),
    ],
) -> None:
    """Require a level of isolation of the nodes that jobs are placed on (administrators).

    Running trials continue.
    """
    pool = _change_pool(name, min_isolation=level)
    if printed_json(pool):
        return
    say(f"Pool {name}: jobs run at isolation level {level}" + _or_stronger(level))
    weak = pool["num_nodes_too_weak"]
    if weak:
        nodes = "1 node isolates" if weak == 1 else f"{weak:,} nodes isolate"
        say(f"{nodes} less and get no new trials; `muster node show NAME` shows its level.")


@pool_app.command("containers")
def pool_containers(
    name: NameArgument,
    rule: Annotated[
        Literal["required", "optional"],
        typer.Argument(help="Whether every job must name an image."),
    ],
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Registry, part of one, or repository whose images may run, such as "
            "ghcr.io/acme. Repeatable; replaces those allowed before."
        ),
    ] = None,
    allow_all: Annotated[
        bool, typer.Option("--allow-all", help="Let images of all registries run again.")
    ] = False,
) -> None:
    """Require containers of jobs, and say which images may run (administrators).

    Running trials continue.
    """
    if allow and allow_all:
        raise usage_error("--allow and --allow-all exclude each other.")
    changes: dict[str, Any] = {"requires_containers": rule == "required"}
    if allow or allow_all:
        changes["allowed_images"] = allow or []
    pool = _change_pool(name, **changes)
    report(pool, f"Pool {name}: {_container_rule(pool)}")


@pool_app.command("foreign-processes")
def pool_foreign_processes(
    name: NameArgument,
    rule: Annotated[
        Literal["wait", "ignore"],
        typer.Argument(help="Wait until such a device is free, or ignore its use and share it."),
    ],
) -> None:
    """Set what to do about GPUs that somebody uses outside Muster (administrators)."""
    pool = _change_pool(name, foreign_processes=rule)
    rules = {
        "wait": "GPUs that somebody uses outside Muster get no trials until they are free",
        "ignore": "GPUs that somebody uses outside Muster get trials as well",
    }
    report(pool, f"Pool {name}: {rules[rule]}")


_MAY_BE_OFF = ("no_step_for_min", "device_below_percent")


@pool_app.command("waste")
def pool_waste(
    name: NameArgument,
    action: Annotated[
        Literal["notice", "checkpoint_and_stop", "stop"] | None,
        typer.Option(help="What is done about a trial that holds slots and does nothing."),
    ] = None,
    no_step: Annotated[
        float | None, typer.Option(help="Minutes without a step; 0: steps do not matter.")
    ] = None,
    idle_below: Annotated[
        float | None, typer.Option(help="Percent below which a GPU is idle; 0: GPUs do not matter.")
    ] = None,
    idle_for: Annotated[
        float | None, typer.Option(help="Minutes in which all GPUs of a trial are idle.")
    ] = None,
    grace: Annotated[
        float | None, typer.Option(help="Minutes after the start in which nothing is noticed.")
    ] = None,
    act_after: Annotated[
        float | None, typer.Option(help="Minutes from the notice to the action.")
    ] = None,
) -> None:
    """Set what is done about trials that hold slots and do nothing (administrators).

    What is not given stays as it is.
    """
    given = {
        "action": action,
        "no_step_for_min": no_step,
        "device_below_percent": idle_below,
        "device_for_min": idle_for,
        "grace_min": grace,
        "act_after_min": act_after,
    }
    changes = {
        key: None if value == 0 and key in _MAY_BE_OFF else value
        for key, value in given.items()
        if value is not None
    }
    known = next((pool for pool in server().pages("/pools") if pool["name"] == name), None)
    pool = _change_pool(name, waste={**(known["waste"] if known else {}), **changes})
    report(pool, f"Pool {name}: {_waste_rule(pool)}")


def _waste_rule(pool: schema.PoolOut) -> str:
    rule = pool["waste"]
    signs = []
    if rule["no_step_for_min"] is not None:
        signs.append(f"no step for {rule['no_step_for_min']:g} min")
    if rule["device_below_percent"] is not None:
        below, minutes = rule["device_below_percent"], rule["device_for_min"]
        signs.append(f"all GPUs below {below:g}% for {minutes:g} min")
    if not signs:
        return "idle trials are not noticed"
    does = {
        "notice": "a notice",
        "checkpoint_and_stop": f"a notice, and {rule['act_after_min']:g} min later a checkpoint and a stop",
        "stop": f"a notice, and {rule['act_after_min']:g} min later a stop",
    }
    after = f"{rule['grace_min']:g} min after the start"
    return f"{' or '.join(signs)}, from {after} on: {does[rule['action']]}"


@pool_app.command("spares")
def pool_spares(
    name: NameArgument,
    nodes: Annotated[
        int, typer.Argument(min=0, max=64, help="Number of nodes to hold; 0: none are.")
    ],
) -> None:
    """Hold free nodes for trainings that lose a node (administrators).

    Other trials do not start on them. Nothing that runs is stopped to free a node.
    """
    pool = _change_pool(name, spares=nodes)
    held = "1 free node is" if nodes == 1 else f"{nodes or 'no'} free nodes are"
    report(pool, f"Pool {name}: {held} held for trainings that lose a node")


# ---------------------------------------------------------------- helpers


def _container_rule(pool: schema.PoolOut) -> str:
    rule = "required" if pool["requires_containers"] else "optional"
    allowed = ", ".join(pool["allowed_images"])
    return f"containers {rule}, images from {allowed or 'all registries'}"


def _change_pool(name: str, **changes: Any) -> schema.PoolOut:
    return server().put(f"/pools/{_quoted(name)}", changes)


def _isolation(pool: schema.PoolOut) -> str:
    level, weak = pool["min_isolation"], pool["num_nodes_too_weak"]
    nodes = "1 node is weaker" if weak == 1 else f"{weak:,} nodes are weaker"
    return f"{level} ({nodes})" if weak else str(level)


def _or_stronger(level: str) -> str:
    return "" if level == "sandbox" else " or a stronger one"


def _limits(
    slot_hours: float | None,
    cost: float | None,
    deadline: str | None,
    alert_at: list[float] | None,
    *,
    none: bool,
) -> dict[str, Any] | None:
    """Return a budget; {} to remove it, None to leave it. Raises Failure."""
    given = {"slot_hours": slot_hours, "cost": cost, "deadline": deadline}
    limits: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    if none and (limits or alert_at):
        raise usage_error("A budget is given and taken away.")
    if alert_at and not limits:
        raise usage_error("--alert-at goes with a limit.", "all limits are set together")
    if alert_at:
        limits["alert_at"] = list(alert_at)
    return limits if limits or none else None


def _days(text: str) -> int | None:
    if text == "server":
        return None
    if not text.isdecimal():
        raise usage_error(f"{text!r} is no number of days.", "--log-days 90, or server")
    return int(text)


def _quota(text: str) -> dict[str, Any]:
    place, equals, slots = text.partition("=")
    pool, slash, slot_type = place.partition("/")
    if not (equals and slash and pool and slot_type and slots.isdecimal()):
        raise usage_error(f"{text!r} is no quota.", "--quota a100/cuda=8")
    return {"pool": pool, "slot_type": slot_type, "slots": int(slots)}


def _print_project(project: schema.ProjectOut) -> None:
    out = console()
    audiences = {"all": "everybody", "members": "its members"}
    out.print(
        f"[bold]{escape(project['name'])}[/bold]  weight {project['weight']:g}, "
        f"submissions of {audiences[project['submission']]}, "
        f"seen by {audiences[project['visibility']]}"
    )
    kept = {"logs": project["log_retention_days"], "long metrics": project["metric_retention_days"]}
    own = [f"{what} {days} days" for what, days in kept.items() if days is not None]
    if own:
        out.print(f"Keeps {' and '.join(own)} after the end of a trial.")
    for no, sentence in enumerate(project["guards_explained"], 1):
        out.print(f"Guard {no}: {escape(sentence)}", highlight=False)
    _print_spending(project["spending"])
    _print_budget(project["budget"])
    for quota in project["quotas"]:
        out.print(
            f"{escape(quota['pool'])}/{quota['slot_type']}: "
            f"{quota['slots_held']} of {quota['slots']} slots"
        )


def _slots(num_slots: dict[str, int]) -> str:
    return ", ".join(f"{num} {kind}" for kind, num in sorted(num_slots.items())) or "–"


def _print_spending(spent: schema.SpendingOut) -> None:
    console().print(
        f"Spent {spent['slot_hours']:,.4g} slot-hours, {spent['cost']:,.2f} {spent['currency']}; "
        f"holds {spent['slots_held']} slots now."
    )


def _print_budget(budget: schema.BudgetOut | None) -> None:
    if budget is None:
        console().print("No budget.")
        return
    shown = table("limit", "of", "spent", "share", "used up in", right=("of", "spent", "share"))
    for limit in budget["limits"]:
        share = limit["share"]
        shown.add_row(
            limit["measure"].replace("_", " "),
            f"{limit['limit']:,.4g} {limit['unit']}",
            f"{limit['spent']:,.4g}",
            f"{share:.0%}" if isinstance(share, int | float) else share,
            until(limit["exhausted_at"]),
        )
    console().print(shown)
    if budget["exhausted_reason"]:
        console().print(escape(budget["exhausted_reason"]))


def _quoted(name: str) -> str:
    from muster.client import quoted

    return quoted(name)
