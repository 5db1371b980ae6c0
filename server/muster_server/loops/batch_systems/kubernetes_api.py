"""The API of a Kubernetes cluster over HTTP: whom we are there, a call, a list.

What Muster needs is six verbs on five kinds of objects, so there is no client library here.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from .base import BatchSystemUnreachable

TIMEOUT_S = 30.0
PAGE = 500
MAX_PAGES = 200
"""Objects are listed in pages; a list of more than 100,000 is an error."""
MAX_RELISTS = 3
"""A list whose place in the pages has expired is begun again so often."""
MAX_BYTES = 64 * 2**20
"""Longest answer: a page of 500 objects is a few MiB."""
MAX_WORDS = 600
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNSUPPORTED = {
    "exec": "a plugin (exec)",
    "auth-provider": "a plugin (auth-provider)",
    "username": "a password",
}
_UNSUPPORTED_CLUSTER = ("insecure-skip-tls-verify", "proxy-url", "tls-server-name")


class ApiRefusal(Exception):
    """Kubernetes said no, in its own words. Nothing was done."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        """`AlreadyExists`, `Forbidden`, `NotFound` and so on."""


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """Where a cluster is, and whom we are there."""

    server: str
    tls: ssl.SSLContext
    token: str
    """Bearer token; "" for a client certificate."""


def find_access(kubeconfig: Path | None, context: str) -> ClusterAccess:
    """Return the access that a kubeconfig describes, or without one the service account of this pod.

    It is read again each time, since tokens are replaced while Muster runs. Raises
    BatchSystemUnreachable, with what is wrong and what would work.
    """
    try:
        if kubeconfig is None:
            return _of_pod()
        return _of_kubeconfig(kubeconfig, context)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BatchSystemUnreachable(f"{kubeconfig or SERVICE_ACCOUNT}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BatchSystemUnreachable(f"{kubeconfig} is no kubeconfig ({error!r})") from error


def _of_pod() -> ClusterAccess:
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if not host:
        raise BatchSystemUnreachable(
            "the controller runs in no pod; set MUSTER_KUBECONFIG to a kubeconfig"
        )
    host = f"[{host}]" if ":" in host else host
    return ClusterAccess(
        server=f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}",
        tls=ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt")),
        token=(SERVICE_ACCOUNT / "token").read_text().strip(),
    )


def _of_kubeconfig(path: Path, context: str) -> ClusterAccess:
    config = yaml.safe_load(path.read_text())
    if not isinstance(config, dict):
        raise ValueError("is no kubeconfig")
    context = context or str(config.get("current-context") or "")
    chosen = _named(config, "contexts", context)["context"]
    cluster = _named(config, "clusters", str(chosen.get("cluster")))["cluster"]
    user = _named(config, "users", str(chosen.get("user")))["user"]
    for key in _UNSUPPORTED_CLUSTER:
        if cluster.get(key):
            raise ValueError(f"{key} of its cluster is not supported")
    for key, words in _UNSUPPORTED.items():
        if user.get(key):
            raise ValueError(
                f"its user signs in with {words}, which is not supported; give Muster a service "
                "account of its own, with a token or a client certificate"
            )
    authority = _content(cluster, "certificate-authority", path)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate = _content(user, "client-certificate", path)
    private_key = _content(user, "client-key", path)
    if certificate and private_key:
        _load_certificate(tls, certificate + b"\n" + private_key)
    token = str(user.get("token") or "")
    if file := user.get("tokenFile"):  # It may have been replaced since.
        token = (path.parent / str(file)).read_text().strip()
    if not token and not certificate:
        raise ValueError("its user has neither a token nor a client certificate")
    return ClusterAccess(server=str(cluster["server"]).rstrip("/"), tls=tls, token=token)


def _named(config: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    for entry in config.get(kind) or ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry
    raise ValueError(f"has no {name!r} in its {kind}")


def _content(section: Mapping[str, Any], name: str, path: Path) -> bytes:
    """Return what a file or its `-data` holds; b"" if neither is given."""
    if data := section.get(f"{name}-data"):
        return base64.b64decode(str(data))
    return (path.parent / str(section[name])).read_bytes() if section.get(name) else b""


def _load_certificate(tls: ssl.SSLContext, chain: bytes) -> None:
    # Python loads a private key from files alone; this one is readable by its owner, and brief.
    with tempfile.NamedTemporaryFile() as file:
        file.write(chain)
        file.flush()
        tls.load_cert_chain(file.name)


class KubernetesApi:
    """Calls to the API with one access. Every method raises BatchSystemUnreachable if the answer is
    none, or says nothing about what was asked, and ApiRefusal if it is a refusal."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the object that Kubernetes answers with."""
        try:
            with self._client.stream(method, path, json=body, params=params) as reply:
                content = _read(reply)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise BatchSystemUnreachable(f"{self._client.base_url}: {error}") from error
        if not isinstance(content, dict) or "kind" not in content:
            raise BatchSystemUnreachable(
                f"{self._client.base_url} answered with HTTP {reply.status_code}, not from Kubernetes"
            )
        if reply.is_success:
            return content
        words = str(content.get("message", ""))[:MAX_WORDS]
        if reply.status_code == 429 or reply.status_code >= 500:
            raise BatchSystemUnreachable(words or f"HTTP {reply.status_code}")
        raise ApiRefusal(reply.status_code, str(content.get("reason", "")), words)

    def list_all(self, path: str, **params: str) -> list[dict[str, Any]]:
        """Return all objects of a kind. If the place in the pages has expired, the list begins
        again: its parts would be of different times."""
        for _ in range(MAX_RELISTS):
            try:
                return self._pages(path, params)
            except ApiRefusal as refusal:
                if refusal.status != 410:
                    raise
        raise BatchSystemUnreachable("its lists expire before they are read")

    def _pages(self, path: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        following: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            page = self.call("GET", path, params={**params, "limit": str(PAGE), **following})
            if not isinstance(page.get("items"), list):
                raise BatchSystemUnreachable(f"{page['kind']} instead of a list")
            found += [_without_template(item) for item in page["items"]]
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found
            following = {"continue": token}
        raise BatchSystemUnreachable(f"more than {MAX_PAGES * PAGE} objects in {path}")


def _read(reply: httpx.Response) -> Any:
    """Return what a reply says; None if that is no JSON, or longer than it may be."""
    text = bytearray()
    for part in reply.iter_bytes():
        text += part
        if len(text) > MAX_BYTES:
            return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _without_template(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what somebody asked for, which is most of it and of no use here."""
    spec = item.get("spec") or {}
    return {**item, "spec": {name: spec[name] for name in ("suspend",) if name in spec}}


@contextmanager
def connected(kubeconfig: Path | None, context: str) -> Iterator[KubernetesApi]:
    """Connect for a few calls. Raises BatchSystemUnreachable."""
    access = find_access(kubeconfig, context)
    headers = {"Accept": "application/json"}
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    with httpx.Client(
        base_url=access.server, verify=access.tls, headers=headers, timeout=TIMEOUT_S
    ) as client:
        yield KubernetesApi(client)
