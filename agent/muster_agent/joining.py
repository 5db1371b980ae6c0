"""Become a node: exchange the join token for a credential once, and use that from then on."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import structlog

from muster import wire
from muster_agent.client import ControlPlane, Refused, persistently
from muster_agent.settings import AgentSettings

log = structlog.get_logger("muster.agent")


class CannotJoin(Exception):
    """The server does not accept this agent; the message says what to do."""


async def introduce(
    plane: ControlPlane, settings: AgentSettings, request: wire.RegisterRequest
) -> wire.RegisterReply:
    """Register with the stored credential; with the join token when there is none (any more).

    Waits as long as the server is out of reach. Raises CannotJoin, Refused or Superseded.
    """
    credential = _read_credential(settings)
    if credential:
        try:
            reply = await persistently(
                lambda: plane.register(request, token=credential), what="register"
            )
        except Refused as error:
            if error.status not in (401, 403):
                raise
            log.warning("credential_refused", error=error.message)
        else:
            plane.use_credential(reply.credential or credential)
            if reply.credential:
                _write_credential(settings, reply.credential)
            return reply
    try:
        token = settings.read_join_token()
    except OSError as error:
        raise CannotJoin(f"the join token cannot be read: {error}") from error
    if token is None:
        raise CannotJoin(
            "this agent has no valid credential: make a join token ('muster agent token') and "
            "pass it as MUSTER_AGENT_JOIN_TOKEN or MUSTER_AGENT_JOIN_TOKEN_FILE"
        )
    reply = await persistently(lambda: plane.register(request, token=token), what="register")
    if reply.credential is None:
        raise CannotJoin("the server gave no credential in exchange for the join token")
    _write_credential(settings, reply.credential)
    plane.use_credential(reply.credential)
    return reply


def _path(settings: AgentSettings) -> Path:
    return settings.home / "credential.json"


def _read_credential(settings: AgentSettings) -> str:
    try:
        stored = json.loads(_path(settings).read_text())
    except (OSError, ValueError):
        return ""
    if stored.get("server_url") != settings.server_url:
        return ""  # it is another server's secret
    return str(stored.get("credential", ""))


def _write_credential(settings: AgentSettings, credential: str) -> None:
    """Durable before it is used: the server gives it once."""
    temporary = settings.home / ".credential.new"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump({"server_url": settings.server_url, "credential": credential}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(_path(settings))
