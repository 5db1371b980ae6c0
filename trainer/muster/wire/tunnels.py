"""Tunnels into a running job: a command, a shell, or a TCP connection to one of its ports.

The agent dials `GET /agent/v1/tunnels/{id}` as a WebSocket when its assignments ask for it, and the
server connects it with the user's socket. Every message is binary; its first byte is the channel,
as in Kubernetes' v5.channel.k8s.io. A tunnel to a port uses STDIN and STDOUT only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

TUNNEL_MESSAGE_BYTES = 64 * 1024
"""Longest message in bytes."""
TUNNEL_KEEPALIVE_S = 20.0
"""Seconds after which an agent sends an empty STDOUT message: proxies close what carries no data."""
WRONG_SERVER = 4404
"""Close code for an agent that reached another API server than the one with the user's socket; it
dials again."""

# Opening a terminal does not make it the controlling one; without that, Ctrl-C signals nobody.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Python program that takes its input for its terminal and becomes the command in its arguments."""


class TunnelChannel(IntEnum):
    """First byte of a message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    END = 3
    """JSON: {"exit_code": int | null, "message": "..."}; the last message of the agent."""
    RESIZE = 4
    """JSON: {"rows": int, "columns": int}."""
    CLOSE = 255
    """The next byte names a channel that ends: STDIN towards the job, STDOUT from a port."""


TunnelKind = Literal["exec", "shell", "port"]


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """A tunnel that this node should open now."""

    id: str
    allocation_id: str
    kind: TunnelKind
    argv: list[str]
    """Command of `exec`; empty for the others."""
    port: int = 0
    """Port on 127.0.0.1 of `port`, which a process of the job must listen on."""
    rows: int = 24
    columns: int = 80
    has_terminal: bool = False
    """Whether the command gets a pseudo-terminal; a shell always does."""
