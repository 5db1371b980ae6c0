"""Requests to the REST service: retried where that is safe, paged, uploaded, downloaded."""

from __future__ import annotations

import hashlib
import itertools
import os
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

from muster import __version__
from muster.launch import traces

from .errors import ClientError, NotConfigured, Refused, Unreachable, refused_by
from .target import Target, find_target

if TYPE_CHECKING:
    import tenacity

    from muster.code.bundle import Bundle

RETRY_FOR_S = 15.0
"""Seconds for which a repeatable call is retried. A restart of the server takes less."""
FOLLOW_RETRY_FOR_S = 3600.0
"""Seconds for which a follower waits for a server that has answered before: an upgrade, a reboot.
"""
RETRIED_STATUS = frozenset({429, 502, 503, 504})
PAGE_LIMIT = 100


class _Retryable(Exception):
    """An answer, or its absence, after which the same call may be repeated."""

    def __init__(self, error: ClientError, wait_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait_s = wait_s


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the seconds that the server asked for, else 0.2 s doubling up to 3 s with jitter."""
    import tenacity

    raised = state.outcome.exception() if state.outcome else None
    if isinstance(raised, _Retryable) and raised.wait_s is not None:
        return min(raised.wait_s, 10.0)
    return tenacity.wait_random_exponential(multiplier=0.2, max=3.0)(state)


class Connection:
    """Requests to one server, for calls from any thread."""

    object_hook: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """What makes the objects of answers, instead of dicts."""

    def __init__(
        self,
        target: Target,
        *,
        retry_for_s: float = RETRY_FOR_S,
        product: str = "muster",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to a server. product: name of the calling program, by which the server knows how a call
        came. transport: what carries requests instead of the network."""
        self.target = target
        self._retry_for_s = retry_for_s
        self._on_away: Callable[[ClientError], None] | None = None
        headers = {"User-Agent": f"{product}/{__version__}", "Accept": "application/json"}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        # Without TLS, nobody is trusted: reading the certificates of all authorities takes 40 ms.
        is_plain = target.url.startswith("http://")
        try:
            # Neither proxies nor .netrc: the address was given on purpose, and often is loopback.
            self._http = httpx.Client(
                base_url=target.url,
                headers=headers,
                timeout=httpx.Timeout(60.0, connect=5.0),
                trust_env=not target.is_loopback,
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
                transport=transport,
            )
        except (httpx.InvalidURL, ValueError):
            raise NotConfigured(
                f"{target.url!r} is not a server address.",
                code="client.not_configured",
                hint="it looks like http://127.0.0.1:8470",
            ) from None

    @classmethod
    def from_environment(cls) -> Self:
        return cls(find_target())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------ calls

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        content: Path | None = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accept: Sequence[int] = (),
        repeatable: bool | None = None,
        api: str = "/api/v1",
    ) -> httpx.Response:
        """Make one request to {api}{path}, repeated while the server is away or busy.

        repeatable: whether doing it twice is harmless; by default everything but POST and PATCH.
        accept: error statuses that are returned instead of raised.
        Raises Unreachable or Refused.
        """
        if repeatable is None:
            repeatable = method not in ("POST", "PATCH")
        cleaned = {k: v for k, v in (params or {}).items() if v is not None}

        def once() -> httpx.Response:
            # A file is opened anew for every try: the one before may have consumed it.
            file = content.open("rb") if content is not None else None
            try:
                with traces.span(method, kind="CLIENT"):
                    reply = self._http.request(
                        method,
                        f"{api}{path}",
                        params=cleaned,
                        json=body,
                        content=file if data is None else data,
                        headers={**(headers or {}), **traces.headers()},
                    )
            except httpx.UnsupportedProtocol:
                raise NotConfigured(
                    f"{self.target.url!r} (from {self.target.source}) is not a server address.",
                    code="client.not_configured",
                    hint="it looks like http://127.0.0.1:8470",
                ) from None
            except httpx.TransportError as error:
                unreachable = Unreachable(
                    f"No Muster server answers at {self.target.url} ({_describe(error)}).",
                    code="client.unreachable",
                    hint="is `muster up` running? the address comes from " + self.target.source,
                )
                # Nothing was sent when connecting failed: safe to repeat, whatever the call is.
                if repeatable or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise _Retryable(unreachable) from error
                raise unreachable from error
            finally:
                if file is not None:
                    file.close()
            if reply.status_code < 400 or reply.status_code in accept:
                return reply
            refused = refused_by(reply, self.target)
            if reply.status_code in RETRIED_STATUS and (repeatable or reply.status_code == 429):
                raise _Retryable(refused, _retry_after_s(reply))
            raise refused

        try:
            return once()
        except _Retryable as error:
            return self._again(once, error)

    def _again(self, once: Callable[[], httpx.Response], first: _Retryable) -> httpx.Response:
        """Repeat a call that has failed, as long as that is worth a try."""
        # Not before it is needed: where tornado is installed, as with Jupyter, it loads that as well.
        import tenacity

        tries = itertools.chain([first], itertools.repeat(None))

        def again() -> httpx.Response:
            if (failed := next(tries)) is not None:
                raise failed
            return once()

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Retryable),
            stop=tenacity.stop_after_delay(self._retry_for_s),
            wait=_wait,
            before_sleep=self._report_outage,
            reraise=True,
        )
        try:
            return retrying(again)
        except _Retryable as last:
            raise last.error from None

    @contextmanager
    def patience(self, on_away: Callable[[ClientError], None] | None = None) -> Iterator[None]:
        """Wait for a server that is away, inside the block (FOLLOW_RETRY_FOR_S). For followers.

        on_away: told once per call that has to be repeated.
        """
        before = self._retry_for_s, self._on_away
        self._retry_for_s, self._on_away = max(before[0], FOLLOW_RETRY_FOR_S), on_away
        try:
            yield
        finally:
            self._retry_for_s, self._on_away = before

    def _report_outage(self, state: tenacity.RetryCallState) -> None:
        raised = state.outcome.exception() if state.outcome else None
        if (
            self._on_away is not None
            and state.attempt_number == 1
            and isinstance(raised, _Retryable)
        ):
            self._on_away(raised.error)

    def get(self, path: str, /, **params: Any) -> dict[str, Any]:
        return self._json(self.call("GET", path, params=params))

    def download(self, path: str) -> bytes:
        """Return a whole file."""
        return self.call("GET", path).content

    def post(self, path: str, body: Any = None, *, repeatable: bool = False) -> dict[str, Any]:
        return self._json(self.call("POST", path, body=body, repeatable=repeatable))

    def post_once(self, path: str, body: Any) -> dict[str, Any]:
        """Post with an idempotency key: however often it is sent again, the server does it once."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._json(self.call("POST", path, body=body, headers=headers, repeatable=True))

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        return self._json(self.call("PATCH", path, body=body))

    def put(self, path: str, body: Any = None) -> dict[str, Any]:
        return self._json(self.call("PUT", path, body=body))

    def delete(self, path: str, /, **params: Any) -> dict[str, Any]:
        """Return what the server says of it: most often nothing, an empty object."""
        return self._json(self.call("DELETE", path, params=params))

    def pages(
        self, path: str, /, *, limit: int | None = None, page_size: int = PAGE_LIMIT, **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield every item of a paged list, or the first `limit`. page_size: most items per call, as
        far as the list allows it."""
        given = 0
        cursor: str | None = None
        while True:
            size = page_size if limit is None else min(page_size, limit - given)
            page = self.get(path, cursor=cursor, limit=size, **params)
            for item in page["items"]:
                yield item
                given += 1
                if limit is not None and given >= limit:
                    return
            cursor = page["next"]
            if not cursor:
                return

    # ------------------------------------------------------------ files

    def upload(self, bundle: Bundle) -> str:
        """Return the digest under which the server has the bundle; it is sent only if the server
        lacks it."""
        path = f"/blobs/{bundle.sha256}"
        if self.call("HEAD", path, accept=(404,)).status_code == 404:
            self.call(
                "PUT",
                path,
                content=bundle.path,
                headers={
                    "Content-Type": "application/gzip",
                    "Content-Length": str(bundle.size_bytes),
                },
            )
        return bundle.sha256

    def download_to(self, path: str, to: Path) -> str:
        """Fetch a file into `to`, which is complete or missing; return the SHA-256 that the server
        gave.

        Raises Unreachable and Refused, also when what arrived is not that file.
        """
        draft = to.with_name(f".{to.name}.{os.getpid()}")
        digest = hashlib.sha256()
        try:
            with self._http.stream("GET", f"/api/v1{path}") as reply:
                if reply.status_code >= 400:
                    reply.read()
                    raise refused_by(reply, self.target)
                expected = str(reply.headers.get("ETag", "")).strip('"')
                with draft.open("wb") as file:
                    for piece in reply.iter_bytes():
                        digest.update(piece)
                        file.write(piece)
            if digest.hexdigest() != expected:
                raise Refused(f"{path} arrived damaged.", code="client.damaged", hint="try again")
            draft.replace(to)
        except httpx.TransportError as error:
            raise Unreachable(
                f"The download from {self.target.url} ended early ({_describe(error)}).",
                code="client.unreachable",
                hint="try again",
            ) from error
        finally:
            draft.unlink(missing_ok=True)
        return expected

    def continue_to(
        self, path: str, draft: Path, *, etag: str = "", params: Mapping[str, Any] | None = None
    ) -> str:
        """Fetch a file into `draft`, from where that ends if the server still has the file of this tag;
        else from the beginning. Return the tag of what it has sent, without quotes.

        After an error `draft` holds what has arrived. Raises Unreachable, Refused and OSError.
        """
        there = draft.stat().st_size if etag and draft.is_file() else 0
        headers = {"Range": f"bytes={there}-", "If-Range": f'"{etag}"'} if there else {}
        cleaned = {k: v for k, v in (params or {}).items() if v is not None}
        try:
            with self._http.stream(
                "GET", f"/api/v1{path}", params=cleaned, headers=headers
            ) as reply:
                if reply.status_code >= 400:
                    reply.read()
                    raise refused_by(reply, self.target)
                with draft.open("ab" if reply.status_code == 206 else "wb") as file:
                    for piece in reply.iter_bytes():
                        file.write(piece)
                return str(reply.headers.get("ETag", "")).strip('"')
        except httpx.TransportError as error:
            raise Unreachable(
                f"The download from {self.target.url} ended early ({_describe(error)}).",
                code="client.unreachable",
                hint="run it again: it continues where it was cut off",
            ) from error

    def send_piece(self, path: str, data: bytes, *, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send bytes; done again, it changes nothing. Raises Unreachable and Refused."""
        return self._json(self.call("PUT", path, params=params, data=data))

    def _json(self, reply: httpx.Response) -> dict[str, Any]:
        try:
            value = reply.json(object_hook=self.object_hook) if reply.content else {}
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Refused(
                f"{reply.request.url.host}:{reply.request.url.port} answered, but not as a Muster "
                "server does.",
                code="client.not_muster",
                hint="check the address: another program may listen there",
            )
        return value


def quoted(text: str) -> str:
    """Quote text for use in a path."""
    return quote(text, safe="")


def _describe(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectError):
        return "connection refused" if "refused" in str(error).lower() else "cannot connect"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return "the connection broke"


def _retry_after_s(reply: httpx.Response) -> float | None:
    value = reply.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None
