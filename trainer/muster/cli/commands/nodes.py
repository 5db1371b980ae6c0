"""Commands about nodes: what is wrong with them, and whether they take new work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..absent import server
from ..finding_nodes import find_node
from ..group import CommandSet
from ..output import (
    Cell,
    Markup,
    age,
    console,
    escape,
    print_json,
    print_rows,
    printable,
    printed_json,
    report,
    say,
    styled_state,
    wants_json,
)
from . import node_setup

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Nodes: add, drain, remove, check.")
node_setup.add_to(app)

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name (or id) of a node.")]
NUM_EVENTS = 5
PREFLIGHT_POLL_S = 0.3


@app.command("list")
def list_(
    outdated: Annotated[
        bool,
        typer.Option("--outdated", help="Only nodes whose agent is not of the server's version."),
    ] = False,
) -> None:
    """List the nodes of the cluster."""
    found = list(server().pages("/nodes"))
    version = server().get("/cluster")["server_version"] if outdated else ""
    columns: dict[str, Cell[schema.NodeOut]] = {
        "name": "name",
        "state": ("state", styled_state),
        "pool": "pool",
        ">slots": lambda node: f"{node['num_slots_used']}/{node['num_slots']}",
        ">free": "num_slots_free",
        "cpu": ("usage", _cpu),
        "scheduling": "scheduling",
        "seen": lambda node: f"{age(node['last_seen_at'])} ago",
        "health": _health,
    }
    empty = "No nodes. Join one: muster node add user@host, or muster agent token"
    if outdated:
        found = [node for node in found if node["agent_version"] != version]
        columns["agent"] = "agent_version"
        empty = f"No agent has another version than the server's, {version}."
    print_rows(found, columns, empty=empty)
    if wants_json():
        return
    reasons: dict[str, list[str]] = {}
    for node in found:
        if node["state_reason"]:
            reasons.setdefault(f"{node['state']}: {node['state_reason']}", []).append(node["name"])
    for reason, names in reasons.items():
        say(f"{_some(names)} {'is' if len(names) == 1 else 'are'} {printable(reason)}")


@app.command("show")
def show(name: NodeArgument) -> None:
    """Show a node: its health with all reasons, its slots, versions and latest events."""
    node = find_node(name)
    events = list(server().pages(f"/nodes/{node['id']}/events", limit=NUM_EVENTS))
    if printed_json({**node, "events": events}):
        return
    console().print(
        f"[bold]{escape(node['name'])}[/bold]  {styled_state(node['state'])}  {node['scheduling']}  "
        f"{escape(_health(node))}"
    )
    lines = [("pool", node["pool"]), ("seen", f"{age(node['last_seen_at'])} ago")]
    if node["state_reason"]:
        lines.append((node["state"].lower(), node["state_reason"]))
    if node["is_pilot"]:
        lines.append(("pilot", _pilot(node)))
    if node["quarantine_reason"]:
        lines.append(("quarantined", node["quarantine_reason"]))
    lines += [(p["kind"], p["message"] + _keeps_off(node, p)) for p in node["problems"]]
    if node["strikes"]:
        lines.append(("not prepared", f"{node['strikes']} in a row: {node['strike_reason']}"))
    if node["clock_skew_s"] is not None:
        lines.append(("clock", f"{node['clock_skew_s']:+.3f} s against the server's"))
    lines += [
        ("address", f"{node['address']} ({node['hostname']})"),
        ("slots", _slots(node)),
        ("versions", _versions(node)),
        ("isolation", _isolation(node)),
        ("containers", _containers(node)),
        ("labels", ", ".join(f"{k}={v}" for k, v in sorted(node["labels"].items())) or "none"),
    ]
    for label, text in lines:
        print(f"  {label:<13}{printable(text)}")
    for event in events:
        print(f"  {age(event['at']):>5} ago  {printable(event['message'])}")


@app.command("cordon")
def cordon(name: NodeArgument) -> None:
    """Stop placing new work on a node. Running work continues."""
    _schedule(name, "cordoned", "Nothing new is placed on {name}.")


@app.command("drain")
def drain(name: NodeArgument) -> None:
    """Empty a node: running trials save a checkpoint and continue elsewhere."""
    words = "{name} is draining: running trials save a checkpoint and continue elsewhere."
    _schedule(name, "draining", words)


@app.command("open")
def open_(name: NodeArgument) -> None:
    """Allow new work on a node again. Also releases it from quarantine."""
    _schedule(name, "open", "{name} takes new work.")


@app.command("release")
def release(name: NodeArgument) -> None:
    """Release a node from quarantine once its problem is fixed."""
    before = find_node(name)
    node = server().post(f"/nodes/{before['id']}:release")
    if wants_json():
        print_json(node)
    elif before["quarantine_reason"]:
        say(f"{printable(node['name'])} is released from quarantine. The reason was:")
        say(f"  {printable(before['quarantine_reason'])}")
    else:
        say(f"{printable(node['name'])} was not quarantined.")


@app.command("preflight")
def preflight(
    names: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")],
) -> None:
    """Test the disks and devices of nodes and every connection between them.

    Each node connects to every other at its advertised address, and each pair adds up a vector
    (all-reduce over gloo). Exit code 1 if something fails; the verdict names the nodes.
    """
    found = server().post("/preflights", {"nodes": names})
    while found["state"] == "running":
        time.sleep(PREFLIGHT_POLL_S)
        found = server().get(f"/preflights/{found['id']}")
    if not printed_json(found):
        _print_preflight(found)
    if found["state"] != "passed":
        raise typer.Exit(1)


@app.command("check", takes_json=False)
def check(
    name: Annotated[
        str, typer.Argument(metavar="[NODE]", help="This machine's node: released if it passes.")
    ] = "",
    deep: Annotated[bool, typer.Option("--deep", help="Needed: it uses whole devices.")] = False,
) -> None:
    """Check the devices of this machine thoroughly. Run it on the node, with nothing else running.

    Every CUDA device, or the processors where there is none, multiplies matrices whose product is
    known, writes and reads back patterns in its memory, and copies; each pair of devices adds up a vector
    (all-reduce, over NCCL for devices). Devices that pass as root lose their XID errors, and the node
    that you name is released from quarantine. Exit code 1 if something fails.
    """
    from muster.launch import deep_check

    if not deep:
        say("Add --deep: the check takes the whole memory of the devices. For one beside jobs, use")
        say("muster node preflight.")
        raise typer.Exit(2)
    devices = deep_check.devices()
    failed: set[str] = set()
    for found in deep_check.check_all(devices):
        say(f"{found.device}: {found.check}: {found.problem or f'ok ({found.figure})'}")
        if found.problem:
            failed.update(found.device.split(" and "))
    passed = [device for device in devices if device not in failed]
    if not deep_check.note_passed(passed):
        say("Only root can open devices again that had XID errors.")
    if failed:
        say(f"Failed: {', '.join(sorted(failed))}")
        raise typer.Exit(1)
    say("All checks passed.")
    if name:
        release(name)


def _print_preflight(found: schema.PreflightOut) -> None:
    links = found["links"]
    if links:
        columns: dict[str, Cell[schema.PreflightLink]] = {
            "from": "from_node",
            "to": "to_node",
            ">round trip": ("round_trip_ms", _ms),
            ">all-reduce": ("allreduce_ms", _ms),
            "": ("message", lambda why: Markup(f"[red]{escape(why)}[/red]") if why else "ok"),
        }
        print_rows(links, columns)
    for node in found["nodes"]:
        for problem in node["problems"]:
            print(f"{printable(node['node_name'])}: {printable(problem)}")
    print(f"Preflight {found['id']} {found['state']}: {printable(found['message'])}")


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} ms"


def _schedule(name: str, scheduling: str, words: str) -> None:
    node = server().patch(f"/nodes/{find_node(name)['id']}", {"scheduling": scheduling})
    report(node, words.format(name=printable(node["name"])))


def _slots(node: schema.NodeOut) -> str:
    closed = f" (the node is {node['unavailable']})" if node["unavailable"] else ""
    return (
        f"{node['num_slots_used']} of {node['num_slots']} in use, "
        f"{node['num_slots_free']} free{closed}"
    )


def _cpu(usage: dict[str, Any] | None) -> str:
    return f"{usage['cpu_pct']:.0f} %" if usage and "cpu_pct" in usage else "–"


def _some(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _health(node: schema.NodeOut) -> str:
    used = [problem["message"] for problem in node["problems"] if problem["kind"] == "used"]
    reason = "; ".join([*filter(None, [node["health_reason"]]), *used])
    return f"{node['health']}: {reason}" if reason else str(node["health"])


def _keeps_off(node: schema.NodeOut, problem: schema.NodeProblemOut) -> str:
    """Return what a problem keeps new work off, as a remark behind it; "" for nothing."""
    if not problem["blocks"]:
        return ""
    slot = problem.get("slot")
    if slot is None:
        return " (no new work until it is gone)"
    # A pool may have devices that others use given out all the same.
    is_kept = any(one["index"] == slot and one["problem"] for one in node["slots"])
    return f" (no new work on slot {slot} until it is gone)" if is_kept else ""


def _versions(node: schema.NodeOut) -> str:
    known = {
        "agent": node["agent_version"],
        "Python": node["python_version"],
        "torch": node["torch_version"],
        "CUDA": node["cuda_version"],
        "driver": node["driver_version"],
    }
    return ", ".join(f"{what} {version}" for what, version in known.items() if version) or "unknown"


def _containers(node: schema.NodeOut) -> str:
    engine = f"{node['container_runtime']} {node['container_version']}".strip() or "none"
    reason = node["container_reason"]
    usage = node["usage"] or {}
    if usage.get("images_bytes") is not None:
        images = (
            f"{usage['images_bytes'] / 1e9:,.1f} of {usage['images_limit_bytes'] / 1e9:,.0f} GB"
        )
        engine += f", images pulled: {images}"
    return f"{engine} ({reason})" if reason else engine


def _pilot(node: schema.NodeOut) -> str:
    ends = f"ends at {node['ends_at']}" if node["ends_at"] else "ends with its job"
    return f"{node['provider_ref']}, {ends}" if node["provider_ref"] else ends


def _isolation(node: schema.NodeOut) -> str:
    level, reason = node["isolation"], node["isolation_reason"]
    return f"{level}: {reason}" if reason else str(level)
