"""Messages between the programs of a batch job: JSON with its length before it, over a stream.

Nodes that have a key in common prove it to each other before anything else is said: who reaches the
port of the first node could otherwise run commands on the others, or be given commands of the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import secrets
from typing import Any

MAX_BYTES = 64 * 2**20
FINISH_TIMEOUT_S = 5.0
"""Seconds in which the other end of a connection takes what it was sent last."""
_SIDES = ("first", "other")


class Channel:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def read(self) -> dict[str, Any] | None:
        """Return the next message; None at the end of the connection."""
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            if size > MAX_BYTES:
                return None
            message = json.loads(await self._reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, as far as the other end is still there."""
        data = json.dumps(message).encode()
        if not self.writer.is_closing():
            self.writer.write(len(data).to_bytes(4, "big") + data)

    async def drain(self) -> None:
        """Wait until what was sent is on its way."""
        with contextlib.suppress(OSError):
            await self.writer.drain()

    def close(self) -> None:
        self.writer.close()

    async def finish(self) -> None:
        """End this side, and wait until the other end has read everything and closed its own,
        FINISH_TIMEOUT_S at most.

        A connection that is closed before all it has brought is read is reset, and the other end then
        loses what it has not read yet.
        """
        try:
            with contextlib.suppress(OSError, RuntimeError):  # the other end has closed already
                self.writer.write_eof()
            with contextlib.suppress(OSError):
                async with asyncio.timeout(FINISH_TIMEOUT_S):
                    while await self._reader.read(MAX_BYTES):
                        pass
        finally:  # also when the program ends meanwhile, which cancels this
            self.close()


async def prove(channel: Channel, key: str, *, is_first: bool) -> bool:
    """Prove to the other end that this one has the key; return whether it has proved it, too."""
    ours = secrets.token_hex(16)
    channel.send({"nonce": ours})
    theirs = str((await channel.read() or {}).get("nonce", ""))

    def proof(side: str) -> str:
        text = f"{side}:{ours if is_first else theirs}:{theirs if is_first else ours}"
        return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()

    mine, other = _SIDES if is_first else reversed(_SIDES)
    channel.send({"proof": proof(mine)})
    answer = str((await channel.read() or {}).get("proof", ""))
    return bool(theirs) and hmac.compare_digest(answer.encode(), proof(other).encode())
