"""Requests to a deployment, which go to the router rather than to the server."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from .connection import Connection, quoted
from .errors import Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_S = 60.0
BUSY_WAIT_S = 1.0
"""Pause before the second try of a request that no replica took."""
RETRIED_STATUS = frozenset({502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What is known of a deployment between requests."""

    url: str
    datatype: str
    """Type of its input, such as FP32."""


class Predictor:
    """Sends requests to deployments for a client; from any thread."""

    def __init__(self, client: Connection) -> None:
        self._client = client
        headers = {"Authorization": f"Bearer {client.target.token}"} if client.target.token else {}
        self._http = httpx.Client(
            headers=headers, timeout=httpx.Timeout(TIMEOUT_S, connect=5.0), trust_env=False
        )
        self._known: dict[str, Endpoint] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self._http.close()

    def predict(self, name: str, inputs: Any) -> list[Any]:
        """Return the output for each row of the inputs; see `Client.predict`."""
        rows = inputs.tolist() if hasattr(inputs, "tolist") else inputs
        shape = shape_of(rows)
        endpoint = self._endpoint(name)
        tensor = {"name": "input", "shape": shape, "datatype": endpoint.datatype, "data": rows}
        path = f"/v2/models/{quoted(name)}/infer"
        try:
            reply = self._send("POST", f"{endpoint.url}{path}", {"inputs": [tensor]})
        except (Refused, Unreachable):
            with self._lock:  # it may answer elsewhere the next time
                self._known.pop(name, None)
            raise
        output = reply["outputs"][0]
        return nested(output["data"], output["shape"])

    def _endpoint(self, name: str) -> Endpoint:
        with self._lock:
            known = self._known.get(name)
        if known is None:
            url = self._client.get(f"/deployments/{quoted(name)}/address")["url"]
            metadata = self._send("GET", f"{url}/v2/models/{quoted(name)}")
            known = Endpoint(url=url, datatype=metadata["inputs"][0]["datatype"])
            with self._lock:
                self._known[name] = known
        return known

    def _send(self, method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request, which is sent a second time if the connection broke or no
        replica took it: a prediction may be computed twice. Raises Unreachable and Refused."""
        for is_last in (False, True):
            try:
                reply = self._http.request(method, url, json=body)
            except httpx.TransportError as error:
                if is_last:
                    raise Unreachable(
                        f"The router does not answer at {url}: {error or type(error).__name__}.",
                        code="client.unreachable",
                        hint="`muster deploy list` shows where deployments answer",
                    ) from error
                continue
            if reply.status_code in RETRIED_STATUS and not is_last:
                time.sleep(BUSY_WAIT_S)
                continue
            if reply.status_code >= 400:
                raise Refused(
                    _message(reply),
                    code=f"http.{reply.status_code}",
                    status=reply.status_code,
                )
            answer: dict[str, Any] = reply.json()
            return answer
        raise AssertionError("unreachable")


def _message(reply: httpx.Response) -> str:
    try:
        return str(reply.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"The deployment answered {reply.status_code}."


def shape_of(rows: Any) -> list[int]:
    """Return the shape of nested lists, by their first entries."""
    shape = []
    while isinstance(rows, list | tuple):
        shape.append(len(rows))
        if not rows:
            break
        rows = rows[0]
    return shape


def nested(flat: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """Return a flat list as nested ones of this shape."""
    found = list(flat)
    for size in reversed(shape[1:]):
        found = [found[at : at + size] for at in range(0, len(found), size)]
    return found
