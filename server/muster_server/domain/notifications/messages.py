"""What a message says: a title and a text for people, and a body for programs."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .kinds import TITLES, NotificationKind
from .schedule import DIGEST_SHOWN

TITLE_MAX_CHARS = 200
TEXT_MAX_CHARS = 16_000
"""Most characters of a text; chat services cut earlier on their own."""


@dataclass(frozen=True, kw_only=True)
class Notification:
    """One notification, as messages need it."""

    id: int
    at: dt.datetime
    kind: NotificationKind
    level: str
    message: str
    project: str | None = None
    experiment_id: int | None = None
    experiment_name: str | None = None
    trial_id: int | None = None
    trial_no: int | None = None
    node_id: str | None = None
    node_name: str | None = None


def path_of(notification: Notification) -> str:
    """Return the path of the page about it, such as "/trials/12"."""
    if notification.trial_id is not None:
        return f"/trials/{notification.trial_id}"
    if notification.experiment_id is not None:
        return f"/experiments/{notification.experiment_id}"
    if notification.node_id is not None:
        return f"/nodes/{notification.node_id}"
    if notification.kind == "summary.weekly":
        return "/goodput"
    return "/settings?tab=projects" if notification.project else "/settings?tab=notifications"


def title_of(notifications: Sequence[Notification]) -> str:
    """Return one line: what happened to what, or the numbers of each kind in a digest."""
    if len(notifications) == 1:
        (one,) = notifications
        subject = _subject(one)
        title = TITLES[one.kind] + (f": {subject}" if subject else "")
    else:
        counts = [f"{num:,} × {TITLES[kind]}" for kind, num in _counts(notifications)]
        title = f"{len(notifications):,} notifications: {', '.join(counts)}"
    title = " ".join(title.split())
    return title if len(title) <= TITLE_MAX_CHARS else title[: TITLE_MAX_CHARS - 1] + "…"


def text_of(notifications: Sequence[Notification], *, base_url: str) -> str:
    """Return the text for people: each notification with its link; of a digest the first ones.

    base_url: address of the dashboard without a slash at the end.
    """
    shown = notifications[:DIGEST_SHOWN]
    parts = [_paragraph(one, base_url, with_title=len(notifications) > 1) for one in shown]
    rest = len(notifications) - len(shown)
    if rest:
        parts.append(f"… and {rest:,} more: {base_url}/experiments")
    text = "\n\n".join(parts)
    return text if len(text) <= TEXT_MAX_CHARS else text[: TEXT_MAX_CHARS - 1] + "…"


def body_of(notifications: Sequence[Notification], *, base_url: str) -> dict[str, Any]:
    """Return the JSON object that a webhook gets; docs/guides/notifications.md describes it."""
    if len(notifications) == 1:
        (one,) = notifications
        return {"type": one.kind, "timestamp": _iso(one.at), "data": _data(one, base_url)}
    return {
        "type": "digest",
        "timestamp": _iso(notifications[-1].at),
        "data": {
            "count": len(notifications),
            "counts": dict(_counts(notifications)),
            "notifications": [
                {"type": one.kind, "timestamp": _iso(one.at), **_data(one, base_url)}
                for one in notifications[:DIGEST_SHOWN]
            ],
        },
    }


def level_of(notifications: Sequence[Notification]) -> str:
    """Return the most serious level among them: "info", "warning" or "error"."""
    order = ("info", "warning", "error")
    return max((one.level for one in notifications), key=order.index, default="info")


def _counts(notifications: Sequence[Notification]) -> list[tuple[NotificationKind, int]]:
    return Counter(one.kind for one in notifications).most_common()


def _subject(one: Notification) -> str:
    if one.experiment_name is not None:
        where = f"{one.experiment_name} (#{one.experiment_id})"
        return f"trial {one.trial_no} of {where}" if one.trial_no is not None else where
    return one.node_name or one.node_id or (f"project {one.project}" if one.project else "")


def _paragraph(one: Notification, base_url: str, *, with_title: bool) -> str:
    lines = [title_of([one])] if with_title else []
    lines.append(one.message)
    if not with_title and one.project:
        lines.append(f"Project: {one.project}")
    lines.append(base_url + path_of(one))
    return "\n".join(lines)


def _data(one: Notification, base_url: str) -> dict[str, Any]:
    return {
        "id": one.id,
        "level": one.level,
        "title": title_of([one]),
        "message": one.message,
        "project": one.project,
        "experiment": None
        if one.experiment_id is None
        else {"id": one.experiment_id, "name": one.experiment_name},
        "trial": None if one.trial_id is None else {"id": one.trial_id, "no": one.trial_no},
        "node": None if one.node_id is None else {"id": one.node_id, "name": one.node_name},
        "url": base_url + path_of(one),
    }


def _iso(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
