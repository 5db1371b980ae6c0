"""Commands about access to the cluster: agent, token, login."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..absent import server
from ..group import CommandSet
from ..output import Cell, CommandFailure, age, print_rows, printed_json, report, say, usage_error
from .people import find_user

if TYPE_CHECKING:
    pass

Role = Literal["viewer", "member", "admin", "predict", "metrics"]

agent_app = CommandSet(help="Join machines to the cluster.")
token_app = CommandSet(help="Your tokens for the command line and scripts.")


@agent_app.command(
    "run",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
    takes_json=False,
)
def agent_run(context: typer.Context) -> None:
    """Run an agent on this machine (the options are those of `muster-agent run`)."""
    import os
    from importlib.util import find_spec

    if find_spec("muster_agent") is None:
        raise CommandFailure("The agent is not installed.", 'pip install "muster-train[agent]"')
    # In place of this process, so that signals and exit codes are the agent's own.
    command = [sys.executable, "-m", "muster_agent.cli", "run", *context.args]
    os.execv(sys.executable, command)  # noqa: S606


@agent_app.command("token")
def agent_token(
    pool: Annotated[str, typer.Option(help="Pool that the nodes join.")] = "default",
    uses: Annotated[
        int, typer.Option(min=1, help="Number of agents that may join with the token.")
    ] = 1,
    expires_in_s: Annotated[
        int, typer.Option("--expires-in-s", min=60, help="Seconds until it expires.")
    ] = 600,
) -> None:
    """Create a join token and print the command to run on the new machine."""
    created = server().post(
        "/join-tokens", {"pool": pool, "uses": uses, "expires_in_s": expires_in_s}
    )
    if not printed_json(created):
        say(f"Run this on the new machine within {expires_in_s} s:")
        print(created["command"])
        if created.get("this_machine_only"):
            say(
                "Warning: this works only on the server's own machine, because the address in it is "
                "a loopback one. For another machine, start the server with MUSTER_PUBLIC_URL set to "
                "an address that machine reaches (muster up --address ADDRESS does), then run this "
                "command again."
            )


ForOption = Annotated[
    str | None,
    typer.Option("--for", metavar="NAME", help="A service account (administrators)."),
]


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="Name of the token.")],
    role: Annotated[
        Role | None,
        typer.Option(
            help="Role of the token; yours by default. predict: only send requests to deployments. metrics: only read /metrics."
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=3650,
            help="Days until it expires; 90 by default, and never after the token you create it with.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="As 30d or 2w."),
    ] = None,
    project: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="P",
            help="Limit it to this project; up to 20 times.",
        ),
    ] = None,
    account: ForOption = None,
) -> None:
    """Create a token. It is shown only once."""
    body: dict[str, Any] = {"name": name}
    if expires is not None:
        days = _days(expires, days)
    if days is not None:
        body["expires_in_days"] = days
    if role is not None:
        body["role"] = role
    if project:
        body["projects"] = project
    created = server().post(_tokens(account), body)
    if not printed_json(created):
        say("Keep it safe: it is not shown again.")
        print(created["secret"])


@token_app.command("list")
def token_list(account: ForOption = None) -> None:
    """List your tokens, or those of a service account."""
    found = list(server().pages(_tokens(account)))
    columns: dict[str, Cell[Any]] = {
        ">id": "id",
        "name": "name",
        "begins with": ("prefix", lambda prefix: f"{prefix}…"),
        "role": "role",
        "used": ("last_used_at", lambda moment: f"{age(moment)} ago" if moment else "never"),
        "expires": _expiry,
        "projects": ("projects", _projects),
    }
    print_rows(found, columns, empty="No tokens.")


@token_app.command("revoke")
def token_revoke(
    token_id: Annotated[int, typer.Argument(metavar="ID", help="From `muster token list`.")],
) -> None:
    """Revoke a token at once."""
    server().delete(f"/tokens/{token_id}")
    report({"id": token_id, "revoked": True}, f"Revoked token {token_id}.")


def _tokens(account: str | None) -> str:
    """Return the address of the tokens of a service account, or of the caller's own."""
    return "/tokens" if account is None else f"/users/{find_user(account)}/tokens"


def _days(expires: str, days: int | None) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,3})([dw])", expires)
    if found is None or days is not None:
        raise usage_error(
            f"--expires {expires}: "
            + (
                "leave out --days, which says the same"
                if found
                else "is no number of days or weeks"
            ),
            "write it as 30d or 2w",
        )
    return int(found[1]) * (7 if found[2] == "w" else 1)


def _expiry(token: Any) -> str:
    moment: str = (token["expires_at"] or "never")[:10]
    return f"{moment} (soon)" if token["expires_soon"] else moment


def _projects(names: list[str] | None) -> str:
    if names is None:
        return "all"
    return ", ".join(names) or "none left"


def login(
    url: Annotated[str, typer.Argument(help="The server: http://host:8470")],
    with_token: Annotated[
        bool,
        typer.Option(
            "--with-token", help="Read a token from standard input or a prompt, without a browser."
        ),
    ] = False,
) -> None:
    """Save a server and a token: you confirm in a browser, on any machine, that this command may act as you."""
    from muster.client import Client as HttpClient
    from muster.client import Target, write_target

    url = url.rstrip("/")
    # What is piped in was always a token.
    if with_token or not sys.stdin.isatty():
        token, source = _read_token(), "what you entered"
    else:
        token, source = _token_from_browser(url), "the browser"
    target = Target(url, token, source)
    with HttpClient(target) as client:
        me = client.get("/auth/me")
    path = write_target(target)
    report(
        {"url": target.url, "username": me["username"], "role": me["role"]},
        f"Signed in to {target.url} as {me['username']} ({me['role']}). Saved in {path}.",
    )


def _read_token() -> str:
    if sys.stdin.isatty():
        token = typer.prompt("Token (from the dashboard, Settings)", hide_input=True, err=True)
    else:
        token = sys.stdin.readline()
    token = token.strip()
    if not token:
        raise CommandFailure(
            "No token was given.", "create one in the dashboard under Settings, Tokens"
        )
    return str(token)


def _token_from_browser(url: str) -> str:
    """Return a token of who confirms in a browser that this command may have one."""
    import os
    import socket
    import time
    import webbrowser

    from muster.client import Client as HttpClient
    from muster.client import Refused, Target

    with HttpClient(Target(url, None, "the command line")) as client:
        begun = client.post("/auth/device", {"client": f"muster on {socket.gethostname()}"[:128]})
        say(
            f"Open {begun['url']} in a browser, on any machine, and confirm the code {begun['user_code']}."
        )
        has_screen = sys.platform == "darwin" or os.environ.get("DISPLAY", "") != ""
        if has_screen and "SSH_CONNECTION" not in os.environ:
            webbrowser.open(begun["url"])
        deadline = time.monotonic() + begun["expires_in_s"]
        while time.monotonic() < deadline:
            time.sleep(begun["interval_s"])
            try:
                made = client.post("/auth/device/token", {"device_code": begun["device_code"]})
            except Refused as error:
                if error.code != "auth.device_pending":
                    raise
            else:
                return str(made["secret"])
    raise CommandFailure("Nobody has confirmed the code in time.", f"muster login {url}")
