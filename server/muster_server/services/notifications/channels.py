"""Sending one message to one receiver: e-mail, signed webhook, Apprise.

Only the Celery worker calls this. `requests` and `apprise` are imported when the first message needs
them, so that no other process pays for them.
"""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import hashlib
import hmac
import json
import logging
import smtplib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from muster import __version__
from muster_server.domain.notifications.addresses import parse_networks
from muster_server.domain.notifications.messages import (
    Notification,
    body_of,
    level_of,
    text_of,
    title_of,
)
from muster_server.schemas.accounts.notifications import (
    AppriseIn,
    EmailIn,
    MailServerIn,
    TargetConfig,
    WebhookIn,
)
from muster_server.settings import Settings

from .configs import refusal_of, secret_bytes
from .guard import AddressRefused, SendTimeout, guarded, is_guarded

SEND_TIMEOUT_S = 30.0
"""Seconds that one attempt may take, from connecting to the end of the answer."""
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 15.0
"""Seconds without a byte after which an answer counts as missing."""
ANSWER_MAX_BYTES = 65_536
"""Most bytes of an answer that are read; a longer one is not needed, and is cut off."""
ERROR_MAX_CHARS = 500


class SendFailed(Exception):
    """A message that was not accepted, with a sentence for the history."""

    def __init__(
        self,
        reason: str,
        *,
        retry_after: dt.timedelta | None = None,
        is_gone: bool = False,
        is_final: bool = False,
    ) -> None:
        super().__init__(reason[:ERROR_MAX_CHARS])
        self.retry_after = retry_after
        """Pause that the receiver asked for."""
        self.is_gone = is_gone
        """Whether the receiver said that it wants nothing more (410 Gone)."""
        self.is_final = is_final
        """Whether this message is refused each time that it is sent."""


@dataclass(frozen=True, kw_only=True)
class OutgoingMessage:
    """A message with the id under which it is sent until it arrives."""

    id: str
    notifications: Sequence[Notification]
    at: dt.datetime
    """Time of this attempt."""


def send(config: TargetConfig, message: OutgoingMessage, settings: Settings) -> None:
    """Send a message. Raises SendFailed when the receiver did not accept it in time."""
    if refused := refusal_of(config, settings):
        raise SendFailed(f"The target {refused.problem}; {refused.hint}.", is_final=True)
    networks = parse_networks(settings.notify_allowed_networks)
    is_trusted = isinstance(config, EmailIn) and config.server is None
    try:
        with guarded(None if is_trusted else networks, timeout_s=SEND_TIMEOUT_S):
            match config:
                case EmailIn():
                    _send_email(config, message, settings)
                case WebhookIn():
                    _send_webhook(config, message, settings)
                case AppriseIn():
                    _send_apprise(config, message, settings)
    except (AddressRefused, SendTimeout) as error:
        is_final = isinstance(error, AddressRefused)
        raise SendFailed(f"{error}.", is_final=is_final) from error


# ---------------------------------------------------------------- e-mail


def _send_email(config: EmailIn, message: OutgoingMessage, settings: Settings) -> None:
    server = config.server or _own_mail_server(settings)
    mail = EmailMessage()
    mail["Subject"] = f"[Muster] {title_of(message.notifications)}"
    mail["From"] = server.sender
    mail["To"] = ", ".join(config.to)
    mail["Date"] = email.utils.format_datetime(message.at)
    mail["Message-ID"] = f"<{message.id}@{server.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text_of(message.notifications, base_url=settings.browser_url()))
    context = ssl.create_default_context()
    try:
        with _connect(server, context) as smtp:
            if server.security == "starttls":
                smtp.starttls(context=context)
            if server.username:
                smtp.login(server.username, server.password)
            refused = smtp.send_message(mail, from_addr=server.sender, to_addrs=list(config.to))
    except (OSError, smtplib.SMTPException) as error:
        raise SendFailed(f"{server.host}:{server.port}: {_smtp_reason(error)}") from error
    if refused:
        raise SendFailed(f"{server.host} refused {', '.join(sorted(refused))}.")


def _own_mail_server(settings: Settings) -> MailServerIn:
    if not settings.smtp_host:
        raise SendFailed("There is no mail server: MUSTER_SMTP_HOST is not set for the worker.")
    return MailServerIn(
        host=settings.smtp_host,
        port=settings.smtp_port,
        security=settings.smtp_security,
        username=settings.smtp_username,
        password=settings.resolved_smtp_password(),
        sender=settings.smtp_sender,
    )


def _connect(server: MailServerIn, context: ssl.SSLContext) -> smtplib.SMTP:
    if server.security == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=READ_TIMEOUT_S, context=context)
    return smtplib.SMTP(server.host, server.port, timeout=READ_TIMEOUT_S)


def _smtp_reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        text = error.smtp_error
        words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return f"{error.smtp_code} {words}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "; ".join(
            f"{who}: {code} {text.decode(errors='replace')}"
            for who, (code, text) in error.recipients.items()
        )
    return str(error) or type(error).__name__


# ---------------------------------------------------------------- webhook


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a webhook as Standard Webhooks defines it: "v1," and the base64 of
    the HMAC-SHA256 of "id.timestamp.body"."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret_bytes(secret), content, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _send_webhook(config: WebhookIn, message: OutgoingMessage, settings: Settings) -> None:
    import requests

    _bound_requests()
    body = json.dumps(
        body_of(message.notifications, base_url=settings.browser_url()), separators=(",", ":")
    ).encode()
    timestamp = int(message.at.timestamp())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Muster/{__version__}",
        "webhook-id": message.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(config.secret or "", message.id, timestamp, body),
    }
    host = urlsplit(config.url).hostname
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy would connect to addresses that nobody checks
            answer = session.post(
                config.url,
                data=body,
                headers=headers,
                timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
            )
    except requests.RequestException as error:
        # Its text may contain the address, which is secret.
        raise SendFailed(f"{host}: {_request_reason(error)}.") from error
    if 200 <= answer.status_code < 300:
        return
    hint = " (redirects are not followed)" if 300 <= answer.status_code < 400 else ""
    raise SendFailed(
        f"{host} answered {answer.status_code} {answer.reason}{hint}.",
        retry_after=_retry_after(answer.headers.get("Retry-After"), message.at),
        is_gone=answer.status_code == 410,
    )


def _request_reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return "the certificate was not accepted"
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {READ_TIMEOUT_S:g} s"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection (refused, not found or ended)"
    return type(error).__name__


def _retry_after(text: str | None, now: dt.datetime) -> dt.timedelta | None:
    """Return the pause that a Retry-After header asks for; None for one that cannot be read."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return dt.timedelta(seconds=min(int(text[:9]), 10**8))
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else max(at - now, dt.timedelta(0))


# ---------------------------------------------------------------- Apprise


def _send_apprise(config: AppriseIn, message: OutgoingMessage, settings: Settings) -> None:
    import apprise

    _bound_requests()
    levels = {
        "info": apprise.NotifyType.INFO,
        "warning": apprise.NotifyType.WARNING,
        "error": apprise.NotifyType.FAILURE,
    }
    asset = apprise.AppriseAsset(
        app_id="Muster",
        app_desc="Muster",
        app_url=settings.browser_url(),
        plugin_paths=[],
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        http_redirects=False,
    )
    service = apprise.Apprise.instantiate(config.url, asset=asset)
    # However it was written, a template or an attachment would be read and sent.
    if service is None or any(getattr(service, name, None) for name in ("template", "attach")):
        raise SendFailed("The address is not one that its service accepts.", is_final=True)
    with apprise.LogCapture(level=logging.WARNING) as captured:  # type: ignore[no-untyped-call]
        # Not Apprise.notify: that may send from another thread, which nobody guards.
        is_sent = service.notify(
            title=title_of(message.notifications),
            body=text_of(message.notifications, base_url=settings.browser_url()),
            notify_type=levels[level_of(message.notifications)],
            body_format=apprise.NotifyFormat.TEXT,
        )
        reason = captured.getvalue() if captured is not None else ""
    if not is_sent:
        raise SendFailed(_masked(reason, config.url) or "The service did not accept it.")


def _masked(text: str, url: str) -> str:
    """Return the last line of a log without the parts of an address that may be secret."""
    lines = [line for line in text.splitlines() if line.strip()]
    shown = lines[-1].rpartition(" - ")[2].strip() if lines else ""
    rest = url.partition("://")[2]
    for part in sorted(
        {word for word in rest.replace("@", "/").replace(":", "/").split("/") if word},
        key=len,
        reverse=True,
    ):
        if len(part) >= 6:
            shown = shown.replace(part, "***")
    return shown


# ---------------------------------------------------------------- bounds


@lru_cache(maxsize=1)
def _bound_requests() -> None:
    """Have requests of a guarded thread follow no redirect and read no more than ANSWER_MAX_BYTES.

    Apprise makes its requests itself, and leaves both unbounded.
    """
    import requests

    original: Callable[..., Any] = requests.Session.send

    def send_bounded(session: Any, request: Any, **options: Any) -> Any:
        if not is_guarded():
            return original(session, request, **options)
        options |= {"allow_redirects": False, "stream": True}
        answer = original(session, request, **options)
        content = b""
        for piece in answer.iter_content(8192):
            content += piece
            if len(content) > ANSWER_MAX_BYTES:
                break
        answer._content = content[:ANSWER_MAX_BYTES]
        answer._content_consumed = True
        answer.close()
        return answer

    requests.Session.send = send_bounded  # type: ignore[assignment, method-assign]
