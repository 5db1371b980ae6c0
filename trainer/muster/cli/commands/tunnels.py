"""Commands inside a running job: exec, shell, port; and sessions, which are jobs to work in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..absent import server
from ..group import CommandSet
from ..output import Cell, console, print_rows, printed_json, report, say, until, usage_error
from ..sending import CodeOption, SetOption
from ..trials import TrialArgument, TrialReference, parse_experiment

if TYPE_CHECKING:
    from muster.client import schema

RankOption = Annotated[
    int | None, typer.Option("--rank", metavar="RANK", help="Open on the node of this rank.")
]


def exec_(
    trial: TrialArgument,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="Command to run, after --.")
    ],
    rank: RankOption = None,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command a terminal.")] = False,
) -> None:
    """Run a command inside a running job, and exit with its exit code.

    It has the job's environment, folder and secrets, and ends with the job.
    """
    request = {"kind": "exec", "argv": command, "rank": rank, "has_terminal": tty}
    from ..channels import run

    run(trial, request, has_terminal=tty)


def shell(trial: TrialArgument, rank: RankOption = None) -> None:
    """Open a shell inside a running job.

    It has the job's environment, folder and secrets, and ends with the job.
    """
    if not sys.stdin.isatty():
        raise usage_error(
            "A shell needs a terminal, and stdin is none.",
            "run one command with `muster exec TRIAL -- COMMAND`",
        )
    from ..channels import run

    run(trial, {"kind": "shell", "rank": rank, "has_terminal": True}, has_terminal=True)


def port(
    trial: TrialArgument,
    remote: Annotated[
        int, typer.Argument(metavar="PORT", min=1, max=65_535, help="Port in the job.")
    ],
    local: Annotated[
        int | None,
        typer.Option("--local", metavar="PORT", min=0, max=65_535, help="Port on this machine."),
    ] = None,
    rank: RankOption = None,
) -> None:
    """Make a port of a running job available on this machine, until Ctrl-C.

    Only ports on which a process of the job listens can be reached: TensorBoard, a notebook.
    """
    from ..channels import forward

    request = {"kind": "port", "port": remote, "rank": rank}
    forward(trial, request, remote if local is None else local)


# ---------------------------------------------------------------- sessions

session_app = CommandSet(help="Jobs in which you work: a shell, ssh, Jupyter or VS Code.")
SessionArgument = Annotated[
    int,
    typer.Argument(
        metavar="SESSION", parser=parse_experiment, help="The session: its number or name."
    ),
]


@session_app.command("start")
def session_start(
    kind: Annotated[
        Literal["shell", "ssh", "jupyter", "code"],
        typer.Option(help="How you work in it; code is code-server, VS Code in the browser."),
    ] = "shell",
    slots: Annotated[int, typer.Option("--slots", "-n", min=1, help="Slots, on one node.")] = 1,
    from_: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="EXPERIMENT",
            parser=parse_experiment,
            help="Open the code, environment, data and newest checkpoint of this experiment.",
        ),
    ] = None,
    idle: Annotated[
        str, typer.Option(metavar="TIME", help="End it when nothing has gone on for so long.")
    ] = "30m",
    name: Annotated[str | None, typer.Option(help="Name. Default: session-KIND.")] = None,
    project: Annotated[str | None, typer.Option(help="Project that it belongs to.")] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of nodes to run in.")] = None,
    slot_type: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Kind of slot. Default: the pool's, or cpu if it has several."),
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter on the nodes.")
    ] = None,
    set_: SetOption = None,
    code: CodeOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Do not wait until it runs.")
    ] = False,
) -> None:
    """Start a session: a job that waits in the queue like any other, and ends when it is idle."""
    from muster.code.folder import CodeFolder

    from ..interactive import await_session, document_of
    from ..sending import SentCode, upload_folder
    from .run import only_kind

    client = server()
    source = client.experiment(from_) if from_ is not None else None
    if slot_type is None and source is None:
        slot_type = only_kind(pool or "default")
    given = {"project": project, "pool": pool, "slot_type": slot_type, "python": python}
    document = document_of(kind, slots=slots, idle=idle, name=name, given=given, source=source)
    body: dict[str, Any] = {"overrides": list(set_ or ())}
    sent = SentCode()
    if code is not None:
        document["code"] = {"path": "."}
        sent = upload_folder(client, CodeFolder(path=code), quiet=True)
        body |= {"blob_sha256": sent.sha256, "left_out": list(sent.left_out)}
    body["document"] = json.dumps(document, indent=2)
    if source is None:
        made = client.post_once("/experiments", body)
    else:
        checkpoints = client.get("/checkpoints", experiment=source["id"], limit=1)
        body |= {"from": {"pick": "latest"}} if checkpoints["items"] else {}
        made = client.post_once(f"/experiments/{source['id']}:fork", body)
    number = made["id"]
    if not detach:
        say(f"Session {number} waits for its slots. Ctrl-C leaves it waiting.")
        await_session(number)
    if not printed_json(made):
        print(number)
        say(_how_to_reach(number, kind))


def _how_to_reach(number: int, kind: str) -> str:
    text = f"Enter it: muster session open {number}"
    return f"{text} (or muster ssh-config, then ssh muster-{number})" if kind == "ssh" else text


@session_app.command("list")
def session_list() -> None:
    """List the sessions that have not ended, the newest first."""
    columns: dict[str, Cell[schema.InteractiveSessionOut]] = {
        ">id": "experiment_id",
        "name": "name",
        "kind": "kind",
        "state": "state",
        "node": lambda row: row["node"] or "–",
        ">slots": "slots",
        "owner": lambda row: row["owner"] or "–",
        "ends": _ends,
    }
    found = server().get("/interactive-sessions")["items"]
    print_rows(found, columns, empty="No sessions: `muster session start` starts one.")


def _ends(row: schema.InteractiveSessionOut) -> str:
    if row["is_in_use"] is None:
        return "–"
    return f"in use (after {row['idle']} idle)" if row["is_in_use"] else until(row["ends_at"])


@session_app.command("show")
def session_show(session: SessionArgument) -> None:
    """Show a session: where it runs, how it is reached and by whom, and when it ends."""
    from ..interactive import find_session

    row = find_session(session)
    if printed_json(row):
        return
    who = f"{row['owner']} and administrators" if row["owner"] else "administrators"
    lines = {
        "session": f"{row['experiment_id']} ({row['name']}), {row['kind']}",
        "state": row["state"] + (f": {row['reason']}" if row["reason"] else ""),
        "runs on": f"{row['slots']} × {row['slot_type']}"
        + (f", {row['node']}" if row["node"] else ""),
        "open to": who,
        "enter": f"muster session open {session}",
        "ends": _ends(row),
    }
    for name, text in lines.items():
        console().print(f"{name:10}{text}", markup=False, soft_wrap=True)


@session_app.command("stop")
def session_stop(session: SessionArgument) -> None:
    """End a session. The files in its folder are kept as its outputs."""
    from ..interactive import find_session

    find_session(session)
    stopped = server().stop(session)
    report(stopped, f"Session {session} is to stop.")


@session_app.command("open", takes_json=False)
def session_open(
    session: SessionArgument,
    local: Annotated[
        int,
        typer.Option("--local", metavar="PORT", min=0, max=65_535, help="Port on this machine."),
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the address in a browser.")
    ] = True,
) -> None:
    """Enter a session: a shell or ssh here, Jupyter and VS Code in the browser.

    The server of the session is reached through this command, until Ctrl-C, and by nobody else.
    """
    from ..channels import forward
    from ..interactive import address_of, find_session, write_ssh_options

    kind = find_session(session)["kind"]
    if kind == "shell":
        shell(TrialReference(session))
        return
    if kind == "ssh":
        file = write_ssh_options()
        try:
            done = subprocess.run(["ssh", "-F", str(file), f"muster-{session}"], check=False)
        except FileNotFoundError:
            raise usage_error("ssh is not installed on this machine.") from None
        raise typer.Exit(done.returncode)
    address = address_of(session)

    def ready(port: int) -> None:
        url = f"http://127.0.0.1:{port}/"
        if kind == "jupyter":
            url += f"?token={address['token']}"
        else:
            say(f"Password: {address['token']}")
        say(f"Session {session} is at {url}. Ctrl-C closes the way, not the session.")
        if browser:
            import webbrowser

            webbrowser.open(url)

    request = {"kind": "port", "port": address["port"]}
    forward(TrialReference(session), request, local, ready)


@session_app.command("proxy", takes_json=False, hidden=True)
def session_proxy(
    host: Annotated[str, typer.Argument(metavar="HOST", help="muster-NUMBER, as ssh calls it.")],
) -> None:
    """Connect standard input and output with the SSH server of a session."""
    from ..channels import pass_stdio
    from ..interactive import HOST_PREFIX, address_of, public_key

    number = parse_experiment(host.removeprefix(HOST_PREFIX))
    address = address_of(number, key=public_key())
    if address["kind"] != "ssh":
        raise usage_error(
            f"Session {number} is of kind {address['kind']}, which ssh does not reach.",
            f"enter it with `muster session open {number}`",
        )
    pass_stdio(TrialReference(number), address["port"])


def ssh_config(
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the section; leave ~/.ssh/config alone.")
    ] = False,
) -> None:
    """Let `ssh muster-NUMBER` and VS Code Remote reach your sessions.

    Writes a Host entry into MUSTER_HOME/ssh/config, and includes that file in ~/.ssh/config. Run it again
    to list new sessions in VS Code; ssh finds them without.
    """
    from ..interactive import include_in, write_ssh_options

    file = write_ssh_options()
    if only_print:
        print(file.read_text(), end="")
        return
    config = Path.home() / ".ssh" / "config"
    is_new = include_in(config, file)
    say(f"Wrote {file}" + (f", and included it in {config}." if is_new else "."))
