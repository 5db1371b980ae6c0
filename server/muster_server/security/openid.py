"""The OpenID provider that people sign in with: what is asked of it, and which of its answers are
believed. Authorization code with PKCE, after OpenID Connect Core 1.0 and RFC 7636."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from muster_server import clock
from muster_server.settings import Settings

TIMEOUT_S = 5.0
ANSWER_MAX_BYTES = 1 << 20
METADATA_KNOWN_S = 3600.0
KEYS_AGAIN_S = 30.0
"""A token of an unknown key makes the keys be fetched again, at most this often."""
CLOCK_SKEW_S = 60
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""Signatures with a public key. With `none` or a shared key, anybody could make tokens."""
SCOPES = ("openid", "profile", "email", "groups", "offline_access")
"""What is asked for, as far as the provider knows it. `offline_access` is what lets Muster ask again
who somebody is."""


class ProviderAway(Exception):
    """The provider cannot be reached, or answers nothing that can be used now."""


class NotBelieved(Exception):
    """The provider refused, or its answer is not to be believed; the text says why."""


class TakenBack(NotBelieved):
    """The provider has taken back what it issued for a person."""


@dataclass(frozen=True, kw_only=True)
class Identified:
    """What the provider said of somebody who signed in, or who was asked about again."""

    claims: Mapping[str, Any]
    refresh_token: str | None


class OpenidProvider:
    """Threads: may be shared."""

    def __init__(self, settings: Settings) -> None:
        assert settings.oidc_issuer is not None
        self.issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._secret = settings.resolved_oidc_client_secret()
        self._scopes = settings.oidc_scopes
        self._wanted = (settings.oidc_username_claim, settings.oidc_groups_claim)
        self._home = settings.browser_url()
        self._http = httpx.Client(timeout=TIMEOUT_S, follow_redirects=False)
        self._lock = threading.Lock()
        self._metadata: dict[str, Any] = {}
        self._metadata_at = -METADATA_KNOWN_S
        self._keys = KeySet([])
        self._keys_at = -KEYS_AGAIN_S

    def close(self) -> None:
        self._http.close()

    @property
    def redirect_url(self) -> str:
        """Address that the provider sends the browser back to; register it there."""
        return f"{self._home}/api/v1/auth/oidc/callback"

    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return the page of the provider on which somebody signs in. Raises ProviderAway."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        metadata = self._known_metadata()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self.redirect_url,
            "scope": self._scope(metadata),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return _with_query(_endpoint(metadata, "authorization_endpoint"), query)

    def exchange(self, code: str, *, verifier: str, nonce: str) -> Identified:
        """Return who has signed in with this code. Raises ProviderAway and NotBelieved."""
        answer = self._ask_for_tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.redirect_url,
                "code_verifier": verifier,
            }
        )
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise NotBelieved("the provider's answer has no id_token")
        return self._identified(answer, self._verified(token, nonce=nonce))

    def refresh(self, refresh_token: str) -> Identified:
        """Return what the provider says now of whom it gave this token for. Raises ProviderAway and
        NotBelieved, and TakenBack once the provider has taken the token back."""
        answer = self._ask_for_tokens(
            {"grant_type": "refresh_token", "refresh_token": refresh_token}
        )
        token = answer.get("id_token")
        claims = self._verified(token, nonce=None) if isinstance(token, str) else {}
        return self._identified(answer, claims)

    def logout_url(self) -> str | None:
        """Return the page of the provider that ends its own session; None if it has none. Raises
        ProviderAway."""
        metadata = self._known_metadata()
        if not metadata.get("end_session_endpoint"):
            return None
        query = {
            "client_id": self._client_id,
            "post_logout_redirect_uri": f"{self._home}/sign-in",
        }
        return _with_query(_endpoint(metadata, "end_session_endpoint"), query)

    # ---------------------------------------------------------------- what is believed

    def _verified(self, token: str, *, nonce: str | None) -> Mapping[str, Any]:
        """Return the claims of a token that the provider has signed for this server."""
        try:
            decoded = jwt.decode(token, self._key_set(), algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            try:  # the provider may have changed its keys
                decoded = jwt.decode(token, self._key_set(again=True), algorithms=ALGORITHMS)
            except (JoseError, ValueError) as error:
                raise NotBelieved(f"the id_token is not signed as it should be: {error}") from None
        claims = decoded.claims
        registry = jwt.JWTClaimsRegistry(
            now=int(clock.now().timestamp()),
            leeway=CLOCK_SKEW_S,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self._client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce} if nonce is not None else {},
        )
        try:
            registry.validate(claims)
        except JoseError as error:
            raise NotBelieved(f"the id_token is not for this sign-in: {error}") from None
        audience = claims["aud"]
        party = claims.get("azp", self._client_id)
        if party != self._client_id or (
            isinstance(audience, list) and len(audience) > 1 and "azp" not in claims
        ):
            raise NotBelieved("the id_token was issued to another party")
        return claims

    def _identified(self, answer: Mapping[str, Any], claims: Mapping[str, Any]) -> Identified:
        """Return the claims, with those that the provider tells only when it is asked for them."""
        access = answer.get("access_token")
        url = self._known_metadata().get("userinfo_endpoint")
        if url and isinstance(access, str) and any(name not in claims for name in self._wanted):
            headers = {"Authorization": f"Bearer {access}"}
            status, more = self._ask("GET", _endpoint({"it": url}, "it"), headers=headers)
            if status >= 400:
                raise _refused(status, more, "its userinfo endpoint")
            if claims and more.get("sub") != claims["sub"]:
                raise NotBelieved("the userinfo endpoint speaks of somebody else")
            claims = {**more, **claims}
        refresh = answer.get("refresh_token")
        return Identified(
            claims=claims, refresh_token=refresh if isinstance(refresh, str) else None
        )

    # ---------------------------------------------------------------- what is asked

    def _ask_for_tokens(self, form: dict[str, str]) -> Mapping[str, Any]:
        metadata = self._known_metadata()
        url = _endpoint(metadata, "token_endpoint")
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        headers = {}
        if not self._secret:
            form = {**form, "client_id": self._client_id}
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            # RFC 6749, 2.3.1: both are form-encoded before they are put together.
            pair = f"{quote(self._client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form = {**form, "client_id": self._client_id, "client_secret": self._secret}
        status, answer = self._ask("POST", url, headers=headers, data=form)
        if status >= 400 or "error" in answer:
            raise _refused(status, answer, "its token endpoint")
        return answer

    def _known_metadata(self) -> Mapping[str, Any]:
        with self._lock:
            if time.monotonic() - self._metadata_at < METADATA_KNOWN_S:
                return self._metadata
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        status, found = self._ask("GET", url)
        if status != 200:
            raise ProviderAway(f"{url} answers {status}")
        if found.get("issuer") != self.issuer:
            raise ProviderAway(
                f"{url} is about the issuer {found.get('issuer')!r}, not {self.issuer!r}"
            )
        with self._lock:
            self._metadata, self._metadata_at = found, time.monotonic()
        return found

    def _key_set(self, *, again: bool = False) -> KeySet:
        with self._lock:
            age = time.monotonic() - self._keys_at
            if age < (KEYS_AGAIN_S if again else METADATA_KNOWN_S):
                return self._keys
        url = _endpoint(self._known_metadata(), "jwks_uri")
        status, found = self._ask("GET", url)
        keys = found.get("keys")
        if status != 200 or not isinstance(keys, list):
            raise ProviderAway(f"{url} has no keys (status {status})")
        usable = [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"]
        try:
            imported = KeySet.import_key_set({"keys": usable})
        except (JoseError, ValueError, KeyError) as error:
            raise ProviderAway(f"the keys at {url} cannot be read: {error}") from None
        with self._lock:
            self._keys, self._keys_at = imported, time.monotonic()
        return imported

    def _ask(self, method: str, url: str, **request: Any) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer. Raises ProviderAway."""
        deadline = time.monotonic() + 2 * TIMEOUT_S
        body = bytearray()
        try:
            with self._http.stream(method, url, **request) as response:
                for part in response.iter_bytes():
                    body += part
                    if len(body) > ANSWER_MAX_BYTES:
                        raise ProviderAway(f"{url} answers more than {ANSWER_MAX_BYTES} bytes")
                    if time.monotonic() > deadline:
                        raise ProviderAway(f"{url} takes too long")
                status = response.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderAway(
                f"{url} cannot be reached: {error or type(error).__name__}"
            ) from None
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ProviderAway(f"{url} answers {status}, and no JSON object")
        return status, found

    def _scope(self, metadata: Mapping[str, Any]) -> str:
        if self._scopes:
            return " ".join(self._scopes)
        known = metadata.get("scopes_supported")
        known = known if isinstance(known, list) else ["openid", "profile", "email"]
        return " ".join(scope for scope in SCOPES if scope == "openid" or scope in known)


def _endpoint(metadata: Mapping[str, Any], name: str) -> str:
    url = metadata.get(name)
    if not isinstance(url, str) or urlsplit(url).scheme not in ("https", "http"):
        raise ProviderAway(f"the provider's {name} is {url!r}, not an address")
    return url


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _refused(status: int, answer: Mapping[str, Any], what: str) -> NotBelieved | ProviderAway:
    said = f"{what} answers {status} {answer.get('error', '')}".strip()
    # What the server did wrong says nothing about the person.
    if status >= 500 or status == 429:
        return ProviderAway(said)
    return TakenBack(said) if answer.get("error") == "invalid_grant" else NotBelieved(said)
