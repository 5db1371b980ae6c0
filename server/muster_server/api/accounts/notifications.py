"""Routes of notifications; see docs/guides/notifications.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from muster_server.api.http.deps import By, Config, Cursor, Id, Limit
from muster_server.api.http.routing import Read, Router, Write
from muster_server.domain.notifications.services import SERVICES
from muster_server.errors import Conflict
from muster_server.schemas.accounts.notifications import (
    DeliveryOut,
    InboxCountOut,
    InboxEntryOut,
    InboxReadIn,
    NotificationOptionsOut,
    NotificationRuleIn,
    NotificationRuleOut,
    NotificationRulePatch,
    NotificationTargetIn,
    NotificationTargetMade,
    NotificationTargetOut,
    NotificationTargetPatch,
)
from muster_server.schemas.base import Page
from muster_server.security.encryption import key_ring
from muster_server.services.notifications import inbox, rules, targets

router = Router(tags=["notifications"], prefix="/notifications")

OfProject = Annotated[
    str | None,
    Query(max_length=128, description="Project that owns them; left out: those of your own."),
]


@router.get("/options", operation_id="get_notification_options")
def get_options(config: Config) -> NotificationOptionsOut:
    """Return what rules and targets can use on this server."""
    try:
        key_ring(config)
        is_encrypted = True
    except Conflict:
        is_encrypted = False
    return NotificationOptionsOut(
        has_mail_server=bool(config.smtp_host), services=sorted(SERVICES), is_encrypted=is_encrypted
    )


@router.get("/inbox")
def list_inbox(
    session: Read, by: By, unread: bool = False, cursor: Cursor = None, limit: Limit = 50
) -> Page[InboxEntryOut]:
    """List your inbox, newest first. It keeps the latest 1,000 entries of 90 days."""
    return inbox.list_inbox(session, by, unread=unread, cursor=cursor, limit=limit)


@router.get("/inbox/count")
def count_inbox(session: Read, by: By) -> InboxCountOut:
    """Count the entries of your inbox that you have not read."""
    return inbox.count_unread(session, by)


@router.post("/inbox/read")
def read_inbox(body: InboxReadIn, session: Write, by: By) -> InboxCountOut:
    """Mark entries of your inbox as read, or all of them."""
    return inbox.mark_read(session, by, body.ids)


@router.get("/rules", operation_id="list_notification_rules")
def list_rules(
    session: Read, by: By, project: OfProject = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[NotificationRuleOut]:
    """List your notification rules, or those of a project."""
    return rules.list_rules(session, by, project, cursor=cursor, limit=limit)


@router.post("/rules", status_code=201, operation_id="create_notification_rule")
def create_rule(body: NotificationRuleIn, session: Write, by: By) -> NotificationRuleOut:
    """Create a rule of your own or, as an administrator, of a project."""
    return rules.create_rule(session, by, body)


@router.patch("/rules/{rule_id}", operation_id="update_notification_rule")
def update_rule(
    rule_id: Id, body: NotificationRulePatch, session: Write, by: By
) -> NotificationRuleOut:
    """Change a rule."""
    return rules.update_rule(session, by, rule_id, body)


@router.delete("/rules/{rule_id}", status_code=204, operation_id="delete_notification_rule")
def delete_rule(rule_id: Id, session: Write, by: By) -> None:
    """Delete a rule. What it has already caused is still sent."""
    rules.delete_rule(session, by, rule_id)


@router.get("/targets", operation_id="list_notification_targets")
def list_targets(
    session: Read, by: By, project: OfProject = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[NotificationTargetOut]:
    """List your notification targets, or those of a project. Addresses and secrets are in no
    answer."""
    return targets.list_targets(session, by, project, cursor=cursor, limit=limit)


@router.post("/targets", status_code=201, operation_id="create_notification_target")
def create_target(
    body: NotificationTargetIn, session: Write, by: By, config: Config
) -> NotificationTargetMade:
    """Create a target of your own or, as an administrator, of a project."""
    return targets.create_target(session, by, body, config)


@router.patch("/targets/{target_id}", operation_id="update_notification_target")
def update_target(
    target_id: Id, body: NotificationTargetPatch, session: Write, by: By, config: Config
) -> NotificationTargetMade:
    """Change a target. Disabling it drops what waits for it."""
    return targets.update_target(session, by, target_id, body, config)


@router.delete("/targets/{target_id}", status_code=204, operation_id="delete_notification_target")
def delete_target(target_id: Id, session: Write, by: By) -> None:
    """Delete a target and its history. What waits for it is not sent."""
    targets.delete_target(session, by, target_id)


@router.post("/targets/{target_id}/test", status_code=204, operation_id="test_notification_target")
def test_target(target_id: Id, session: Write, by: By) -> None:
    """Send a test notification, after what already waits. The outcome is in the history."""
    targets.send_test(session, by, target_id)


@router.get("/targets/{target_id}/deliveries", operation_id="list_notification_deliveries")
def list_deliveries(
    target_id: Id, session: Read, by: By, cursor: Cursor = None, limit: Limit = 50
) -> Page[DeliveryOut]:
    """List what was sent to a target, newest first. It keeps the latest 1,000 messages of 30
    days."""
    return targets.list_deliveries(session, by, target_id, cursor=cursor, limit=limit)
