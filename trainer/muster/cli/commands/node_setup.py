"""Commands that bring an agent to a machine with ssh, and take it away: add, upgrade, remove."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.byte_sizes import byte_size

from ..absent import server
from ..finding_nodes import find_node
from ..group import CommandSet
from ..output import CommandFailure, printable, report, say

if TYPE_CHECKING:
    from muster.bootstrap.machine import RemoteMachine
    from muster.bootstrap.steps import Destination, Remote
    from muster.client import Client, schema

TOKEN_S = 3600
"""How long the join token works; it is revoked as soon as the node is there."""
ONLINE_S = 60.0
MAX_RECORDS_BYTES = 1_000_000

TargetArgument = Annotated[
    str, typer.Argument(metavar="USER@HOST|NODE", help="The machine as ssh takes it, or its node.")
]
PortOption = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Port of the ssh server.")
]
IdentityOption = Annotated[str, typer.Option("--identity", "-i", help="File of a private key.")]
SshOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ssh-option", "-o", metavar="KEY=VALUE", help="Further option of ssh; may be repeated."
    ),
]
WheelsOption = Annotated[
    Path | None,
    typer.Option(
        "--wheels",
        help="Folder with the wheels that the agent depends on, for a machine without a package index.",
    ),
]


def add_to(app: CommandSet) -> None:
    """Add the commands to those of nodes."""
    app.command("add")(add)
    app.command("upgrade")(upgrade)
    app.command("remove", takes_json=False)(remove)


def add(
    host: Annotated[str, typer.Argument(metavar="USER@HOST", help="The machine, as ssh takes it.")],
    name: Annotated[str, typer.Option(help="Name of the node; by default the host's.")] = "",
    pool: Annotated[str, typer.Option(help="Pool that the node joins.")] = "default",
    slots: Annotated[
        int | None, typer.Option(min=0, help="Number of slots; by default one per GPU or CPU.")
    ] = None,
    slot_type: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    labels: Annotated[str, typer.Option(help="Labels such as rack=3,zone=a.")] = "",
    address: Annotated[str, typer.Option(help="Where other nodes reach this one.")] = "",
    storage_dir: Annotated[str, typer.Option(help="Folder for checkpoints on the machine.")] = "",
    python: Annotated[
        str, typer.Option(help="Interpreter there for experiments that name none.")
    ] = "",
    with_python: Annotated[
        str, typer.Option(help="Interpreter there for the agent itself; by default one is found.")
    ] = "",
    server_url: Annotated[
        str, typer.Option(help="Address of this server as the machine reaches it.")
    ] = "",
    port: PortOption = None,
    identity: IdentityOption = "",
    ssh_option: SshOption = None,
    wheels: WheelsOption = None,
) -> None:
    """Install an agent on a machine that you reach with ssh, and start it (administrators).

    Run it again to change the options; what runs on the node goes on.
    """
    to = _destination(host, port, identity, ssh_option)
    with _session(to) as (client, remote):
        machine = _look(remote, with_python)
        node_name = name or machine.node or machine.name
        before = _find(client, node_name)
        _require_own_name(to.host, machine, node_name, is_known=before is not None)
        with _join_token(client, pool) as token:
            url = _url(to.host, server_url, token)
            settings = _settings(
                {
                    "server_url": url,
                    "join_token_file": f"{machine.folder}/join-token",
                    "home": f"{machine.folder}/home",
                    "name": node_name,
                    "pool": pool,
                    "slots": "" if slots is None else str(slots),
                    "slot_type": slot_type,
                    "labels": labels,
                    "address": address,
                    "storage_dir": storage_dir,
                    "python": python,
                }
            )
            say("installing …")
            is_new = remote.install(machine, wheels) != machine.digest
            if not is_new and settings == machine.settings and _is_fine(machine, before):
                _remember(node_name, to)
                report(before, f"{node_name} is online already, with this version.")
                return
            remote.reach(url)
            remote.configure(node=node_name, settings=settings, token=token["secret"])
            node = _start(client, remote, machine, node_name, before)
    _remember(node_name, to)
    report(node, f"{node_name} is online: {node['num_slots']} slots in {node['pool']}.")


def upgrade(
    target: TargetArgument,
    with_python: Annotated[str, typer.Option(help="Interpreter there for the agent itself.")] = "",
    port: PortOption = None,
    identity: IdentityOption = "",
    ssh_option: SshOption = None,
    wheels: WheelsOption = None,
) -> None:
    """Install this version of the agent on a machine that has an older one (administrators).

    What runs on the node goes on: the new agent adopts it.
    """
    to = _destination(target, port, identity, ssh_option, recorded=_recorded(target))
    with _session(to) as (client, remote):
        machine = _look(remote, with_python)
        if not machine.node:
            raise CommandFailure(
                f"There is no agent of muster node add on {to.host}.",
                f"install one: muster node add {to.host}",
            )
        before = _find(client, machine.node)
        if before is None:
            raise CommandFailure(
                f"{machine.node}, the agent on {to.host}, is no node of this cluster.",
                f"let it join: muster node add {to.host}",
            )
        say("installing …")
        is_new = remote.install(machine, wheels) != machine.digest
        if not is_new and _is_fine(machine, before):
            report(before, f"{machine.node} has this version already.")
            return
        node = _start(client, remote, machine, machine.node, before)
    report(node, f"{machine.node} is online with version {node['agent_version']}.")


def remove(
    target: TargetArgument,
    wait_s: Annotated[
        int, typer.Option(min=0, help="Seconds to wait until what runs has left the node.")
    ] = 600,
    only_cluster: Annotated[
        bool,
        typer.Option("--only-cluster", help="Leave the machine alone, as when it is out of reach."),
    ] = False,
    with_checkpoints: Annotated[
        bool,
        typer.Option(
            "--with-checkpoints",
            help="Also delete the checkpoints that are stored in the agent's own folder.",
        ),
    ] = False,
    port: PortOption = None,
    identity: IdentityOption = "",
    ssh_option: SshOption = None,
) -> None:
    """Remove a node; if `muster node add` brought its agent, drain it and take the agent away, too.

    Other nodes must be LOST, silent for a minute, or cordoned and empty. The credential is revoked at
    once. What ran on a silent node ends there and may start elsewhere.
    """
    recorded = _recorded(target)
    if only_cluster or (recorded is None and "@" not in target):
        _remove_from_cluster(target)
        return
    to = _destination(target, port, identity, ssh_option, recorded=recorded)
    else_ = "to remove the node and leave the machine alone, use --only-cluster"
    with _session(to, else_) as (client, remote):
        machine = remote.probe()
        name = machine.node or target
        node = _find(client, name)
        if not machine.is_installed and node is None:
            say(f"There is no agent on {printable(to.host)}: nothing to remove.")
            _forget(target)
            return
        if machine.stored_bytes and not with_checkpoints:
            raise CommandFailure(
                f"{machine.folder}/home/storage on {to.host} has {byte_size(machine.stored_bytes)} of "
                "checkpoints and outputs, which would be deleted.",
                "copy what you need, then remove it with --with-checkpoints",
            )
        if node is not None:
            _drain(client, node, wait_s)
        if machine.is_installed:
            remote.stop()
        if node is not None:
            client.delete(f"/nodes/{node['id']}")
        if machine.is_installed:
            remote.remove()
    _forget(name)
    say(f"Removed {printable(name)}; nothing is left on {printable(to.host)}.")


def _remove_from_cluster(target: str) -> None:
    node = find_node(target)
    server().delete(f"/nodes/{node['id']}")
    _forget(node["name"])
    say(f"Removed {printable(node['name'])}.")


# ---------------------------------------------------------------- the cluster


@contextmanager
def _session(to: Destination, else_: str = "") -> Iterator[tuple[Client, Remote]]:
    """Yield the server and the machine; a step that fails ends the command.

    else_: what else can be done if the machine is out of reach.
    """
    from muster.bootstrap.steps import StepFailed, connect

    _require_same_version(server())
    try:
        with connect(to) as remote:
            yield server(), remote
    except StepFailed as error:
        hint = f"{error.hint}; {else_}" if else_ else error.hint
        raise CommandFailure(f"{error}", hint, code="nodes.setup") from None
    except LookupError as error:
        raise CommandFailure(f"{error}.", code="nodes.setup") from None


def _require_same_version(client: Client) -> None:
    from muster import __version__

    theirs = client.get("/cluster")["server_version"]
    if theirs != __version__:
        raise CommandFailure(
            f"The server has version {theirs}, and this command {__version__}.",
            f"install muster-train[cli] {theirs} here: nodes get the version of this command",
        )


@contextmanager
def _join_token(client: Client, pool: str) -> Iterator[schema.JoinTokenCreated]:
    """Yield a join token for one agent. It works no longer than this lasts."""
    from muster.client import ClientError

    token = client.post("/join-tokens", {"pool": pool, "uses": 1, "expires_in_s": TOKEN_S})
    try:
        yield token
    finally:
        try:
            client.delete(f"/join-tokens/{token['id']}")
        except ClientError:
            say("The join token could not be revoked; it expires within an hour.")


def _find(client: Client, name: str) -> schema.NodeOut | None:
    return next((node for node in client.pages("/nodes") if node["name"] == name), None)


def _drain(client: Client, node: schema.NodeOut, wait_s: int) -> None:
    """Wait until nothing runs on a node that is heard. Raises CommandFailure."""
    if node["state"] == "LOST":
        return
    client.patch(f"/nodes/{node['id']}", {"scheduling": "draining"})
    deadline = time.monotonic() + wait_s
    told = False
    while (now := client.get(f"/nodes/{node['id']}"))["num_slots_used"]:
        if not told:
            told = True
            say(f"draining: {now['num_slots_used']} slots are in use …")
        if time.monotonic() > deadline:
            raise CommandFailure(
                f"{node['name']} still has {now['num_slots_used']} slots in use after {wait_s} s.",
                "it goes on draining: run the same command again, or stop what runs there",
            )
        time.sleep(0.5)


def _url(host: str, given: str, token: schema.JoinTokenCreated) -> str:
    """Return the server's address for a machine. Raises CommandFailure if others do not reach it."""
    name = host.rsplit("@", 1)[-1]
    is_here = name in ("localhost", "::1") or name.startswith("127.")
    if given or is_here or not token["this_machine_only"]:
        return (given or str(token["server_url"])).rstrip("/")
    raise CommandFailure(
        f"{host} cannot reach this server: its address, {token['server_url']}, is of its own machine "
        "alone.",
        "give an address that the machine reaches with --server-url, and start the server with "
        "muster up --address",
    )


# ---------------------------------------------------------------- the machine


def _look(remote: Remote, python: str) -> RemoteMachine:
    """Return what is on a machine that can have an agent. Raises StepFailed."""
    machine = remote.probe(python)
    remote.check(machine, python)
    return machine


def _start(
    client: Client,
    remote: Remote,
    machine: RemoteMachine,
    name: str,
    before: schema.NodeOut | None,
) -> schema.NodeOut:
    """Start the agent and wait for its new session; return the node."""
    say("starting …")
    last = before["registered_at"] if before is not None else ""
    ends_at_logout = remote.start(machine)

    def is_online() -> bool:
        node = _find(client, name)
        return node is not None and node["state"] == "ONLINE" and node["registered_at"] != last

    remote.wait(is_online, timeout_s=ONLINE_S)
    if ends_at_logout:
        say(
            f"The agent ends when {machine.user} logs out. On {remote.host}, run: "
            f"sudo loginctl enable-linger {machine.user}"
        )
    elif not machine.has_user_units:
        say(
            "systemd runs no services of this user there: after a restart of the machine, run "
            "muster node add again."
        )
    node = _find(client, name)
    assert node is not None
    return node


def _is_fine(machine: RemoteMachine, node: schema.NodeOut | None) -> bool:
    return machine.is_running and node is not None and node["state"] == "ONLINE"


def _require_own_name(host: str, machine: RemoteMachine, name: str, *, is_known: bool) -> None:
    if machine.node and machine.node != name:
        raise CommandFailure(
            f"The agent on {host} is the node {machine.node}, not {name}.",
            f"remove it first: muster node remove {host}",
        )
    if is_known and not machine.node:
        raise CommandFailure(
            f"There is a node {name} already, and it is not an agent of muster node add on {host}.",
            "choose another name with --name, or remove that node",
        )


def _settings(values: dict[str, str]) -> str:
    from muster.bootstrap.machine import write_settings

    try:
        return write_settings(values)
    except ValueError as error:
        raise CommandFailure(f"{error}.") from None


# ---------------------------------------------------------------- how machines are reached


def _destination(
    host: str,
    port: int | None,
    identity: str,
    options: list[str] | None,
    *,
    recorded: Destination | None = None,
) -> Destination:
    """Return how a machine is reached: as it is recorded, unless the options say otherwise."""
    from muster.bootstrap.steps import Destination

    if recorded is not None:
        return Destination(
            host=recorded.host,
            port=port or recorded.port,
            identity=identity or recorded.identity,
            options=tuple(options or recorded.options),
        )

    if host.startswith("-") or not host or any(letter.isspace() for letter in host):
        raise CommandFailure(f"{host!r} is no machine.", "write it as ssh takes it: ann@gpu1")
    for option in options or ():
        if "=" not in option:
            raise CommandFailure(
                f"--ssh-option {option!r} is no option of ssh.", "write KEY=VALUE: ProxyJump=gate"
            )
    return Destination(host=host, port=port, identity=identity, options=tuple(options or ()))


def _records_file() -> Path:
    from muster.client.target import muster_home

    return muster_home() / "ssh-nodes.json"


def _records() -> dict[str, dict[str, Any]]:
    """Return how the nodes are reached that were added from here, by name."""
    try:
        text = _records_file().read_text()[:MAX_RECORDS_BYTES]
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _recorded(target: str) -> Destination | None:
    """Return how a node is reached that was added from here; None for another."""
    from muster.bootstrap.steps import Destination

    for name, record in _records().items():
        if target in (name, record["host"]):
            return Destination(**{**record, "options": tuple(record["options"])})
    return None


def _remember(name: str, to: Destination) -> None:
    _write({**_records(), name: asdict(to)})


def _forget(name: str) -> None:
    records = _records()
    left = {key: value for key, value in records.items() if name not in (key, value["host"])}
    if left != records:
        _write(left)


def _write(records: dict[str, dict[str, Any]]) -> None:
    path = _records_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(records, indent=2))
    temporary.replace(path)
