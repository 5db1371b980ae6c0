"""A client of the REST service, for the command line, scripts and notebooks.

    with Client() as muster:
        experiment = muster.submit(Path("experiment.yaml"))
        ended = muster.wait(experiment["id"])
        frame = muster.series(ended["best_trial_id"], "val/loss").to_pandas()

Needs the `cli` extra. Answers are the JSON objects of the API, as they come: dictionaries whose types
`muster.client.schema` names for type checkers. The server describes them under /docs.

Errors

ClientError (code, message, hint, fields, status)
├── NotConfigured   nobody said where the server is
├── Unreachable     no answer, also after retrying
└── Refused         the server answered with an error
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .client import Client
from .connection import quoted
from .errors import ClientError, NotConfigured, Refused, Unreachable
from .frames import Frame
from .target import Target, find_target, muster_home, write_target

if TYPE_CHECKING:
    from .asynchronous import AsyncClient

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Frame",
    "NotConfigured",
    "Refused",
    "Target",
    "Unreachable",
    "find_target",
    "muster_home",
    "quoted",
    "write_target",
]


def __getattr__(name: str) -> Any:
    if name != "AsyncClient":
        raise AttributeError(f"module 'muster.client' has no attribute {name!r}")
    # Loaded on first use: the command line does not wait for asyncio.
    from .asynchronous import AsyncClient

    return AsyncClient
