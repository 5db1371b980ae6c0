"""Connections of a sender, checked when they are made and cut off when time is up.

Targets name addresses that people enter, so a notification must not become a way to reach the
services of the server's own network. Checking an address before it is used is not enough: a name can
resolve to another one a moment later, and Apprise opens its connections itself. An audit hook of the
interpreter sees every connection of every Python library at the moment it is made, with the address
that it is made to. Within `guarded`, the hook refuses what the rules in domain/notifications/
addresses.py refuse, for the thread that is sending and for no other.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from muster_server.domain.notifications.addresses import Network, is_allowed

SOCKETS_MAX = 32
"""Most connections of one message."""

_active = threading.local()
_install = threading.Lock()
_installed = False


class AddressRefused(OSError):
    """The receiver is at an address that notifications must not be sent to."""


class SendTimeout(OSError):
    """The receiver did not finish in time."""


class _Guard:
    def __init__(self, networks: Sequence[Network] | None) -> None:
        self.networks = networks
        self.refused: str | None = None
        self.is_late = False
        self._handles: list[socket.socket] = []
        self._lock = threading.Lock()

    def check(self, sock: socket.socket, address: Any) -> None:
        """Raise AddressRefused for an address that is not allowed; keep a handle on the connection
        otherwise."""
        host = str(address[0]) if isinstance(address, tuple) and address else str(address)
        is_internet = sock.family in (socket.AF_INET, socket.AF_INET6)
        if self.networks is not None and not (is_internet and is_allowed(host, self.networks)):
            self.refused = self.refused or host
            raise AddressRefused(f"{host} is not a public address")
        with self._lock:
            if self.is_late or len(self._handles) >= SOCKETS_MAX:
                raise SendTimeout("the receiver did not finish in time")
            # A handle of its own: wrapping a connection in TLS closes the first one.
            self._handles.append(socket.socket(fileno=os.dup(sock.fileno())))

    def cut(self) -> None:
        """End every connection: whoever waits on one is woken with an error or the end."""
        with self._lock:
            self.is_late = True
            for handle in self._handles:
                with contextlib.suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            for handle in self._handles:
                handle.close()
            self._handles.clear()


@contextlib.contextmanager
def guarded(networks: Sequence[Network] | None, *, timeout_s: float) -> Iterator[None]:
    """Check the connections that this thread makes, and end them after `timeout_s`.

    networks: networks that are allowed although they are not public; None allows every address,
        for a receiver that the operator of the server has chosen.
    Raises AddressRefused and SendTimeout in place of what a library made of them.
    """
    _install_hook()
    guard = _Guard(networks)
    timer = threading.Timer(timeout_s, guard.cut)
    timer.daemon = True
    _active.guard = guard
    timer.start()
    try:
        yield
    except Exception as error:
        _explain(guard, timeout_s, error)
        raise
    else:
        _explain(guard, timeout_s, None)
    finally:
        timer.cancel()
        del _active.guard
        guard.close()


def is_guarded() -> bool:
    """Return whether this thread is within `guarded`."""
    return getattr(_active, "guard", None) is not None


def _explain(guard: _Guard, timeout_s: float, error: Exception | None) -> None:
    """Raise what really happened: libraries turn refusals into errors, or results, of their own."""
    if guard.refused is not None:
        raise AddressRefused(
            f"{guard.refused} is not a public address; an administrator can allow its network with "
            "MUSTER_NOTIFY_ALLOWED_NETWORKS"
        ) from error
    if guard.is_late:
        raise SendTimeout(f"the receiver did not finish within {timeout_s:g} s") from error


def _install_hook() -> None:
    global _installed
    with _install:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto"):
        guard: _Guard | None = getattr(_active, "guard", None)
        if guard is not None:
            guard.check(arguments[0], arguments[1])
