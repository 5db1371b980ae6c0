"""OpenID providers on loopback: a public one, and one that says whatever a test wants."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey

from support.ports import free_port
from support.stack import wait_for

FIRST_KEY = RSAKey.generate_key(2048, {"kid": "first"})


class Person:
    """Somebody with a browser who signs in at a public provider."""

    def __init__(self, issuer: str, subject: str, **claims: Any) -> None:
        self.issuer, self.subject = issuer, subject
        self.say(**claims)

    def say(self, **claims: Any) -> None:
        """Change what the provider says of them."""
        url = f"{self.issuer}/users/{self.subject}"
        httpx.put(url, json=claims).raise_for_status()

    def leave(self) -> None:
        """The provider takes back what it has issued for them."""
        httpx.post(f"{self.issuer}/users/{self.subject}/revoke-tokens").raise_for_status()

    def allow(self, page: str) -> str:
        """Sign in on the provider's page, and return where it sends the browser."""
        return httpx.post(page, data={"sub": self.subject}).headers["location"]

    def deny(self, page: str) -> str:
        return httpx.post(page, data={"action": "deny"}).headers["location"]


@contextmanager
def public_provider() -> Iterator[str]:
    """Run the public provider, and yield its issuer."""
    port = free_port()
    issuer = f"http://localhost:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)]
    with subprocess.Popen(
        command,
        env={**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for("the provider", lambda: _answers(issuer), 60)
            yield issuer
        finally:
            process.terminate()


def _answers(issuer: str) -> bool:
    try:
        return httpx.get(f"{issuer}/.well-known/openid-configuration").is_success
    except httpx.TransportError:
        return False


class ScriptedProvider:
    """A provider whose answers a test changes.

    claims: overrides those of id_tokens; None takes one away. sign: makes a token of claims. tokens:
    overrides the answer of the token endpoint. away: closes every endpoint.
    """

    def __init__(self) -> None:
        self.key = FIRST_KEY
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.status = 200
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.issuer = ""

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def rotate(self) -> None:
        """Sign with a new key from now on, and publish it alone."""
        self.key = RSAKey.generate_key(2048, {"kid": f"key-{len(self.asked)}"})

    def allow(self, page: str) -> str:
        """Return where the browser is sent after somebody has signed in on this page."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(page).query).items()}
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return f"{query['redirect_uri']}?code={code}&state={query['state']}"

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.asked.append((path, form))
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "jwks_uri": f"{self.issuer}/keys",
                **self.metadata,
            }
        if path == "/keys":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        if path == "/userinfo":
            return 200, {"sub": "s-1", **self.userinfo}
        if form.get("grant_type") == "refresh_token":
            return 200, {"access_token": "a", "token_type": "Bearer", **self.tokens}
        request = self.codes.pop(form["code"], None)
        if request is None:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if challenge != request["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": request["client_id"], "sub": "s-1", "iat": now, "exp": now + 300,
            "nonce": request["nonce"], "preferred_username": "grace", "groups": [], **self.claims,
        }  # fmt: skip
        given = {name: value for name, value in claims.items() if value is not None}
        tokens = {"id_token": self.sign(given), "access_token": "a", "token_type": "Bearer"}
        return 200, {**tokens, "refresh_token": "r-1", **self.tokens}


@contextmanager
def scripted_provider() -> Iterator[ScriptedProvider]:
    provider = ScriptedProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"])).decode()
            self.reply({name: values[0] for name, values in parse_qs(text).items()})

        def reply(self, form: dict[str, str]) -> None:
            provider.headers.append(dict(self.headers))
            status, found = provider.answer(urlsplit(self.path).path, form)
            body = json.dumps(found).encode()
            self.send_response(status if provider.status == 200 else provider.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield provider
        server.shutdown()
