"""Routes of notifications; see docs/guides/notifications.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from muster_server.api.http.deps import By, Config, Cursor, Db, Id, Limit
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

router = APIRouter(tags=["notifications"], prefix="/notifications")

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
        has_mail_server=bool(config.smtp_host),
        services=sorted(SERVICES),
        is_encrypted=is_encrypted,
    )


@router.get("/inbox")
def list_inbox(
    db: Db, by: By, unread: bool = False, cursor: Cursor = None, limit: Limit = 50
) -> Page[InboxEntryOut]:
    """List your inbox, newest first. It keeps the latest 1,000 entries of 90 days."""
    with db.read() as session:
        return inbox.list_inbox(session, by, unread=unread, cursor=cursor, limit=limit)


@router.get("/inbox/count")
def count_inbox(db: Db, by: By) -> InboxCountOut:
    """Count the entries of your inbox that you have not read."""
    with db.read() as session:
        return inbox.count_unread(session, by)


@router.post("/inbox/read")
def read_inbox(body: InboxReadIn, db: Db, by: By) -> InboxCountOut:
    """Mark entries of your inbox as read, or all of them."""
    with db.transaction() as session:
        return inbox.mark_read(session, by, body.ids)


@router.get("/rules", operation_id="list_notification_rules")
def list_rules(
    db: Db, by: By, project: OfProject = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[NotificationRuleOut]:
    """List your notification rules, or those of a project."""
    with db.read() as session:
        return rules.list_rules(session, by, project, cursor=cursor, limit=limit)


@router.post("/rules", status_code=201, operation_id="create_notification_rule")
def create_rule(body: NotificationRuleIn, db: Db, by: By) -> NotificationRuleOut:
    """Create a rule of your own or, as an administrator, of a project."""
    with db.transaction() as session:
        return rules.create_rule(session, by, body)


@router.patch("/rules/{rule_id}", operation_id="update_notification_rule")
def update_rule(rule_id: Id, body: NotificationRulePatch, db: Db, by: By) -> NotificationRuleOut:
    """Change a rule."""
    with db.transaction() as session:
        return rules.update_rule(session, by, rule_id, body)


@router.delete("/rules/{rule_id}", status_code=204, operation_id="delete_notification_rule")
def delete_rule(rule_id: Id, db: Db, by: By) -> None:
    """Delete a rule. What it has already caused is still sent."""
    with db.transaction() as session:
        rules.delete_rule(session, by, rule_id)


@router.get("/targets", operation_id="list_notification_targets")
def list_targets(
    db: Db, by: By, project: OfProject = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[NotificationTargetOut]:
    """List your notification targets, or those of a project. Addresses and secrets are in no
    answer."""
    with db.read() as session:
        return targets.list_targets(session, by, project, cursor=cursor, limit=limit)


@router.post("/targets", status_code=201, operation_id="create_notification_target")
def create_target(
    body: NotificationTargetIn, db: Db, by: By, config: Config
) -> NotificationTargetMade:
    """Create a target of your own or, as an administrator, of a project."""
    with db.transaction() as session:
        return targets.create_target(session, by, body, config)


@router.patch("/targets/{target_id}", operation_id="update_notification_target")
def update_target(
    target_id: Id, body: NotificationTargetPatch, db: Db, by: By, config: Config
) -> NotificationTargetMade:
    """Change a target. Disabling it drops what waits for it."""
    with db.transaction() as session:
        return targets.update_target(session, by, target_id, body, config)


@router.delete("/targets/{target_id}", status_code=204, operation_id="delete_notification_target")
def delete_target(target_id: Id, db: Db, by: By) -> None:
    """Delete a target and its history. What waits for it is not sent."""
    with db.transaction() as session:
        targets.delete_target(session, by, target_id)


@router.post("/targets/{target_id}/test", status_code=204, operation_id="test_notification_target")
def test_target(target_id: Id, db: Db, by: By) -> None:
    """Send a test notification, after what already waits. The outcome is in the history."""
    with db.transaction() as session:
        targets.send_test(session, by, target_id)


@router.get("/targets/{target_id}/deliveries", operation_id="list_notification_deliveries")
def list_deliveries(
    target_id: Id, db: Db, by: By, cursor: Cursor = None, limit: Limit = 50
) -> Page[DeliveryOut]:
    """List what was sent to a target, newest first. It keeps the latest 1,000 messages of 30
    days."""
    with db.read() as session:
        return targets.list_deliveries(session, by, target_id, cursor=cursor, limit=limit)
