"""The workers of one attempt, wherever they are: they train together or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shim import SimulatedShim


class Gang:
    def __init__(self, key: str, num_nodes: int) -> None:
        self.key = key
        """ "trial.attempt"."""
        self._num_nodes = num_nodes
        self._members: set[SimulatedShim] = set()
        self._all: list[SimulatedShim] = []
        self.is_broken = False
        """A member is gone before the end."""
        self.has_finished = False
        """The last step is done."""

    @property
    def is_complete(self) -> bool:
        return len(self._members) == self._num_nodes

    def join(self, shim: SimulatedShim) -> None:
        self._members.add(shim)
        self._all.append(shim)
        if self.is_complete:
            self._tell()

    def leave(self, shim: SimulatedShim, *, well: bool) -> None:
        if shim not in self._members:
            return
        if not ((well and self.has_finished) or self.is_broken):
            self.is_broken = True
            self._tell()
        self._members.discard(shim)

    def finish(self) -> None:
        self.has_finished = True
        self._tell()

    def _tell(self) -> None:
        for shim in self._all:
            if shim.is_alive:
                shim.commands.changed.set()
