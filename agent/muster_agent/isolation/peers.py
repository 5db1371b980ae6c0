"""Who is at the other end of a unix socket, as the kernel tells it."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """The process that opened a connection."""

    pid: int
    """Its pid as this process sees it; 0 if it is in a pid namespace that this process cannot see.
    """
    uid: int


def peer_of(writer: asyncio.StreamWriter) -> Peer | None:
    """Return who opened the connection of `writer`; None on systems that do not tell."""
    if sys.platform != "linux":
        return None
    sock = writer.get_extra_info("socket")
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return Peer(pid=pid, uid=uid)
