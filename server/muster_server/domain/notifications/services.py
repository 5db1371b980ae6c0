"""The services that can be reached through Apprise, by the scheme of their address.

Apprise knows many more. Not in this list are those that run something on the server (`syslog`,
`dbus`, `windows`), that open connections other than by HTTP (`mqtt`, `xmpp`, `rsyslog`), that read
files, and `mailto` and `json`, for which targets of their own exist.
"""

from __future__ import annotations

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


def service_of(url: str) -> str | None:
    """Return the name of the service that an Apprise URL leads to; None if it may not be used."""
    scheme, separator, rest = url.strip().partition("://")
    return SERVICES.get(scheme.lower()) if separator and rest else None


def problem_of(url: str) -> str | None:
    """Return what is wrong with an Apprise URL, as it follows its name; None if it may be used."""
    if service_of(url) is None:
        return "is no address of a service that can be used"
    query = parse_qsl(url.partition("?")[2], keep_blank_values=True)
    if any("template" in key.lower() for key, _ in query):
        return "must not name a template, which is a file of the server"
    return None
