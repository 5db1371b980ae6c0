"""The address and the secrets of a target: checked, summarized, and stored encrypted as JSON."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from muster_server.domain.notifications.addresses import is_never_allowed, parse_networks
from muster_server.domain.notifications.services import SERVICES, host_of, problem_of, service_of
from muster_server.errors import FieldProblem, InvalidRequest
from muster_server.schemas.accounts.notifications import (
    AppriseIn,
    EmailIn,
    TargetConfig,
    WebhookIn,
)
from muster_server.settings import Settings

SUMMARY_MAX_CHARS = 256
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix that Standard Webhooks gives its secrets
SECRET_MIN_BYTES = 24
SECRET_MAX_BYTES = 64

_CONFIG: TypeAdapter[TargetConfig] = TypeAdapter(TargetConfig)


def check_config(config: TargetConfig, settings: Settings) -> None:
    """Raise InvalidRequest, without repeating a secret, for an address that cannot be used."""
    match config:
        case EmailIn(server=None):
            if not settings.smtp_host:
                raise _invalid(
                    "config.server",
                    "is needed: this installation has no mail server of its own",
                    "set MUSTER_SMTP_HOST for the server and the worker, or name a mail server here",
                )
        case WebhookIn():
            _check_url(config.url)
            if config.secret is not None:
                secret_bytes(config.secret)
    if refused := refusal_of(config, settings):
        raise _invalid(refused.path, refused.problem, refused.hint)


@dataclass(frozen=True)
class RefusedConfig:
    """Why nothing is ever sent to an address. It repeats no secret."""

    path: str
    problem: str
    """What is wrong, as it follows the path."""
    hint: str


def refusal_of(config: TargetConfig, settings: Settings) -> RefusedConfig | None:
    """Return why nothing is ever sent to an address, when it is entered and again when something is
    to be sent; None if only the connection decides."""
    if isinstance(config, AppriseIn) and (problem := problem_of(config.url)):
        names = ", ".join(sorted(SERVICES))
        is_known = service_of(config.url) is not None
        hint = "leave it out" if is_known else f"the address begins with one of {names}"
        return RefusedConfig("config.url", problem, hint)
    path, host = _host_of(config)
    networks = parse_networks(settings.notify_allowed_networks)
    if host is None or not is_never_allowed(host, networks):
        return None
    return RefusedConfig(
        path,
        "is not a public address",
        "an administrator can allow its network with MUSTER_NOTIFY_ALLOWED_NETWORKS",
    )


def _host_of(config: TargetConfig) -> tuple[str, str | None]:
    """Return the field with the host that is connected to, and that host; None if it is not the
    user's choice."""
    match config:
        case EmailIn():
            return "config.server.host", config.server.host if config.server else None
        case WebhookIn():
            return "config.url", urlsplit(config.url).hostname
        case AppriseIn():
            return "config.url", host_of(config.url)


def summary_of(config: TargetConfig) -> str:
    """Return what may be shown of an address."""
    match config:
        case EmailIn():
            text = ", ".join(config.to)
        case WebhookIn():
            parts = urlsplit(config.url)
            text = f"{parts.scheme}://{parts.hostname}"
        case AppriseIn():
            text = service_of(config.url) or ""
    return text if len(text) <= SUMMARY_MAX_CHARS else text[: SUMMARY_MAX_CHARS - 1] + "…"


def with_secret(config: TargetConfig) -> tuple[TargetConfig, str | None]:
    """Return the configuration with a secret for a webhook that has none, and that secret."""
    if isinstance(config, WebhookIn) and config.secret is None:
        made = SECRET_PREFIX + base64.b64encode(os.urandom(32)).decode()
        return config.model_copy(update={"secret": made}), made
    return config, None


def dump_config(config: TargetConfig) -> str:
    return config.model_dump_json()


def load_config(text: str) -> TargetConfig:
    """Return what `dump_config` was given. Raises ValueError."""
    return _CONFIG.validate_json(text)


def secret_bytes(secret: str) -> bytes:
    """Return the key of a secret such as "whsec_…". Raises InvalidRequest."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not SECRET_MIN_BYTES <= len(key) <= SECRET_MAX_BYTES:
        raise _invalid(
            "config.secret",
            f"must be {SECRET_PREFIX} and {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES} bytes in base64",
            "leave it out, and the server makes one",
        )
    return key


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or not url.isascii():
        raise _invalid("config.url", "must look like https://example.com/path", None)
    if parts.username is not None or parts.password is not None:
        raise _invalid(
            "config.url",
            "must not contain a user name or a password",
            "the signature identifies Muster",
        )


def _invalid(path: str, problem: str, hint: str | None) -> InvalidRequest:
    return InvalidRequest(
        "notifications.bad_target",
        f"The target cannot be used: {path} {problem}.",
        fields=[FieldProblem(path, problem, hint)],
    )
