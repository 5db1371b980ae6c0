"""Commands about pools whose nodes a batch system supplies: create, provider, pilots, release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from muster.durations import duration_s

from ..absent import server
from ..group import CommandSet
from ..output import Cell, CommandFailure, age, print_rows, printed_json, report, say

if TYPE_CHECKING:
    from muster.client import schema

PoolArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pool.")]


def _slurm(text: str) -> Any:
    return typer.Option(help=f"Slurm: {text}")


def _kubernetes(text: str, *, metavar: str | None = None) -> Any:
    return typer.Option(help=f"Kubernetes: {text}", metavar=metavar)


def _ray(text: str, *, metavar: str | None = None) -> Any:
    return typer.Option(help=f"Ray: {text}", metavar=metavar)


def add_to(app: CommandSet) -> None:
    """Add the commands to those of pools."""
    app.command("create")(create)
    app.command("provider")(show)
    app.command("pilots")(pilots)
    app.command("release", takes_json=False)(release)


def create(
    name: PoolArgument,
    server_url: Annotated[str, typer.Option(help="Address of this server as the pilots reach it.")],
    provider: Annotated[
        str,
        typer.Option(
            help="What supplies the nodes, such as slurm; see `muster catalog providers`."
        ),
    ] = "slurm",
    nodes: Annotated[str, typer.Option(metavar="MIN:MAX", help="Number of pilots.")] = "0:4",
    slots: Annotated[
        int, typer.Option("--slots", "--slots-per-node", min=1, help="Slots of each pilot.")
    ] = 1,
    slot_type: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    walltime: Annotated[str, typer.Option(help="Time for which a pilot runs at most.")] = "4h",
    idle: Annotated[str, typer.Option(help="A pilot leaves after being idle for so long.")] = "10m",
    exclusive: Annotated[
        bool,
        typer.Option(
            "--exclusive", help="One gang of pilots for each attempt, which ends with it."
        ),
    ] = False,
    max_slot_hours: Annotated[
        float | None, typer.Option(help="Most slot-hours that pilots may use in all.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="The same in money, at the price of the pool's slots.")
    ] = None,
    restart_count: Annotated[
        bool, typer.Option("--restart-count", help="Count what pilots cost from 0 again.")
    ] = False,
    folder: Annotated[
        str,
        _slurm("folder for tokens and logs that login and compute nodes share."),
    ] = "",
    agent: Annotated[str, typer.Option(help="Path of muster-agent on the nodes.")] = "",
    host: Annotated[str, _slurm("login node to reach with ssh: ann@login1.")] = "",
    storage_dir: Annotated[str, typer.Option(help="Shared folder for checkpoints.")] = "",
    partition: Annotated[str, _slurm("option of sbatch.")] = "",
    account: Annotated[str, _slurm("option of sbatch.")] = "",
    qos: Annotated[str, _slurm("option of sbatch.")] = "",
    constraint: Annotated[str, _slurm("option of sbatch.")] = "",
    reservation: Annotated[str, _slurm("option of sbatch.")] = "",
    exclude: Annotated[str, _slurm("option of sbatch.")] = "",
    gres: Annotated[str, _slurm("option of sbatch, such as gpu:4.")] = "",
    cpus_per_task: Annotated[
        str, _slurm("processors of a pilot; one for each slot unless given.")
    ] = "",
    share_nodes: Annotated[
        bool,
        typer.Option(
            "--share-nodes",
            help="Slurm: let other jobs, other pilots too, run on the machine of a pilot.",
        ),
    ] = False,
    memory_mb: Annotated[str, typer.Option(help="Memory of a pilot in MiB.")] = "",
    address: Annotated[str, _ray("address of the dashboard: http://10.0.0.7:8265.")] = "",
    cpus: Annotated[
        str,
        typer.Option(
            help="Ray, Kubernetes: processors of a pilot, such as 8. Ray takes one for each slot unless given."
        ),
    ] = "",
    gpus: Annotated[
        str,
        typer.Option(
            help="Ray, Kubernetes: GPUs of a pilot; one for each slot of the type cuda unless given."
        ),
    ] = "",
    resource: Annotated[
        list[str] | None,
        _ray("further resource of a pilot; may be repeated.", metavar="NAME=AMOUNT"),
    ] = None,
    namespace: Annotated[str, _kubernetes("namespace of the pilots.")] = "",
    image: Annotated[str, _kubernetes("image that has muster-agent and torch.")] = "",
    memory: Annotated[str, _kubernetes("memory of a pilot, such as 64Gi.")] = "",
    gpu_resource: Annotated[
        str, _kubernetes("name of the GPUs in the cluster (nvidia.com/gpu).")
    ] = "",
    node_selector: Annotated[
        list[str] | None,
        _kubernetes("label that nodes must have; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    toleration: Annotated[
        list[str] | None,
        _kubernetes("taint to tolerate; may be repeated.", metavar="KEY[=VALUE][:EFFECT]"),
    ] = None,
    queue: Annotated[str, _kubernetes("local queue of Kueue.")] = "",
    priority_class: Annotated[str, _kubernetes("priority class of the pods.")] = "",
    service_account: Annotated[str, _kubernetes("service account of the pods.")] = "",
    image_pull_policy: Annotated[str, _kubernetes("Always, IfNotPresent or Never.")] = "",
    image_pull_secret: Annotated[str, _kubernetes("secret for the image's registry.")] = "",
    storage_claim: Annotated[
        str, _kubernetes("volume claim for checkpoints that all pilots mount.")
    ] = "",
    grace: Annotated[
        str, _kubernetes("time that a pilot has to save checkpoints when it is ended (2m).")
    ] = "",
    user_id: Annotated[str, _kubernetes("user that the pods run as (10001).")] = "",
    context: Annotated[str, _kubernetes("context of the controller's kubeconfig.")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Any option of the provider by its name; may be repeated. `muster catalog providers` "
            "lists them.",
        ),
    ] = None,
) -> None:
    """Create a pool whose nodes a batch system supplies as trials need them (administrators).

    Run it again with all options to change the pool; pilots that run stay as they are.
    """
    low, high = _range(nodes)
    options = {
        "server_url": server_url,
        "folder": folder,
        "agent": agent,
        "host": host,
        "storage_dir": storage_dir,
        "partition": partition,
        "account": account,
        "qos": qos,
        "constraint": constraint,
        "reservation": reservation,
        "exclude": exclude,
        "gres": gres,
        "cpus_per_task": cpus_per_task,
        "share_nodes": "yes" if share_nodes else "",
        "memory_mb": memory_mb,
        "address": address,
        "cpus": cpus,
        "gpus": gpus,
        "resources": ",".join(resource or ()),
        "namespace": namespace,
        "image": image,
        "memory": memory,
        "gpu_resource": gpu_resource,
        "node_selector": ",".join(node_selector or ()),
        "tolerations": ",".join(toleration or ()),
        "queue": queue,
        "priority_class": priority_class,
        "service_account": service_account,
        "image_pull_policy": image_pull_policy,
        "image_pull_secret": image_pull_secret,
        "storage_claim": storage_claim,
        "grace_s": str(_seconds("--grace", grace)) if grace else "",
        "user_id": user_id,
        "context": context,
        **dict(_named(text) for text in option or ()),
    }
    body = {
        "kind": provider,
        "slots": slots,
        "slot_type": slot_type,
        "min_pilots": low,
        "max_pilots": high,
        "walltime_s": _seconds("--walltime", walltime),
        "idle_s": _seconds("--idle", idle),
        "exclusive": exclusive,
        "max_slot_hours": max_slot_hours,
        "max_cost": max_cost,
        "restart_count": restart_count,
        "options": {key: value for key, value in options.items() if value},
    }
    made = server().put(f"{_path(name)}/provider", body)
    report(
        made,
        f"Pool {name}: up to {high} pilots of {made['name']} for trials with resources.pool: {name}",
    )


def _named(text: str) -> tuple[str, str]:
    """Return name and value of "name=value". Raises CommandFailure."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandFailure(
            f"--option takes NAME=VALUE, not {text!r}.", "for example --option partition=a100"
        )
    return name, value


def show(name: PoolArgument) -> None:
    """Show what supplies the nodes of a pool, and how it fares."""
    found = server().get(f"{_path(name)}/provider")
    if printed_json(found):
        return
    counts = ", ".join(f"{num} {state}" for state, num in sorted(found["num_pilots"].items()))
    if found["num_failed"]:
        counts = f"{counts or 'none'}, {found['num_failed']} failed in the last day"
    size = ", one gang for each attempt" if found["exclusive"] else ""
    lines = [
        ("provider", found["name"]),
        ("pilots", f"{counts or 'none'} (at most {found['max_pilots']})"),
        ("slots", f"{found['slots']} {found['slot_type']} each{size}"),
        ("wall time", f"{found['walltime_s'] / 3600:g} h, idle for {found['idle_s']} s"),
        ("used", _used(found)),
        ("answered", f"{age(found['listed_at'])} ago" if found["listed_at"] else "never"),
    ]
    if found["notice"]:
        lines.append(("nodes", found["notice"]))
    if found["problem"]:
        lines.append(("problem", found["problem"]))
    if found["not_before"]:
        lines.append(("next pilot", f"after {found['not_before']}"))
    for label, text in lines:
        print(f"  {label:<11}{text}")


def pilots(name: PoolArgument) -> None:
    """List the pilots of a pool, the newest first."""
    found = list(server().pages(f"{_path(name)}/pilots"))
    columns: dict[str, Cell[schema.PilotOut]] = {
        "pilot": "id",
        "state": lambda pilot: "failed" if pilot["has_failed"] else pilot["state"],
        "job": lambda pilot: pilot["ref"] or "–",
        "trial": lambda pilot: str(pilot["trial_id"] or "any"),
        "since": lambda pilot: f"{age(pilot['since'])} ago",
        "reason": "reason",
    }
    print_rows(found, columns)


def release(name: PoolArgument) -> None:
    """Submit no more pilots for a pool (administrators).

    Pilots that wait are canceled. Those that run finish their trials and leave once they are idle.
    """
    server().delete(f"{_path(name)}/provider")
    say(f"Pool {name} gets no more pilots.")


def _used(provider: schema.ProviderOut) -> str:
    text = f"{provider['spent_slot_hours']:.2f} slot-hours"
    if provider["max_slot_hours"] is not None:
        text += f" of {provider['max_slot_hours']:g}"
    if provider["price_per_slot_hour"] or provider["max_cost"] is not None:
        text += f", {provider['spent_cost']:.2f} {provider['currency']}"
    if provider["max_cost"] is not None:
        text += f" of {provider['max_cost']:g}"
    if provider["reserved_slot_hours"]:
        text += f"; up to {provider['reserved_slot_hours']:.2f} slot-hours for pilots that have not ended"
    return text


def _path(name: str) -> str:
    return f"/pools/{quote(name, safe='')}"


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,5}):(\d{1,5})|(\d{1,5})", text)
    if found is None:
        raise CommandFailure(f"--nodes {text!r} is no number of pilots.", "Write it like 0:32.")
    low, high, only = found.groups()
    return (0, int(only)) if only else (int(low), int(high))


def _seconds(option: str, text: str) -> int:
    seconds = int(text) if text.isdigit() else duration_s(text)
    if seconds is None:
        raise CommandFailure(
            f"{option} {text!r} is no length of time.", "Write it like 10m or 12h."
        )
    return int(seconds)
