"""Why an allocation cannot run on this node."""

from __future__ import annotations

from muster import wire


class PrepareFailed(Exception):
    """This node cannot run the allocation; the message is one clear sentence.

    blames: "placement" unless said otherwise: what was looked for is not here. passes: of a node,
    what its health checks find as well; see wire.StateRecord.
    """

    def __init__(
        self,
        message: str,
        *,
        blames: wire.Blame = "placement",
        passes: bool = False,
    ) -> None:
        super().__init__(message)
        self.blames = blames
        self.passes = passes
