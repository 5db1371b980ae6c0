"""Signing in, users and tokens."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster_server.domain.access import ProjectRole
from muster_server.domain.accounts import AccountKind

from ..base import Identifier, Input, Output, SafeStr
from ..budgets import ProjectName

Role = Literal["admin", "member", "viewer"]
TokenRole = Literal["admin", "member", "viewer", "predict", "metrics"]
"""Role of a token. `predict` is for a program that sends requests to deployments, and `metrics` for a
monitoring system, which reads /metrics; neither may do anything else."""
Username = Annotated[
    SafeStr, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
Password = Annotated[SafeStr, Field(min_length=12, max_length=256)]
Description = Annotated[SafeStr, Field(max_length=200)]
"""What an account is for."""
Secret = Annotated[SafeStr, Field(min_length=1, max_length=256)]


class AuthState(Output):
    """Public settings that the sign-in page needs."""

    setup_required: bool
    """True until the first administrator exists."""
    setup_command: str | None
    """Shell command that prints a new set-up token on this installation; null once it is set up."""
    sign_in_command: str | None
    """Shell command that prints a new sign-in token on this installation; only for a browser on the
    machine of the server, once it is set up."""
    provider: str | None
    """Name of the OpenID provider that people sign in with; null without one."""
    version: str
    parts: list[str]
    """Names of the parts that are installed beside the core: `models`."""


class SetupIn(Input):
    token: Secret
    username: Username
    password: Password


class LoginIn(Input):
    username: Annotated[SafeStr, Field(max_length=64)]
    password: Annotated[SafeStr, Field(max_length=256)]
    code: Annotated[SafeStr, Field(max_length=32)] | None = None
    """Code of the authenticator app, or a recovery code; needed by who has switched two-step sign-in on."""


class OneTimeIn(Input):
    token: Secret


class PasswordIn(Input):
    current_password: Annotated[SafeStr, Field(max_length=256)] | None = None
    """Current password; a user without a password may leave it out."""
    new_password: Password
    revoke_tokens: bool = True
    """Whether to revoke all your API tokens, with everything that they created. Anyone who knew the
    old password may have created some."""


class MeOut(Output):
    id: int
    username: str
    role: Role
    has_password: bool
    has_second_factor: bool
    """Whether a code is needed beside the password."""
    provider_account: str | None
    """E-mail address, or else the name, of the account at the OpenID provider that the user signs in with;
    null if there is none."""
    permissions: list[str]


class OwnPasswordIn(Input):
    password: Annotated[SafeStr, Field(max_length=256)]
    """Your own, once more."""


class CodeIn(Input):
    code: Annotated[SafeStr, Field(min_length=6, max_length=6, pattern=r"^[0-9]+$")]


class SecondFactorBegun(Output):
    secret: str
    """Base32, to type into the app."""
    address: str
    """otpauth address, for a QR code."""


class RecoveryCodes(Output):
    codes: list[str]
    """Each stands once for a code of the app."""


class ProviderPage(Output):
    url: str
    """Page of the OpenID provider; open it in the browser."""


class SessionOut(Output):
    id: str
    created_at: dt.datetime
    last_seen_at: dt.datetime
    expires_at: dt.datetime
    remote_addr: str
    """Address that signed in; empty if it is not known."""
    user_agent: str
    """What the browser calls itself, in up to 200 characters."""
    is_current: bool
    """Whether this request belongs to the session."""


class UserIn(Input):
    username: Username
    password: Password | None = None
    """Password of a person."""
    role: Role = "member"
    kind: AccountKind = "person"
    description: Description = ""


class UserPatch(Input):
    role: Role | None = None
    is_active: bool | None = None
    description: Description | None = None


class UserOut(Output):
    id: int
    username: str
    role: Role
    kind: AccountKind
    description: str
    is_active: bool
    is_provisioned: bool
    """Whether the identity provider manages the account by SCIM."""
    created_at: dt.datetime
    last_login_at: dt.datetime | None
    invited_until: dt.datetime | None
    """When the user's invitation expires; null if none is open."""
    is_invitable: bool
    """Whether the user can get a new invitation: a person who has never signed in, and has no API token."""


class InvitedMember(Input):
    """Role of an invited person in a project."""

    project: ProjectName
    role: ProjectRole = "member"


class InvitationIn(Input):
    username: Username
    role: Role | None = None
    """Role on the server. If left out: `member`, or for a user who has been invited before, the role that
    the user has."""
    projects: Annotated[list[InvitedMember], Field(max_length=20)] = []
    expires_in_days: Annotated[int, Field(ge=1, le=30)] | None = None
    """Lifetime of the link in days; 7 if left out. If created with an API token, it expires with that one
    at the latest."""


class InvitationCreated(Output):
    user: UserOut
    url: str
    """Link that the invited person opens, which is shown only once."""
    expires_at: dt.datetime
    this_machine_only: bool
    """Whether the link has a loopback address, at which no other machine reaches the server. If so, set
    MUSTER_PUBLIC_URL (`muster up --address`) and create another link."""


class InvitationTokenIn(Input):
    token: Secret


class InvitationOut(Output):
    username: str
    expires_at: dt.datetime


class InvitationAcceptedIn(Input):
    token: Secret
    password: Password


class TokenIn(Input):
    name: Annotated[SafeStr, Field(min_length=1, max_length=128)]
    role: TokenRole | None = None
    """Role of the token, not above your own; your own if left out."""
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    """Lifetime in days; 90 if left out, and at most 365 for a service account. A token created with
    another token expires with that one at the latest: if less than 90 days remain, that is the default,
    and more is refused."""
    projects: Annotated[list[ProjectName], Field(min_length=1, max_length=20)] | None = None
    """Projects that the token is limited to. If left out, it has the limit of the token that creates it,
    if any."""


class TokenOut(Output):
    id: int
    name: str
    prefix: str
    role: TokenRole
    created_at: dt.datetime
    expires_at: dt.datetime | None
    last_used_at: dt.datetime | None
    parent_id: int | None
    """The token that created this one and limits its lifetime; null if you created it yourself."""
    projects: list[str] | None
    """Projects that the token is limited to, of those that you see; null if it is not limited."""
    expires_soon: bool
    """Whether it expires within 7 days."""


class TokenCreated(TokenOut):
    secret: str
    """The token, which is shown only once."""


class DeviceLoginIn(Input):
    client: Annotated[SafeStr, Field(min_length=1, max_length=128)]
    """What asks: "muster on host"."""


class DeviceLoginCreated(Output):
    device_code: str
    """Secret to ask for the token with."""
    user_code: str
    """What the page shows, too: "BCDF-GHJK"."""
    url: str
    """Page on which a user lets the caller in."""
    expires_in_s: int
    interval_s: int
    """Seconds between two questions for the token."""


class DeviceTokenIn(Input):
    device_code: Secret


class DeviceLoginOut(Output):
    user_code: str
    client: str
    remote_addr: str
    created_at: dt.datetime
    expires_at: dt.datetime


class JoinTokenIn(Input):
    pool: Identifier = "default"
    uses: Annotated[int, Field(ge=1, le=10_000)] = 1
    expires_in_s: Annotated[int, Field(ge=60, le=7 * 86_400)] | None = None
    """Lifetime in seconds; 600 if left out. If created with an API token, it expires with that one
    at the latest."""


class JoinTokenOut(Output):
    id: int
    prefix: str
    pool: str
    uses_left: int
    created_at: dt.datetime
    expires_at: dt.datetime


class JoinTokenCreated(JoinTokenOut):
    secret: str
    command: str
    """Command to run on the new node."""
    server_url: str
    """Address of the server in that command."""
    this_machine_only: bool
    """Whether the address in the command is a loopback address, at which no other machine reaches the
    server. If so, set MUSTER_PUBLIC_URL (`muster up --address`) and create another token."""


class LiveTicket(Output):
    ticket: str
    """Ticket that opens the live channel once, within a minute: /api/v1/live?ticket=…"""


class AuditOut(Output):
    id: int
    at: dt.datetime
    actor: str
    """"user:ada", "token:12 (ada)", "agent:node-1", "system", "anonymous"."""
    action: str
    subject: str
    remote_addr: str
    detail: dict[str, Any]
