"""Notifications: rules, targets, the inbox, and the history of a target."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.notifications.kinds import NotificationKind, RuleKind

from ..base import Input, Name, Output, SafeStr

EMAIL_MAX_CHARS = 254
RECIPIENTS_MAX = 20
URL_MAX_CHARS = 2048
TARGETS_PER_RULE_MAX = 20

TargetKind = Literal["email", "webhook", "apprise"]
ProjectName = Annotated[SafeStr, Field(max_length=128)]
Secret = Annotated[SafeStr, Field(max_length=1024)]
Url = Annotated[SafeStr, Field(min_length=1, max_length=URL_MAX_CHARS)]
EmailAddress = Annotated[
    SafeStr,
    Field(max_length=EMAIL_MAX_CHARS, pattern=r"^[^@\s<>,;:\"()\[\]\\]+@[^@\s<>,;:\"()\\]+$"),
]


class MailServerIn(Input):
    host: Annotated[SafeStr, Field(min_length=1, max_length=253, pattern=r"^[^\s/@]+$")]
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`tls` from the first byte (port 465 as a rule); `none` sends everything in the clear."""
    username: Annotated[SafeStr, Field(max_length=256)] = ""
    password: Annotated[Secret, Field(repr=False)] = ""
    """It is in no answer."""
    sender: EmailAddress
    """Address that the mail comes from."""


class EmailIn(Input):
    kind: Literal["email"]
    to: Annotated[list[EmailAddress], Field(min_length=1, max_length=RECIPIENTS_MAX)]
    server: MailServerIn | None = None
    """Mail server to use; without one that of the installation (`MUSTER_SMTP_HOST`)."""


class WebhookIn(Input):
    kind: Literal["webhook"]
    url: Annotated[Url, Field(repr=False)]
    """Address with https:// or http://. It is in no answer, because such addresses often are secret."""
    secret: Annotated[Secret | None, Field(repr=False)] = None
    """Secret that signs, as `whsec_` and 24 to 64 bytes in base64; without one the server makes one
    and shows it once."""


class AppriseIn(Input):
    kind: Literal["apprise"]
    url: Annotated[Url, Field(repr=False)]
    """Address of a service in the notation of Apprise, such as slack://… or ntfy://…. It is in no
    answer."""


TargetConfig = Annotated[EmailIn | WebhookIn | AppriseIn, Field(discriminator="kind")]


class NotificationTargetIn(Input):
    name: Name
    project: ProjectName | None = None
    """Project that owns the target; without one you do."""
    config: TargetConfig


class NotificationTargetPatch(Input):
    """What is left out stays as it is."""

    name: Name | None = None
    is_enabled: bool | None = None
    config: TargetConfig | None = None
    """Replaces the address and the secrets. The kind cannot change."""


class NotificationTargetOut(Output):
    id: int
    name: str
    project: str | None
    """Project that owns it; null for one of your own."""
    kind: TargetKind
    summary: str
    """What may be shown of the address: recipients, the host of a webhook, the name of a service."""
    is_enabled: bool
    disabled_reason: str
    """Why Muster disabled it; "" when a person did, or when it is enabled."""
    num_waiting: int
    """Number of notifications that it has not received yet."""
    num_dropped: int
    """Number of notifications that were dropped because too many waited."""
    num_failures: int
    """Number of failed attempts since the last success."""
    last_error: str
    last_sent_at: dt.datetime | None
    next_try_at: dt.datetime | None
    """When the next attempt is made after a failure; null when nothing failed."""
    changed_at: dt.datetime
    changed_by: str


class NotificationTargetMade(Output):
    target: NotificationTargetOut
    secret: str | None
    """The secret that signs a webhook, if the server made it. It is shown only here."""


class NotificationRuleIn(Input):
    owner_project: ProjectName | None = None
    """Project that owns the rule, which is then about all its experiments; without one you own it."""
    whose: Literal["mine", "all"] = "mine"
    """Whether a rule of yours is about your own experiments, or about everybody's."""
    project: ProjectName | None = None
    """Project that a rule of yours is limited to."""
    kinds: Annotated[list[RuleKind], Field(min_length=1, max_length=20)]
    inbox: bool = True
    """Whether you get it in the inbox of the dashboard. A rule of a project has no inbox."""
    target_ids: Annotated[
        list[Annotated[int, Field(ge=1, lt=2**31)]], Field(max_length=TARGETS_PER_RULE_MAX)
    ] = []
    is_enabled: bool = True


class NotificationRulePatch(Input):
    """What is left out stays as it is."""

    whose: Literal["mine", "all"] | None = None
    project: ProjectName | None = None
    """Project that the rule is limited to; null for every project."""
    kinds: Annotated[list[RuleKind], Field(min_length=1, max_length=20)] | None = None
    inbox: bool | None = None
    target_ids: (
        Annotated[
            list[Annotated[int, Field(ge=1, lt=2**31)]], Field(max_length=TARGETS_PER_RULE_MAX)
        ]
        | None
    ) = None
    is_enabled: bool | None = None


class NotificationRuleOut(Output):
    id: int
    owner_project: str | None
    whose: Literal["mine", "all"]
    project: str | None
    kinds: list[RuleKind]
    inbox: bool
    target_ids: list[int]
    is_enabled: bool
    changed_at: dt.datetime


class DeliveryOut(Output):
    id: int
    message_id: str
    """Id that the receiver sees, the same in every attempt."""
    state: Literal["sending", "sent", "failed"]
    title: str
    num_notifications: int
    """More than 1 for a digest."""
    num_tries: int
    created_at: dt.datetime
    last_tried_at: dt.datetime | None
    ended_at: dt.datetime | None
    error: str
    """Why the last attempt failed; "" while one is under way, and after one that did not."""


class InboxEntryOut(Output):
    id: int
    is_read: bool
    at: dt.datetime
    kind: NotificationKind
    level: Literal["info", "warning", "error"]
    title: str
    message: str
    path: str
    """Path of the page about it, such as "/trials/12"."""
    project: str | None
    experiment_id: int | None
    experiment_name: str | None
    trial_id: int | None
    trial_no: int | None
    node_id: str | None
    node_name: str | None


class InboxCountOut(Output):
    num_unread: int


class InboxReadIn(Input):
    ids: Annotated[list[Annotated[int, Field(ge=1)]], Field(max_length=200)] | None = None
    """Entries to mark as read; left out or null: all of them."""


class NotificationOptionsOut(Output):
    """What can be chosen for rules and targets on this server."""

    has_mail_server: bool
    """Whether the installation has a mail server, so that an e-mail target needs none of its own."""
    services: list[str]
    """Schemes of Apprise addresses that can be used, such as "slack"."""
    is_encrypted: bool
    """Whether the server has a key to encrypt secrets with; without one it takes no targets."""
