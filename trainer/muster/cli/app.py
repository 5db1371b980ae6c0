"""The commands and their names."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .absent import hang_up
from .group import CommandSet
from .parameters import spare_pydantic

spare_pydantic()

COMMANDS = {
    "up": ("local", "up"),
    "status": ("local", "status"),
    "run": ("run", "run"),
    "submit": ("experiments", "submit"),
    "validate": ("experiments", "validate"),
    "predict": ("muster.cli.commands.analysis.predict", "predict"),
    "list": ("experiments", "list_"),
    "show": ("experiments", "show"),
    "logs": ("logs", "logs"),
    "performance": ("muster.cli.commands.analysis.performance", "performance"),
    "goodput": ("muster.cli.commands.analysis.goodput", "goodput"),
    "diagnose": ("muster.cli.commands.analysis.diagnose", "diagnose"),
    "scaling": ("muster.cli.commands.analysis.scaling", "scaling"),
    "plan": ("muster.cli.commands.analysis.plan", "plan"),
    "progress": ("muster.cli.commands.analysis.progress", "progress"),
    "stuck": ("muster.cli.commands.analysis.progress", "progress"),
    "stacks": ("muster.cli.commands.analysis.progress", "stacks"),
    "doctor": ("doctor", "doctor"),
    "profile": ("muster.cli.commands.analysis.profile", "profile"),
    "exec": ("tunnels", "exec_"),
    "shell": ("tunnels", "shell"),
    "port": ("tunnels", "port"),
    "ssh-config": ("tunnels", "ssh_config"),
    "pause": ("operations", "pause"),
    "resume": ("operations", "resume"),
    "stop": ("operations", "stop"),
    "kill": ("operations", "kill"),
    "keep": ("operations", "keep"),
    "continue": ("lineage", "continue_"),
    "fork": ("lineage", "fork"),
    "archive": ("operations", "archive"),
    "unarchive": ("operations", "unarchive"),
    "delete": ("operations", "delete"),
    "label": ("operations", "label"),
    "budget": ("projects", "budget"),
    "deletions": ("projects", "deletions"),
    "retention": ("projects", "retention"),
    "queue": ("queue", "queue"),
    "priority": ("queue", "priority"),
    "move": ("queue", "move"),
    "catalog": ("catalog", "catalog"),
    "audit": ("people", "audit"),
    "login": ("cluster", "login"),
    "mcp": ("mcp", "mcp"),
}
"""Command → its module in `commands`, and the function there."""
GROUPS = {
    "import": ("importing", "app"),
    "project": ("projects", "project_app"),
    "pool": ("projects", "pool_app"),
    "user": ("people", "user_app"),
    "group": ("people", "group_app"),
    "secret": ("secrets", "app"),
    "notify": ("notifications", "app"),
    "node": ("nodes", "app"),
    "maintenance": ("muster.cli.commands.calendar.maintenance", "app"),
    "reservation": ("muster.cli.commands.calendar.reservations", "app"),
    "schedule": ("muster.cli.commands.calendar.schedules", "app"),
    "report": ("muster.cli.commands.analysis.reports", "app"),
    "search": ("search", "app"),
    "guard": ("muster.cli.commands.analysis.guards", "app"),
    "checkpoint": ("checkpoints", "app"),
    "outputs": ("outputs", "app"),
    "media": ("media", "app"),
    "model": ("muster_models.cli.models", "app"),
    "deploy": ("muster_models.cli.deployments", "app"),
    "agent": ("cluster", "agent_app"),
    "token": ("cluster", "token_app"),
    "session": ("tunnels", "session_app"),
    "sign-in": ("people", "sign_in_app"),
    "trace": ("muster.cli.commands.analysis.trace", "app"),
}
"""Group of commands → its module in `commands`, and the Typer there. A name with dots is a module of
another package, such as a part that may not be installed."""


class CommandGroup(TyperGroup):
    """A reader that has seen enough (`muster logs 1 | head`) is not an error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nothing may be flushed into the pipe when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        finally:
            hang_up()
        return result


def _version(wanted: bool) -> None:
    if wanted:
        from muster import __version__

        print(f"muster {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Queue, run and watch training on your own machines.

    The server and the token come from MUSTER_URL and MUSTER_TOKEN, or from cli.json in MUSTER_HOME,
    which `muster up` and `muster login` write.

    Exit codes: 0 success, 1 refused or failed, 2 incorrect usage, 3 no server, 4 the experiment
    failed, 5 it was canceled, 130 interrupted. `muster run` exits with the code of its command.
    """


def command_line(words: Sequence[str] = ()) -> typer.Typer:
    """Return the command line for `words`: with the command that they name, else with all of them.

    Loading all commands takes longer than most of them run.
    """
    app = _empty()
    named = set(words[:1]) & {*COMMANDS, *GROUPS}
    for name in named & {*GROUPS}:
        if not _is_installed(GROUPS[name][0]):
            from .output import CommandFailure

            package = GROUPS[name][0].partition(".")[0].replace("_", "-")
            raise CommandFailure(
                f"`muster {name}` needs the package {package}, which is not installed.",
                hint=f"install {package} of the same version; it is in parts/ of Muster's repository",
            )
    for name, (module, function) in COMMANDS.items():
        if not named or name in named:
            settings = {"allow_interspersed_args": False} if name == "run" else None
            add = app.command(
                name, takes_json=module not in ("tunnels", "mcp"), context_settings=settings
            )
            add(_load(module, function))
    for name, (module, group) in GROUPS.items():
        if (not named or name in named) and _is_installed(module):
            app.add_typer(_load(module, group), name=name)
    return app


def listing() -> typer.Typer:
    """Return the command line that `muster --help` lists, in a fifth of the time: what each command does is
    read from its source, and nothing of it can be run."""
    app = _empty()
    for name, (module, function) in COMMANDS.items():
        about = _found(module, rf'^def {function}\(.*?\n    """(.*?)(?:\n\n|""")')
        # A command that is made by a function is written in no source.
        app.command(name, takes_json=False, help=about or None)(
            _no_more if about else _load(module, function)
        )
    for name, (module, group) in GROUPS.items():
        if not _is_installed(module):
            continue
        about = _found(module, rf'^{group} = CommandSet\(.*?help="(.*?)"')
        app.add_typer(typer.Typer(help=about), name=name)
    return app


def _is_installed(module: str) -> bool:
    return "." not in module or find_spec(module.partition(".")[0]) is not None


def _no_more() -> None:
    """Stand for a command in a list."""


def _found(module: str, pattern: str) -> str:
    """Return the text that the pattern finds in the source of a module, in one line; "" for none."""
    if "." in module:
        package, _, rest = module.partition(".")
        spec = find_spec(package)
        source = Path(str(spec and spec.origin)).parent / rest.replace(".", "/")
    else:
        source = Path(__file__).parent / "commands" / module
    found = re.search(pattern, source.with_suffix(".py").read_text(), re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _empty() -> CommandSet:
    return CommandSet(
        name="muster",
        cls=CommandGroup,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        callback=_main,
    )


def _load(module: str, name: str) -> Any:
    full = module if "." in module else f"muster.cli.commands.{module}"
    return getattr(import_module(full), name)
