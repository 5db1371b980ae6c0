"""The nodes, running and waiting trials of one pool and slot type, kept from pass to pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster_server.domain.scheduling.fitting import Shares
from muster_server.domain.scheduling.resources import Request

from .nodes import GroupNodes, Node, fit_in
from .queue import GroupQueue, IdleRoom
from .running import GroupRunning
from .spares import num_possible
from .times import SlotTimes
from .views import GroupKey, QueuedTrial, RunningTrial


class SchedulingGroup:
    def __init__(self, key: GroupKey, quotas: Mapping[int, int]) -> None:
        self.key = key
        self.quotas = quotas
        """Project → most slots it may hold here at once."""
        self.running = GroupRunning()
        self.queue = GroupQueue(quotas)
        self.nodes = GroupNodes(())
        self.times = SlotTimes(self.nodes, self.running)
        self._checked: tuple[GroupNodes, int] | None = None
        """The nodes, and their version, for which kinds have been checked."""
        self._num_beside = 0
        """Number of open nodes that could be spares."""

    @property
    def is_empty(self) -> bool:
        return not (self.nodes.nodes or self.running.trials or self.queue.lines)

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        self.nodes = GroupNodes(nodes)
        self.times = SlotTimes(self.nodes, self.running)

    def replace_node(self, node: Node) -> bool:
        """False when all nodes have to be set anew."""
        if not self.nodes.replace(node):
            return False
        self.times.change([node.id])
        return True

    def update_running(
        self, removed: Iterable[RunningTrial], added: Iterable[RunningTrial]
    ) -> None:
        self.times.change(self.running.update(removed, added))

    def set_quotas(self, quotas: Mapping[int, int]) -> None:
        if quotas != self.quotas:
            self.quotas = quotas
            trials = self.queue.trials()
            self.queue = GroupQueue(quotas)
            self.queue.update((), trials)

    def update_queue(self, removed: Iterable[QueuedTrial], added: Iterable[QueuedTrial]) -> None:
        self.queue.update(removed, added)

    def begin(self, now: float) -> None:
        """A new pass begins."""
        self.nodes.reset(now)
        self.times.begin(now)
        state = (self.nodes, self.nodes.version)
        is_changed = state != self._checked
        if is_changed and self.nodes.num_spares:
            self._num_beside = num_possible(self.nodes)
        self.queue.check(self._could_hold, anew=is_changed)
        self._checked = state

    def shares_of(self, trial: RunningTrial) -> Shares[int]:
        """Return the slots that the trial holds on open nodes of the group, by node ordinal."""
        return {
            n: num
            for node_id, num in trial.shares.items()
            if (n := self.nodes.ordinal.get(node_id)) is not None and self.nodes.room(n)
        }

    def _could_hold(self, request: Request) -> IdleRoom:
        """Return whether the open nodes could hold a gang of the least size if they were idle."""
        least = request.least_slots
        shares = fit_in(self.nodes, request, lambda s: s.room, at_most=least)
        if shares is None:
            return IdleRoom.NONE
        is_beside = self._num_beside - len(shares) >= self.nodes.num_spares
        return (
            IdleRoom.ENOUGH if is_beside or not self.nodes.num_spares else IdleRoom.WITHOUT_SPARES
        )
