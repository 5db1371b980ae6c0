"""What an older server leaves out of its answers: shown as missing, and said once."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .output import say

if TYPE_CHECKING:
    from muster.client import Client

_said: set[str] = set()


class Absent:
    """A value that the server does not know of: false, empty, and "–" in a text. Whatever is computed or
    looked up with it is absent too."""

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, _key: object) -> bool:
        return False

    def __str__(self) -> str:
        return "–"

    def __rich__(self) -> str:
        return "–"

    def __float__(self) -> float:
        return math.nan

    def __int__(self) -> int:
        return 0

    def __format__(self, _spec: str) -> str:
        return "–"

    def __getitem__(self, _key: object) -> Absent:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_arguments: Any, **_options: Any) -> Absent:
        return self

    def _same(self, _other: object = None) -> Absent:
        return self

    def _never(self, _other: object) -> bool:
        return False

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _same
    __and__ = __rand__ = __or__ = __ror__ = __neg__ = _same
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _never


ABSENT = Absent()


class ServerObject(dict[str, Any]):
    """An object of the server's answer."""

    def __missing__(self, key: str) -> Absent:
        if not _said:
            say("The server is older than this command. What it does not know of is shown as –.")
        _said.add(key)
        return ABSENT


@functools.cache
def server() -> Client:
    """Return the client of the command that runs, the same at every call. Raises NotConfigured."""
    from muster.client import Client
    from muster.launch import traces

    if traces.start("muster"):
        # A collector that is away is no concern of who reads what a command prints.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    client = Client.from_environment()
    client.object_hook = ServerObject
    return client


def hang_up() -> None:
    """Close the client of the command that ends, if it had one."""
    if server.cache_info().currsize:
        server().close()
        server.cache_clear()
