"""Commands about users, groups and the members of projects."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..absent import server
from ..group import CommandSet
from ..output import (
    Cell,
    CommandFailure,
    age,
    last_use,
    print_rows,
    printed_json,
    report,
    say,
    usage_error,
    wants_json,
)
from ..selecting import YesOption
from .secrets import read_value

if TYPE_CHECKING:
    from muster.client import schema

user_app = CommandSet(help="Users and their roles (administrators).")
group_app = CommandSet(help="Groups of users, to be members of projects.")
sign_in_app = CommandSet(help="Browsers in which you are signed in.")
member_app = CommandSet(help="Members of a project.")

ProjectArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Name of the project.")]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
MemberArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the user or, with --group, of the group.")
]
GroupOption = Annotated[bool, typer.Option("--group", help="NAME is a group.")]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", help="What the account is for.")
]
ServerRole = Literal["admin", "member", "viewer"]


def audit(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="Only entries with this in the actor, action, subject or address."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Most entries; 0 for all.")] = 50,
) -> None:
    """List who did what, newest first (administrators). With --json it is an export."""
    entries = server().pages("/audit", q=text)
    found = list(itertools.islice(entries, limit or None))
    columns: dict[str, Cell[schema.AuditOut]] = {
        "at": lambda entry: entry["at"][:19].replace("T", " "),
        "who": "actor",
        "did": "action",
        "subject": "subject",
        "address": "remote_addr",
    }
    print_rows(found, columns, empty="No entry has that." if text else "No entries.")


@user_app.command("list")
def user_list() -> None:
    """List the users of the server."""
    found = list(server().pages("/users"))
    columns: dict[str, Cell[Any]] = {
        ">id": "id",
        "name": "username",
        "role": "role",
        "kind": "kind",
        "active": ("is_active", lambda is_active: "yes" if is_active else "no"),
        "managed by": ("is_provisioned", lambda is_provisioned: "SCIM" if is_provisioned else ""),
        "last sign-in": lambda user: (
            f"invited until {_minute(user['invited_until'])}"
            if user["invited_until"]
            else last_use(user["last_login_at"])
        ),
        "created": ("created_at", age),
        "description": "description",
    }
    print_rows(found, columns)


@user_app.command("add")
def user_add(
    name: UserArgument,
    role: Annotated[ServerRole, typer.Option(help="What the user may do.")] = "member",
    service: Annotated[
        bool,
        typer.Option(
            "--service",
            help="A service account: it has tokens and no password.",
        ),
    ] = False,
    description: DescriptionOption = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="F", help="Take the content of this file as password."),
    ] = None,
) -> None:
    """Add a user. The password comes from a file, from standard input or from a prompt; a service
    account has none."""
    if service and from_file is not None:
        raise usage_error(
            "A service account has no password.",
            f"leave out --from-file, and create a token: muster token create NAME --for {name}",
        )
    body = {"username": name, "role": role, "description": description or ""}
    if service:
        body["kind"] = "service"
    else:
        body["password"] = read_value(f"password of {name}", from_file)
    made = server().post("/users", body)
    what = f"service account {name}" if service else name
    report(made, f"Added {what} as {role}.")


@user_app.command("invite")
def user_invite(
    name: UserArgument,
    role: Annotated[
        ServerRole | None, typer.Option(help="What the user may do; member if left out.")
    ] = None,
    projects: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="PROJECT[:ROLE]",
            help="Also a member of this project, or a viewer or maintainer. Can be repeated.",
        ),
    ] = None,
    days: Annotated[int | None, typer.Option(help="How long the link is valid; 7 days.")] = None,
) -> None:
    """Print a link with which somebody chooses a password, once. Invite somebody again who has not signed
    in yet to replace the link."""
    parts = [text.partition(":") for text in projects or ()]
    body = {
        "username": name,
        "role": role,
        "projects": [{"project": project, "role": as_ or "member"} for project, _, as_ in parts],
        "expires_in_days": days,
    }
    made = server().post("/users:invite", body)
    if printed_json(made):
        return
    say(f"Invited {name} as {made['user']['role']}, until {_minute(made['expires_at'])}:")
    print(made["url"])
    if made["this_machine_only"]:
        say("This link works on the machine of the server alone: set MUSTER_PUBLIC_URL there.")


@user_app.command("uninvite")
def user_uninvite(name: UserArgument) -> None:
    """Revoke the link of somebody who has not used it."""
    server().delete(f"/users/{find_user(name)}/invitation")
    report({"username": name, "revoked": True}, f"Revoked the invitation of {name}.")


@user_app.command("set")
def user_set(
    name: UserArgument,
    role: Annotated[ServerRole | None, typer.Option(help="What the user may do.")] = None,
    active: Annotated[
        bool | None,
        typer.Option("--active/--inactive", help="Whether the user may sign in and use tokens."),
    ] = None,
    description: DescriptionOption = None,
) -> None:
    """Change a user, or deactivate one. Other rights end the user's sessions."""
    changes: dict[str, Any] = {"role": role, "is_active": active, "description": description}
    changes = {key: value for key, value in changes.items() if value is not None}
    if not changes:
        raise usage_error("Nothing to change.", "see muster user set --help")
    changed = server().patch(f"/users/{find_user(name)}", changes)
    state = "active" if changed["is_active"] else "inactive"
    report(changed, f"{name}: {changed['role']}, {state}")


@user_app.command("reset-second-factor")
def user_reset_second_factor(name: UserArgument) -> None:
    """Switch two-step sign-in off for a user who lost the phone and the recovery codes (administrators)."""
    server().delete(f"/users/{find_user(name)}/second-factor")
    said = {"username": name, "has_second_factor": False}
    report(said, f"{name} signs in with the password alone.")


@sign_in_app.command("list")
def sign_in_list(
    user: Annotated[
        str | None,
        typer.Option("--for", metavar="NAME", help="Of somebody else (administrators)."),
    ] = None,
) -> None:
    """List your sessions, the last used first."""
    path = "/sessions" if user is None else f"/users/{find_user(user)}/sessions"
    found = server().get(path)["items"]
    columns: dict[str, Cell[Any]] = {
        "id": "id",
        "seen": ("last_seen_at", last_use),
        "signed in": ("created_at", age),
        "address": lambda row: row["remote_addr"] or "–",
        "browser": lambda row: row["user_agent"] or "–",
    }
    print_rows(found, columns, empty="No sessions.")


@sign_in_app.command("end")
def sign_in_end(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="From `muster sign-in list`.")],
) -> None:
    """End a session: its browser is signed out."""
    server().delete(f"/sessions/{_quoted(session_id)}")
    report({"id": session_id, "ended": True}, f"Ended session {session_id}.")


@group_app.command("list")
def group_list() -> None:
    """List groups."""
    found = list(server().pages("/groups"))
    columns: dict[str, Cell[Any]] = {
        "name": "name",
        ">members": "num_members",
        "managed by": _manager,
        "created": ("created_at", age),
        "by": "created_by",
    }
    empty = "There are no groups yet: `muster group create NAME` creates one."
    print_rows(found, columns, empty=empty)


def _manager(group: dict[str, Any]) -> str:
    if group["is_provisioned"]:
        return "SCIM"
    filled = group["provider_group"]
    return "administrators" if filled is None else f"the provider's group {filled}"


@group_app.command("show")
def group_show(group: GroupArgument) -> None:
    """List the members of a group."""
    found = list(server().pages(f"{_group(group)}/members"))
    columns: dict[str, Cell[Any]] = {
        "name": "username",
        "added": ("added_at", age),
        "by": "added_by",
    }
    empty = f"Nobody is in group {group}: `muster group add {group} USER` adds somebody."
    print_rows(found, columns, empty=empty)


@group_app.command("create")
def group_create(
    group: GroupArgument,
    provider_group: Annotated[
        str | None,
        typer.Option(
            "--provider-group",
            metavar="NAME",
            help="Its members are those of this group at the OpenID provider; '' leaves that off.",
        ),
    ] = None,
) -> None:
    """Create a group, or change who says who its members are (administrators)."""
    body = None if provider_group is None else {"provider_group": provider_group or None}
    made = server().call("PUT", _group(group), body=body).json()
    filled = made["provider_group"]
    text = f"Group {group} has the members of {filled} at the provider." if filled else ""
    report(made, text or f"Created group {group}.")


@group_app.command("delete")
def group_delete(group: GroupArgument, yes: YesOption = False) -> None:
    """Delete a group; its members lose what they may do by it (administrators)."""
    if not yes and not wants_json():
        typer.confirm(f"Delete group {group}?", abort=True, err=True)
    server().delete(_group(group))
    report({"name": group, "deleted": True}, f"Deleted group {group}.")


@group_app.command("add")
def group_add(group: GroupArgument, user: UserArgument) -> None:
    """Add a user to a group (administrators)."""
    server().call("PUT", f"{_group(group)}/members/{_quoted(user)}")
    report({"group": group, "username": user}, f"Added {user} to {group}.")


@group_app.command("remove")
def group_remove(group: GroupArgument, user: UserArgument) -> None:
    """Remove a user from a group (administrators)."""
    server().delete(f"{_group(group)}/members/{_quoted(user)}")
    removed = {"group": group, "username": user, "removed": True}
    report(removed, f"Removed {user} from {group}.")


@member_app.command("list")
def member_list(project: ProjectArgument) -> None:
    """List the users and groups that are members of a project."""
    found = list(server().pages(_members(project)))
    columns: dict[str, Cell[Any]] = {
        "name": lambda row: row["name"] if row["kind"] == "user" else f"{row['name']} (group)",
        "role": "role",
        "added": ("added_at", age),
        "by": "added_by",
    }
    empty = (
        f"Project {project} has no members; `muster project member add {project} NAME` adds one."
    )
    print_rows(found, columns, empty=empty)


@member_app.command("add")
def member_add(
    project: ProjectArgument,
    name: MemberArgument,
    group: GroupOption = False,
    role: Annotated[
        Literal["viewer", "member", "maintainer"],
        typer.Option(help="See the project, submit to it too, or also say who its members are."),
    ] = "member",
) -> None:
    """Add a user or a group to a project, or change the role (maintainers and administrators)."""
    made = server().call("PUT", _member(project, name, group), body={"role": role}).json()
    report(made, f"{_named(name, group)} is a {role} of project {project}.")


@member_app.command("remove")
def member_remove(
    project: ProjectArgument, name: MemberArgument, group: GroupOption = False
) -> None:
    """Remove a user or a group from a project (maintainers and administrators).

    What they have submitted runs on.
    """
    server().delete(_member(project, name, group))
    removed = {"project": project, "name": name, "removed": True}
    report(removed, f"Removed {_named(name, group)} from project {project}.")


# ---------------------------------------------------------------- helpers


def find_user(name: str) -> int:
    """Return the id of a user. Raises CommandFailure."""
    for user in server().pages("/users"):
        if user["username"] == name:
            return int(user["id"])
    raise CommandFailure(f"There is no user {name}.", "`muster user list` shows all users")


def _minute(at: str) -> str:
    return at[:16].replace("T", " ") + " UTC"


def _named(name: str, is_group: bool) -> str:
    return f"Group {name}" if is_group else name


def _group(name: str) -> str:
    return f"/groups/{_quoted(name)}"


def _members(project: str) -> str:
    return f"/projects/{_quoted(project)}/members"


def _member(project: str, name: str, is_group: bool) -> str:
    return f"{_members(project)}/{'groups' if is_group else 'users'}/{_quoted(name)}"


def _quoted(name: str) -> str:
    from muster.client import quoted

    return quoted(name)
