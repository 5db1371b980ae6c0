"""Commands for this machine: up, status."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.launch import reaping
from muster.launch.known_variables import AGENT_PREFIX, misspelt_lines

from ..output import (
    CommandFailure,
    console,
    duration,
    print_json,
    printed_json,
    say,
    table,
    wants_json,
)

if TYPE_CHECKING:
    from muster_server.local.parts import LocalOptions
    from muster_server.local.supervisor import Access, Supervisor

HomeOption = Annotated[
    Path | None,
    typer.Option(help="Data folder. Default: $MUSTER_HOME, else ~/.muster.", show_default=False),
]


NO_TORCH = (
    "PyTorch is not installed here: the built-in trainer and torchrun do not run until you "
    "`pip install torch`, or a document names an interpreter that has it (environment.python)."
)


def up(
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Port of the dashboard and the API; 0 takes a free one."
        ),
    ] = 8470,
    agents: Annotated[
        int | None, typer.Option(min=0, max=64, help="Number of nodes to run here (default: 1).")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Slots per node; by default its GPUs, else CPU cores."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address at which other machines reach this one. Without it, only this machine has access.",
            metavar="HOST",
            show_default=False,
        ),
    ] = None,
    home: HomeOption = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Run two nodes of two slots and three example trainings.")
    ] = False,
    no_agents: Annotated[
        bool, typer.Option("--no-agents", help="Run only the control plane; nodes join later.")
    ] = False,
    show_status: Annotated[
        bool, typer.Option("--status", help="Show what runs and what it uses, then exit.")
    ] = False,
) -> None:
    """Run all of Muster on this machine until Ctrl-C."""
    root = _home(home)
    if show_status:
        _print_status(root)
        return
    if no_agents and (agents or demo):
        raise CommandFailure(
            "--no-agents goes with neither --agents nor --demo.",
            "leave one of them out",
            exit_code=2,
        )
    try:
        from muster_agent.settings import variables_of_settings
        from muster_server.local.home import LocalError
        from muster_server.local.parts import LocalOptions
        from muster_server.local.supervisor import supervise
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"`muster up` needs the package {error.name!r}, which is not installed.",
            'pip install "muster-train[local]"',
        ) from None

    # Most of the agents' settings are not passed on, so that no agent would say it.
    misspelt = misspelt_lines(os.environ, variables_of_settings(), AGENT_PREFIX)
    if misspelt:
        raise CommandFailure("Wrong settings\n" + "\n".join(misspelt), "unset or correct them")
    count = 0 if no_agents else agents if agents is not None else 2 if demo else 1
    options = LocalOptions(
        root=root,
        port=port,
        num_agents=count,
        slots_per_agent=slots if slots is not None else 2 if demo else None,
        address=address,
    )
    # The `muster` command run from here on, and the demo, are to talk to this one.
    os.environ["MUSTER_HOME"] = str(root)
    announce = _announce_as_json if wants_json() else _announce
    reaping.adopt()  # what an agent that crashes leaves behind
    try:
        with supervise(options, say) as supervisor:
            _run(supervisor, options, announce, opens_browser=open_, with_demo=demo)
    except LocalError as error:
        raise CommandFailure(error.message, error.hint, code="local.cannot_start") from None


def _run(
    supervisor: Supervisor,
    options: LocalOptions,
    announce: Callable[[Access, float, str], None],
    *,
    opens_browser: bool,
    with_demo: bool,
) -> None:
    """Start every process, announce the address, and run until Ctrl-C. Raises LocalError."""
    started = time.monotonic()
    say(f"Starting Muster in {options.root}")
    if options.num_agents and (line := torch_notice()):
        say(line)
    try:
        access = supervisor.start()
    except KeyboardInterrupt:
        return
    took_s = time.monotonic() - started
    announce(access, took_s, _how_jobs_run(options.root) if options.num_agents else "")
    if opens_browser:
        _open_browser(access.sign_in_url)
    demo_thread = None
    if with_demo:
        from ..demo import run_demo

        demo_thread = threading.Thread(
            target=run_demo,
            args=(access, options.num_agents, lambda: supervisor.stop_requested),
            name="demo",
            daemon=True,
        )
        demo_thread.start()
    supervisor.run()
    if demo_thread is not None:
        demo_thread.join(2)  # its table must not be drawn over what follows
    say("\nStopping …")


def status(home: HomeOption = None) -> None:
    """Show what `muster up` runs on this machine, and what it uses."""
    _print_status(_home(home))
    if home is None and not wants_json():
        _note_maintenance()


def _note_maintenance() -> None:
    """Print what keeps work from starting on the cluster of this environment, if there is one."""
    from muster.client import ClientError

    from ..absent import server
    from ..maintenance_notes import note_maintenance

    with suppress(ClientError):
        note_maintenance(server())


def torch_notice() -> str:
    """Return what a machine without PyTorch does not run, in one line; "" for one that has it."""
    return NO_TORCH if find_spec("torch") is None else ""


def _home(given: Path | None) -> Path:
    from muster.client import muster_home

    return given.expanduser().absolute() if given is not None else muster_home()


def _how_jobs_run(root: Path) -> str:
    """Return what jobs of the agents that are being started can do, as a sentence."""
    from muster_agent.cli import isolation_in_words
    from muster_server.local.home import Home

    home = Home(root)
    return isolation_in_words(
        server_url="http://127.0.0.1", home=home.agent("local-1"), storage_dir=home.storage
    )


def _announce(access: Access, seconds: float, jobs: str) -> None:
    """The one block that people look for; plain lines, so that it survives a log file."""
    first = "make your account" if access.is_first_time else "signs you in once"
    print(
        f"\n  Muster is ready after {seconds:.1f} s.\n\n"
        f"  Dashboard   {access.url}\n"
        f"  Sign in     {access.sign_in_url}\n"
        f"              ({first}; valid for 30 minutes)\n"
        f"  Try         {_command()} node list\n"
        f"  Stop        Ctrl-C\n"
        f"{_paragraph('Jobs', jobs)}",
        flush=True,
    )


def _paragraph(title: str, text: str) -> str:
    """Return a text beside its title, in lines that fit a terminal; "" if there is none."""
    import textwrap

    return (
        text
        and textwrap.fill(text, 80, initial_indent=f"  {title:<12}", subsequent_indent=" " * 14)
        + "\n"
    )


def _announce_as_json(access: Access, seconds: float, jobs: str) -> None:
    """One line, so that whoever reads it need not wait for the end."""
    import json

    ready = {
        "ready": True,
        "url": access.url,
        "sign_in_url": access.sign_in_url,
        "is_first_time": access.is_first_time,
        "home": os.environ["MUSTER_HOME"],
        "pid": os.getpid(),
        "took_s": round(seconds, 3),
        "jobs": jobs,
    }
    print(json.dumps(ready), flush=True)


def _command() -> str:
    """Return how to call this program from where the user is; scripts/muster passes its own name."""
    import shlex
    import shutil

    given = os.environ.get("MUSTER_COMMAND")
    if given:
        return given
    if shutil.which("muster"):
        name = "muster"
    elif os.access(sys.argv[0], os.X_OK):
        name = shlex.quote(sys.argv[0])
    else:  # started as `python -m muster.cli`
        name = f"{shlex.quote(sys.executable)} -m muster.cli"
    default = Path.home() / ".muster"
    home = os.environ["MUSTER_HOME"]
    return name if home == str(default) else f"MUSTER_HOME={shlex.quote(home)} {name}"


def _open_browser(url: str) -> None:
    import webbrowser

    # Some browsers block until they are closed.
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _print_status(root: Path) -> None:
    try:
        from muster_server.local.home import Home
        from muster_server.local.processes import usage
    except ModuleNotFoundError as error:
        raise CommandFailure(
            f"This needs the package {error.name!r}, which is not installed.",
            'pip install "muster-train[local]"',
        ) from None
    home = Home(root)
    state = home.read_state() if home.is_running() else {}
    if not state:
        if not printed_json({"running": False, "home": str(root)}):
            say(f"Muster does not run from {root}.")
            say("hint: start it with `muster up`")
        raise typer.Exit(1)
    used = usage(state)
    if wants_json():
        value: dict[str, Any] = {
            "running": True,
            "home": str(root),
            "url": state["url"],
            "started_at": state["started_at"],
            "parts": [
                {
                    "name": u.part,
                    "pid": u.pid,
                    "rss_bytes": u.rss_bytes,
                    "memory_bytes": u.memory_bytes,
                    "num_processes": u.num_processes,
                }
                for u in used
            ],
        }
        print_json(value)
        return
    shown = table("part", "pid", "processes", "memory", right=("pid", "processes", "memory"))
    for entry in used:
        shown.add_row(
            entry.part,
            str(entry.pid),
            str(entry.num_processes),
            f"{entry.memory_bytes / 1e6:.0f} MB",
        )
    total = sum(u.memory_bytes for u in used)
    shown.add_row("all", "", str(sum(u.num_processes for u in used)), f"{total / 1e6:.0f} MB")
    print(f"{state['url']}  up for {duration(time.time() - state['started_at'])}  home {root}")
    console().print(shown)
    sys.stdout.flush()
