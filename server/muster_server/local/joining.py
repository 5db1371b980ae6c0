"""The join token of the agents that `muster up` starts, which ends when they have joined."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .parts import HOST

LOOK_S = 1.0
TIMEOUT_S = 2.0


class JoinToken:
    """Revokes the token, and removes its file, as soon as each agent has used a credential of its own.

    Until then an agent that lost the answer to its request has to ask again with the token.
    """

    def __init__(
        self, token_id: int, file: Path, *, agents: Sequence[str], port: int, cli_token: str
    ) -> None:
        self._token_id = token_id
        self._file = file
        self._agents = list(agents)
        self._port = port
        self._cli_token = cli_token
        self._since = dt.datetime.now(dt.UTC)
        self._next_look = 0.0

    def look(self) -> bool:
        """Look once a second at the agents that have not joined yet. Return whether the token has
        ended. A server that does not answer is asked again."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_S
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while self._agents and self._has_joined(self._agents[0]):
                self._agents.pop(0)
            if not self._agents:
                status, _ = self._ask("DELETE", f"/join-tokens/{self._token_id}")
                if status in (204, 404):
                    self._file.unlink(missing_ok=True)
                    return True
        return False

    def _has_joined(self, name: str) -> bool:
        """Return whether an agent's heartbeat has come: it has registered, and uses its credential."""
        status, node = self._ask("GET", f"/nodes/{name}")
        if status != 200:
            return False
        seen, registered = (
            dt.datetime.fromisoformat(node[k]) for k in ("last_seen_at", "registered_at")
        )
        return seen > max(registered, self._since)

    def _ask(self, method: str, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=TIMEOUT_S)
        try:
            headers = {"Authorization": f"Bearer {self._cli_token}"}
            connection.request(method, f"/api/v1{path}", headers=headers)
            reply = connection.getresponse()
            body = reply.read()
            return reply.status, json.loads(body) if body else None
        finally:
            connection.close()
