"""Receivers of notifications on loopback: a web server with faults, and a real mail server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DRIP_EVERY_S = 0.02


@dataclass(frozen=True)
class ReceivedWebhook:
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.raw)
        return value

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_with(self, secret: str) -> bool:
        """Return whether the signature is that of Standard Webhooks, computed here anew."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        content = b".".join(
            (self.id.encode(), self.headers["webhook-timestamp"].encode(), self.raw)
        )
        expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        return self.headers["webhook-signature"] == f"v1,{expected}"


class WebhookReceiver:
    """A web server that keeps what is posted to it.

    answers: status codes of the next requests, in order; afterwards `status`. What is refused is
    kept in `refused`.
    """

    def __init__(self) -> None:
        self.received: list[ReceivedWebhook] = []
        self.refused: list[ReceivedWebhook] = []
        self.answers: list[int] = []
        self.status = 204
        self.headers: dict[str, str] = {}
        self.body = b""
        self.drips = False
        """Whether the answer comes a byte at a time and never ends."""
        self.is_closing = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def webhook_receiver() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            one = ReceivedWebhook({k.lower(): v for k, v in self.headers.items()}, raw)
            status = receiver.answers.pop(0) if receiver.answers else receiver.status
            if receiver.drips:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                while not receiver.is_closing.is_set():
                    try:
                        self.wfile.write(b"a")
                        self.wfile.flush()
                    except OSError:
                        return
                    time.sleep(DRIP_EVERY_S)
                return
            (receiver.received if status < 300 else receiver.refused).append(one)
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(receiver.body)))
            self.end_headers()
            self.wfile.write(receiver.body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.is_closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class MailReceiver:
    """What a mail server accepted. `refusal` is its answer to a message, if it accepts none."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.refusal: str | None = None
        self.port = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        if self.refusal is not None:
            return self.refusal
        mail = BytesParser(policy=default).parsebytes(envelope.content)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 OK"


@contextmanager
def mail_receiver(*, login: tuple[str, str] | None = None) -> Iterator[MailReceiver]:
    """login: user name and password that are asked for; None: everybody may send."""
    import aiosmtpd.smtp

    receiver = MailReceiver()

    def authenticate(
        _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any
    ) -> aiosmtpd.smtp.AuthResult:
        given = (data.login.decode(), data.password.decode())
        return aiosmtpd.smtp.AuthResult(success=given == login)

    loop = asyncio.new_event_loop()

    def make() -> aiosmtpd.smtp.SMTP:
        return aiosmtpd.smtp.SMTP(
            receiver,
            authenticator=authenticate if login else None,
            auth_required=login is not None,
            auth_require_tls=False,
            loop=loop,
        )

    server = loop.run_until_complete(loop.create_server(make, "127.0.0.1", 0))
    receiver.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(server.wait_closed())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
