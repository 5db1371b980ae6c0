"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    return free_ports(1)


def free_ports(num: int) -> int:
    """Return the first of so many consecutive ports that nothing listens on.

    They are below those that the system gives to clients by itself: a connection that another test
    opens meanwhile cannot take one.
    """
    for _ in range(100):
        first = random.SystemRandom().randrange(20_000, 31_000)
        sockets = []
        try:
            for port in range(first, first + num):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in sockets:
                one.close()
    raise AssertionError(f"no {num} free ports")
