"""The services that can be reached through Apprise, by the scheme of their address.

Apprise knows many more. Not in this list are those that run something on the server (`syslog`,
`dbus`, `windows`), that open connections other than by HTTP (`mqtt`, `xmpp`, `rsyslog`), that read
files, and `mailto` and `json`, for which targets of their own exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

SERVICES: Mapping[str, str] = {
    "bark": "Bark",
    "barks": "Bark",
    "dingtalk": "DingTalk",
    "discord": "Discord",
    "feishu": "Feishu",
    "gchat": "Google Chat",
    "gotify": "Gotify",
    "gotifys": "Gotify",
    "lark": "Lark",
    "matrix": "Matrix",
    "matrixs": "Matrix",
    "mmost": "Mattermost",
    "mmosts": "Mattermost",
    "ntfy": "ntfy",
    "ntfys": "ntfy",
    "opsgenie": "Opsgenie",
    "pagerduty": "PagerDuty",
    "pbul": "Pushbullet",
    "pover": "Pushover",
    "rocket": "Rocket.Chat",
    "rockets": "Rocket.Chat",
    "slack": "Slack",
    "tgram": "Telegram",
    "wecombot": "WeCom",
    "workflow": "Microsoft Teams",
    "workflows": "Microsoft Teams",
    "webex": "Webex",
    "wxteams": "Webex",
    "zulip": "Zulip",
}


_OWN_SERVERS = frozenset(
    {
        *(
            "bark",
            "barks",
            "gotify",
            "gotifys",
            "matrix",
            "matrixs",
            "mmost",
            "mmosts",
            "ntfy",
            "ntfys",
        ),
        *("rocket", "rockets", "workflow", "workflows", "zulip"),
    }
)
"""Schemes whose address names a host that is connected to."""
_REFUSED_PARAMETERS = {
    "attach": "names a file or an address that would be sent along",
    "template": "names a file of the server",
    "file": "names a file",
}
"""Part of a parameter's name -> what it does, as it follows its name. The text of a notification is
Muster's alone: nothing is read or fetched for it."""


def service_of(url: str) -> str | None:
    """Return the name of the service that an Apprise URL leads to; None if it may not be used."""
    scheme, separator, rest = url.strip().partition("://")
    return SERVICES.get(scheme.lower()) if separator and rest else None


def problem_of(url: str) -> str | None:
    """Return what is wrong with an Apprise URL, as it follows its name; None if it may be used."""
    if service_of(url) is None:
        return "is no address of a service that can be used"
    query = parse_qsl(url.partition("?")[2].replace(";", "&"), keep_blank_values=True)
    for key, _ in query:
        for refused, what in _REFUSED_PARAMETERS.items():
            if refused in key.strip().lower():
                return f"must not have the parameter {refused}, which {what}"
    return None


def host_of(url: str) -> str | None:
    """Return the host of an Apprise URL to a server of one's own; None for a service that is at one
    place, where the same part of the address is a token."""
    scheme, _, rest = url.strip().partition("://")
    if scheme.lower() not in _OWN_SERVERS:
        return None
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if "@" not in authority and scheme.lower() in ("rocket", "rockets") and "@" in rest:
        # The token of a webhook comes first, and may contain a slash.
        authority = re.split(r"[/?#]", rest.partition("@")[2], maxsplit=1)[0]
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]
