"""The agent's client for `/agent/v1`: one method per call, errors grouped by how to react to them."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import structlog
import tenacity
from websockets.asyncio.client import ClientConnection, connect

from muster import wire
from muster.launch import traces
from muster_agent.records.spool import SpoolLine

log = structlog.get_logger("muster.agent")

T = TypeVar("T")

ASSIGNMENTS_WAIT_S = 25
REQUEST_TIMEOUT_S = 30.0
MAX_BUNDLE_BYTES = 100 * 1024 * 1024
RETRY_MAX_S = 5.0


class ServerUnreachable(Exception):
    """The server gave no usable answer: the network failed, or it is overloaded or starting. Try
    again."""


class SessionSuperseded(Exception):
    """A newer session of this node exists (410): register again before any other call."""


class RequestRefused(Exception):
    """The server understood and rejected the request; repeating it would not help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Session:
    """One registration of this node. Calls of an older session are rejected."""

    node_id: str
    epoch: int
    heartbeat_s: float
    lease_s: float
    deadline_boot_s: float
    """End of the first lease by the boot clock, counted from before the request was sent."""


class ControlPlane:
    """HTTP client of the server. Every method raises Unreachable, Superseded or Refused."""

    def __init__(self, url: str, *, verify: str | bool = True, trust_env: bool = True) -> None:
        context: ssl.SSLContext | bool = True
        if isinstance(verify, str):
            context = ssl.create_default_context(cafile=verify)
        elif url.startswith("http://"):
            # It trusts nobody. Reading the certificates of all authorities takes as long as joining.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context, self._trust_env = context, trust_env
        self._http = httpx.AsyncClient(
            base_url=f"{url}/agent/v1",
            timeout=httpx.Timeout(REQUEST_TIMEOUT_S, connect=10.0),
            verify=context,
            trust_env=trust_env,
            limits=httpx.Limits(max_connections=64, keepalive_expiry=60.0),
        )
        self._credential = ""
        self._num_registrations = 0

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def credential(self) -> str:
        """The one in use; empty before the first."""
        return self._credential

    def use_credential(self, credential: str) -> None:
        self._credential = credential

    async def register(self, request: wire.RegisterRequest, *, token: str) -> wire.RegisterReply:
        body = wire.dump(self._numbered(request))
        response = await self._call("POST", "/register", token=token, body=body)
        return wire.loads(wire.RegisterReply, response.content)

    def _numbered(self, request: wire.RegisterRequest) -> wire.RegisterRequest:
        """Send a request with a number of its own for each try, so that the server recognizes late
        ones."""
        self._num_registrations += 1
        return dataclasses.replace(request, number=self._num_registrations)

    async def lease(self, request: wire.LeaseRequest) -> wire.LeaseReply:
        response = await self._call("POST", "/lease", body=wire.dump(request), timeout_s=10.0)
        return wire.loads(wire.LeaseReply, response.content)

    async def leave(self, request: wire.LeaveRequest) -> wire.LeaveReply:
        """Announce a step in which this node leaves the cluster."""
        response = await self._call("POST", "/leave", body=wire.dump(request), timeout_s=10.0)
        return wire.loads(wire.LeaveReply, response.content)

    async def assignments(self, session: Session, index: int | None) -> wire.AssignmentsReply:
        """Return the assignments, waiting up to ASSIGNMENTS_WAIT_S while `index` is current; None
        answers at once."""
        response = await self._call(
            "GET",
            "/assignments",
            params={
                "node_id": session.node_id,
                "session_epoch": session.epoch,
                "index": -1 if index is None else index,
                "wait": 0 if index is None else ASSIGNMENTS_WAIT_S,
            },
            timeout_s=ASSIGNMENTS_WAIT_S + REQUEST_TIMEOUT_S,
        )
        return wire.loads(wire.AssignmentsReply, response.content)

    async def deletions(self, session: Session, results: list[wire.DeletionResult]) -> None:
        """Report the results of requested file deletions."""
        request = wire.DeletionsRequest(
            node_id=session.node_id, session_epoch=session.epoch, results=results
        )
        await self._call("POST", "/deletions", body=wire.dump(request))

    async def export_piece(self, session: Session, export_id: int, idx: int, data: bytes) -> bool:
        """Send a piece of a file; return whether the export is still wanted."""
        response = await self._call(
            "POST",
            f"/exports/{export_id}/pieces/{idx}",
            params={"node_id": session.node_id, "session_epoch": session.epoch},
            body=data,
            content_type="application/octet-stream",
        )
        return wire.loads(wire.ExportReply, response.content).taken

    async def export(self, session: Session, result: wire.ExportResult) -> None:
        """Report the result of a model export."""
        request = wire.ExportRequest(
            node_id=session.node_id, session_epoch=session.epoch, result=result
        )
        await self._call("POST", "/exports", body=wire.dump(request))

    async def outputs(self, request: wire.OutputsRequest) -> wire.OutputsReply:
        """Report a manifest of a trial's outputs."""
        response = await self._call("POST", "/outputs", body=wire.dump(request))
        return wire.loads(wire.OutputsReply, response.content)

    async def work_folders(self, request: wire.WorkFoldersRequest) -> wire.WorkFoldersReply:
        """Report the work folders of this node; return which of them are not needed any more."""
        response = await self._call("POST", "/work-folders", body=wire.dump(request))
        return wire.loads(wire.WorkFoldersReply, response.content)

    async def description(self, session: Session, result: wire.DescriptionResult) -> None:
        """Report the layers of a model, or why there are none."""
        request = wire.DescriptionRequest(
            node_id=session.node_id, session_epoch=session.epoch, result=result
        )
        await self._call("POST", "/descriptions", body=wire.dump(request))

    async def preflight(self, session: Session, report: wire.PreflightReport) -> None:
        """Report the result of one stage of a preflight on this node."""
        request = wire.PreflightRequest(
            node_id=session.node_id, session_epoch=session.epoch, report=report
        )
        await self._call("POST", "/preflights", body=wire.dump(request))

    async def dial_tunnel(self, tunnel_id: str) -> ClientConnection:
        """Return a WebSocket to the server for a tunnel that it asked for. Raises OSError,
        TimeoutError and WebSocketException."""
        scheme, _, rest = str(self._http.base_url).partition("://")
        is_secure = scheme == "https"
        return await connect(
            f"{'wss' if is_secure else 'ws'}://{rest.rstrip('/')}/tunnels/{tunnel_id}",
            additional_headers=self._headers(self._credential),
            ssl=self._context if is_secure and isinstance(self._context, ssl.SSLContext) else None,
            proxy=True if self._trust_env else None,
            compression=None,
            max_size=wire.TUNNEL_MESSAGE_BYTES,
            max_queue=16,
            open_timeout=10.0,
            close_timeout=5.0,
        )

    async def records(
        self, session: Session, allocation_id: str, attempt_no: int, lines: Sequence[SpoolLine]
    ) -> wire.RecordsReply:
        """Send lines of the spool unchanged: they are stored as wire JSON."""
        head = json.dumps(
            {
                "node_id": session.node_id,
                "session_epoch": session.epoch,
                "attempt_no": attempt_no,
            }
        )
        body = f'{head[:-1]},"records":['.encode() + b",".join(x.data for x in lines) + b"]}"
        response = await self._call("POST", f"/allocations/{allocation_id}/records", body=body)
        return wire.loads(wire.RecordsReply, response.content)

    async def logs(
        self,
        session: Session,
        allocation_id: str,
        attempt_no: int,
        *,
        local_rank: int,
        stream: str,
        offset: int,
        data: bytes,
    ) -> int:
        """Send a piece of a log; return the offset to continue from."""
        response = await self._call(
            "POST",
            f"/allocations/{allocation_id}/logs/{local_rank}/{stream}",
            params={
                "offset": offset,
                "attempt_no": attempt_no,
                "node_id": session.node_id,
                "session_epoch": session.epoch,
            },
            body=data,
            content_type="application/octet-stream",
        )
        return wire.loads(wire.LogsReply, response.content).next_offset

    async def secrets(
        self, session: Session, allocation_id: str, attempt_no: int
    ) -> list[wire.SecretValue]:
        """Return the values of an allocation's secrets. They are kept in memory alone."""
        request = wire.SecretsRequest(
            node_id=session.node_id, session_epoch=session.epoch, attempt_no=attempt_no
        )
        response = await self._call(
            "POST", f"/allocations/{allocation_id}/secrets", body=wire.dump(request)
        )
        return wire.loads(wire.SecretsReply, response.content).secrets

    async def model_files(
        self, allocation_id: str, request: wire.ModelFilesRequest
    ) -> wire.ModelFilesReply:
        """Return the files of a version that an allocation reads."""
        path = f"/allocations/{allocation_id}/models"
        response = await self._call("POST", path, body=wire.dump(request))
        return wire.loads(wire.ModelFilesReply, response.content)

    async def model_part(
        self, allocation_id: str, request: wire.ModelPartRequest
    ) -> wire.ModelPartReply:
        """Have a part of such a file read where its storage is."""
        path = f"/allocations/{allocation_id}/models/parts"
        response = await self._call("POST", path, body=wire.dump(request))
        return wire.loads(wire.ModelPartReply, response.content)

    async def model_content(
        self, allocation_id: str, request: wire.ModelPartRequest, draft: Path, *, etag: str
    ) -> None:
        """Fetch a part that is ready into `draft`, from where that ends if the server still has the
        file with this tag. After an error `draft` holds what has arrived."""
        there = _size(draft) if etag else 0
        continues = {"Range": f"bytes={there}-", "If-Range": f'"{etag}"'} if there else {}
        params: dict[str, Any] = {
            "node_id": request.node_id,
            "session_epoch": request.session_epoch,
            "attempt_no": request.attempt_no,
            "name": request.name,
            "path": request.path,
        }
        if request.export_id is not None:
            params["export"] = request.export_id
        try:
            async with self._http.stream(
                "GET",
                f"/allocations/{allocation_id}/models/content",
                params=params,
                headers={**self._headers(self._credential), **continues},
            ) as response:
                if response.status_code >= 300:
                    await response.aread()
                    _check(response)
                with draft.open("ab" if response.status_code == 206 else "wb") as file:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
        except httpx.TransportError as error:
            raise ServerUnreachable(f"{type(error).__name__}: {error}") from error

    async def download(self, sha256: str, path: Path) -> None:
        """Fetch a code bundle into `path` and verify that it has the promised hash."""
        temporary = path.with_name(f".{path.name}.part")
        digest = hashlib.sha256()
        num_bytes = 0
        try:
            async with self._http.stream(
                "GET", f"/blobs/{sha256}", headers=self._headers(self._credential)
            ) as response:
                if response.status_code != 200:
                    await response.aread()
                    _check(response)
                with temporary.open("wb") as file:
                    async for chunk in response.aiter_bytes():
                        num_bytes += len(chunk)
                        if num_bytes > MAX_BUNDLE_BYTES:
                            raise RequestRefused(
                                413, "blobs.too_large", "the code bundle is too large"
                            )
                        digest.update(chunk)
                        file.write(chunk)
            if digest.hexdigest() != sha256:
                raise ServerUnreachable("the code bundle arrived damaged")
            temporary.replace(path)
        except httpx.TransportError as error:
            raise ServerUnreachable(f"{type(error).__name__}: {error}") from error
        finally:
            temporary.unlink(missing_ok=True)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: str | bytes | None = None,
        content_type: str = "application/json",
        token: str | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> httpx.Response:
        credential = token if token is not None else self._credential
        headers = self._headers(credential)
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            with traces.span(method, kind="CLIENT"):
                headers |= traces.headers()
                response = await self._http.request(
                    method, path, params=params, content=body, headers=headers, timeout=timeout_s
                )
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ServerUnreachable(f"{type(error).__name__}: {error}") from error
        if response.status_code == 401 and token is None and credential != self._credential:
            raise ServerUnreachable("the credential was replaced while this was under way")
        _check(response)
        return response

    def _headers(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}


async def persistently(call: Callable[[], Awaitable[T]], *, what: str) -> T:
    """Repeat `call` with growing pauses until the server is reachable. Other errors are raised."""

    def tell(state: tenacity.RetryCallState) -> None:
        if state.attempt_number in (1, 5) or state.attempt_number % 20 == 0:
            error = state.outcome.exception() if state.outcome else None
            log.warning(
                "server_unreachable", what=what, tries=state.attempt_number, error=str(error)
            )

    async def attempt() -> T:
        return await call()

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(ServerUnreachable),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=RETRY_MAX_S),
        before_sleep=tell,
        sleep=asyncio.sleep,
    )
    return await retrying(attempt)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _check(response: httpx.Response) -> None:
    status = response.status_code
    if status < 300:
        return
    code, message = _problem(response)
    if status == 410:
        raise SessionSuperseded(message)
    if status in (408, 425, 429) or status >= 500:
        raise ServerUnreachable(f"{status} {code}: {message}")
    raise RequestRefused(status, code, message)


def _problem(response: httpx.Response) -> tuple[str, str]:
    """Return code and message of the server's error body, or a readable text if it has another
    form."""
    try:
        error = response.json()["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return "unknown", response.reason_phrase
