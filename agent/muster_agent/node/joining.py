"""Joining the cluster: exchange the join token for a credential once, and use that from then on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import uuid
from pathlib import Path

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, persistently
from muster_agent.settings import AgentSettings

log = structlog.get_logger("muster.agent")


class CannotJoin(Exception):
    """The server does not accept this agent; the message says what to do."""


async def introduce(
    plane: ControlPlane, settings: AgentSettings, request: wire.RegisterRequest
) -> wire.RegisterReply:
    """Register with the stored credential, or with the one before it when that was never valid; with
    the join token when there is none (any more).

    Waits as long as the server is out of reach. Raises CannotJoin, Refused or Superseded.
    """
    for credential in _read_credentials(settings):
        try:
            reply = await persistently(
                lambda token=credential: plane.register(request, token=token),  # type: ignore[misc]
                what="register",
            )
        except RequestRefused as error:
            if error.status not in (401, 403):
                raise
            log.warning("credential_refused", error=error.message)
        else:
            plane.use_credential(credential)
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
    # A join token works once. If the answer is lost, or the agent ends before the credential is on
    # disk, repeating the same join returns a credential again.
    joining = dataclasses.replace(request, join_id=_join_id(settings))
    reply = await persistently(lambda: plane.register(joining, token=token), what="register")
    if reply.credential is None:
        raise CannotJoin("the server gave no credential in exchange for the join token")
    take_credential(plane, settings, reply.credential)
    return reply


def take_credential(plane: ControlPlane, settings: AgentSettings, credential: str) -> None:
    """Use this credential from now on. Raises OSError, and changes nothing, when it cannot be kept.

    The one before it is kept, too. Where this one is not used for a long time, as when the node is
    out of reach, the server may give another one in its place to a heartbeat that was given up and
    arrives late: then this one is void before it is used, and the one before it still valid.
    """
    _write_credential(settings, credential, before=plane.credential)
    plane.use_credential(credential)
    (settings.home / "join_id").unlink(missing_ok=True)


def _join_id(settings: AgentSettings) -> str:
    """Return the id of the join in progress, created at its start."""
    path = settings.home / "join_id"
    with contextlib.suppress(OSError):
        found = path.read_text().strip()
        if found:
            return found
    made = uuid.uuid4().hex
    _write_durably(path, made)
    return made


def _path(settings: AgentSettings) -> Path:
    return settings.home / "credential.json"


def _read_credentials(settings: AgentSettings) -> list[str]:
    """Return the credentials, the newest first."""
    try:
        stored = json.loads(_path(settings).read_text())
    except (OSError, ValueError):
        return []
    if stored.get("server_url") != settings.server_url:
        return []  # they are another server's secrets
    found = (str(stored.get(key) or "") for key in ("credential", "credential_before"))
    return [credential for credential in found if credential]


def _write_credential(settings: AgentSettings, credential: str, *, before: str) -> None:
    """Durable before it is used: the server gives it once."""
    stored = {
        "server_url": settings.server_url,
        "credential": credential,
        "credential_before": before,
    }
    _write_durably(_path(settings), json.dumps(stored))


def _write_durably(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
