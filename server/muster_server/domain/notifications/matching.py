"""Who is notified of what: the rules against one occurrence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .kinds import ADMIN_KINDS, PERSONAL_KINDS, PUBLIC_KINDS, NotificationKind

Whose = Literal["mine", "all"]


@dataclass(frozen=True, kw_only=True)
class NotificationRule:
    """A rule of a user, or of a project (then `user_id` is None)."""

    id: int
    user_id: int | None
    owner_project_id: int | None
    """Project that owns the rule; None for a rule of a user."""
    is_admin: bool
    """Whether the user is an administrator now; False for a rule of a project."""
    whose: Whose
    """Experiments that a user's rule is about: the user's own, or everybody's."""
    project_id: int | None
    """Project that a user's rule is limited to; None for every project."""
    kinds: frozenset[NotificationKind]
    inbox: bool
    target_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """What a notification would be about. A node that is lost belongs to no project."""

    kind: NotificationKind
    owner_id: int | None = None
    """User who owns the experiment; None when there is no experiment, or nobody owns it."""
    project_id: int | None = None


@dataclass(frozen=True)
class Recipients:
    """Users who get it in their inbox, and targets that it is sent to. Each is named once."""

    user_ids: tuple[int, ...]
    target_ids: tuple[int, ...]


def applies(rule: NotificationRule, occurrence: Occurrence) -> bool:
    """Return whether a rule is about this occurrence."""
    if occurrence.kind not in rule.kinds:
        return False
    if occurrence.kind in ADMIN_KINDS:
        return rule.is_admin
    if occurrence.kind in PUBLIC_KINDS:
        return rule.user_id is not None
    if occurrence.kind in PERSONAL_KINDS:
        return rule.user_id is not None and rule.user_id == occurrence.owner_id
    if rule.user_id is None:
        return rule.owner_project_id == occurrence.project_id
    if rule.project_id is not None and rule.project_id != occurrence.project_id:
        return False
    return rule.whose == "all" or rule.user_id == occurrence.owner_id


def recipients(rules: Iterable[NotificationRule], occurrence: Occurrence) -> Recipients:
    """Return who is notified. Several rules that name one target send to it once."""
    users: set[int] = set()
    targets: set[int] = set()
    for rule in rules:
        if applies(rule, occurrence):
            targets.update(rule.target_ids)
            if rule.inbox and rule.user_id is not None:
                users.add(rule.user_id)
    return Recipients(tuple(sorted(users)), tuple(sorted(targets)))
