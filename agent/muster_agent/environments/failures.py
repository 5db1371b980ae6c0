"""How a build of an environment ends without one."""

from __future__ import annotations

from typing import Literal

Fault = Literal["document", "node"]


class BuildFailed(Exception):
    """The environment cannot be built; the message is one sentence for people."""

    def __init__(self, message: str, *, fault: Fault) -> None:
        """Create the error; fault: "node" if it may succeed on another node, or later."""
        super().__init__(message)
        self.fault = fault


class BuildCanceled(Exception):
    """Nobody wants the environment any more."""
