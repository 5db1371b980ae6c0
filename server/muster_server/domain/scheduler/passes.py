"""Who runs next, where, and what everybody else waits for.

Order: higher priority first, then the lower queue number, then the lower trial id. A gang gets all its
slots or none.

The first trial of the queue that could run on the open nodes but not now is the *head* of its pool
and slot type. Slots that are free on the nodes where it needs the fewest more are kept for it;
whoever is behind may start only on other free slots (or beyond what is kept). So smaller trials
fill gaps, and none of them can make the head wait longer than the trials that run already make it
wait. There is no guess about how long anything runs. Trials behind the head keep nothing: each
becomes head in its turn. A trial that no combination of open nodes could ever hold waits with that
reason, and keeps nothing either.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster_server.domain.fitting import even_options, fit
from muster_server.domain.resources import NodeView, Request, count

from .decisions import Decision, NodeShare, Place, Wait
from .views import QueuedTrial, SchedulerPolicy, SchedulerSnapshot


def queue_order(trial: QueuedTrial) -> tuple[int, float, int]:
    queue_no = trial.queued_at.timestamp() if trial.queue_no is None else trial.queue_no
    return (-trial.priority, queue_no, trial.trial_id)


def schedule(
    snapshot: SchedulerSnapshot, *, now: dt.datetime, policy: SchedulerPolicy
) -> list[Decision]:
    """One decision per queued trial, in queue order. The same input gives the same output.

    `now` is part of the signature of every decision here; this first form does not need it.
    """
    nodes = {node.id: node for node in snapshot.nodes}
    groups: dict[tuple[str, str], _Group] = {}
    decisions: list[Decision] = []
    num_placed = 0
    position = 0
    for trial in sorted(snapshot.queue, key=queue_order):
        request = trial.request
        key = (request.pool, request.slot_type)
        if key not in groups:
            groups[key] = _Group.of(snapshot.nodes, *key)
        group = groups[key]
        reason = group.misfits.get(request)
        if reason is None and num_placed >= policy.max_placements:
            reason = "will be placed in the next pass"
        elif reason is None:
            shares = group.place(trial, nodes)
            if shares is not None:
                num_placed += 1
                decisions.append(
                    Place(trial_id=trial.trial_id, shares=shares, reason=_placed_reason(shares))
                )
                continue
            reason = group.explain(request)
            if group.head is None and group.keep_for(trial):
                pass  # its own reason is its own; those behind see what is kept for it
            else:
                group.misfits[request] = reason
        position += 1
        decisions.append(Wait(trial_id=trial.trial_id, position=position, reason=reason))
    return decisions


def plan(request: Request, nodes: Iterable[NodeView]) -> tuple[tuple[NodeShare, ...], str]:
    """Where one gang would go if the queue were empty: shares (empty when it would wait), reason."""
    all_nodes = tuple(nodes)
    group = _Group.of(all_nodes, request.pool, request.slot_type)
    trial = QueuedTrial(
        trial_id=0,
        trial_no=0,
        experiment_id=0,
        priority=0,
        queued_at=dt.datetime.fromtimestamp(0, dt.UTC),
        request=request,
    )
    shares = group.place(trial, {node.id: node for node in all_nodes})
    if shares is None:
        return (), group.explain(request)
    return shares, _placed_reason(shares)


@dataclass
class _Group:
    """The nodes of one pool as far as one slot type goes, and what is taken during a pass."""

    pool: str
    slot_type: str
    nodes: Sequence[NodeView]
    """All of the pool that have slots of this type, open or not."""
    free: dict[str, list[int]]
    """Open node → its free slot indexes, ascending."""
    capacity: dict[str, int]
    """Open node → all its slots of this type."""
    held: Counter[int | None]
    """Experiment → slots its allocations hold on open nodes."""
    head: QueuedTrial | None = None
    kept: dict[str, int] = field(default_factory=dict)
    """Node → slots kept for the head there."""
    offered: dict[str, int] = field(init=False)
    misfits: dict[Request, str] = field(default_factory=dict)
    """What already did not fit in this pass: free slots only get fewer, so it still does not."""

    @classmethod
    def of(cls, nodes: Iterable[NodeView], pool: str, slot_type: str) -> _Group:
        mine: list[NodeView] = []
        free: dict[str, list[int]] = {}
        capacity: dict[str, int] = {}
        held: Counter[int | None] = Counter()
        for node in sorted(nodes, key=lambda n: (n.name, n.id)):
            if node.pool != pool:
                continue
            slots = [slot for slot in node.slots if slot.slot_type == slot_type]
            if not slots:
                continue
            mine.append(node)
            if node.unavailable is not None:
                continue
            capacity[node.id] = len(slots)
            free[node.id] = sorted(slot.idx for slot in slots if slot.allocation_id is None)
            held.update(s.experiment_id for s in slots if s.allocation_id is not None)
        return cls(pool, slot_type, mine, free, capacity, held)

    def __post_init__(self) -> None:
        self.offered = self._offer()

    def _offer(self) -> dict[str, int]:
        """Free slots per node that the next trial may take, where there are any.

        Kept up to date by `place` rather than made anew: in a busy cluster that is most of a pass.
        """
        return {
            node: num
            for node, idle in self.free.items()
            if idle and (num := len(idle) - self.kept.get(node, 0)) > 0
        }

    def place(
        self, trial: QueuedTrial, nodes: Mapping[str, NodeView]
    ) -> tuple[NodeShare, ...] | None:
        def prefer(node_id: str) -> tuple[object, ...]:
            node = nodes[node_id]
            return (trial.preferred_host not in (None, node.host), node.strikes)

        chosen = fit(trial.request, self.offered, prefer=prefer)
        if chosen is None:
            return None
        shares: list[NodeShare] = []
        rank_offset = 0
        # Node rank 0 is where a checkpoint may lie; the rest by name, so that ranks look tidy.
        for node_id in sorted(chosen, key=lambda n: (prefer(n)[0], nodes[n].name, n)):
            taken = self.free[node_id][: chosen[node_id]]
            del self.free[node_id][: chosen[node_id]]
            self.offered[node_id] -= len(taken)
            if not self.offered[node_id]:
                del self.offered[node_id]
            self.held[trial.experiment_id] += len(taken)
            shares.append(
                NodeShare(
                    node_id=node_id,
                    node_name=nodes[node_id].name,
                    node_rank=len(shares),
                    rank_offset=rank_offset,
                    slots=tuple(taken),
                )
            )
            rank_offset += len(taken)
        return tuple(shares)

    def keep_for(self, trial: QueuedTrial) -> bool:
        """Make `trial` the head if the open nodes could hold it when they are idle."""

        def most_free_first(node_id: str) -> tuple[object, ...]:
            return (-len(self.free[node_id]),)

        options = even_options(trial.request, self.capacity, prefer=most_free_first)
        if not options:
            return False
        chosen = min(options, key=self._num_missing)
        self.head = trial
        self.kept = {node: min(share, len(self.free[node])) for node, share in chosen.items()}
        self.offered = self._offer()
        return True

    def _num_missing(self, option: Mapping[str, int]) -> tuple[int, int]:
        missing = sum(max(0, share - len(self.free[node])) for node, share in option.items())
        return (missing, len(option))

    def explain(self, request: Request) -> str:
        """Why `request` does not fit now, in one sentence part a person understands."""
        needs = f"needs {request.describe()}"
        total = sum(len(_of_type(node, self.slot_type)) for node in self.nodes)
        if not self.nodes:
            return f"{needs}: no node there has {self.slot_type} slots"
        if request.slots > total:
            return f"{needs}; it has {total:,}"
        if fit(request, {n.id: len(_of_type(n, self.slot_type)) for n in self.nodes}) is None:
            return f"{needs}: its {count(len(self.nodes), 'node')} cannot be divided that way"
        num_offered = sum(self.offered.values())
        parts = [f"{num_offered:,} free on {count(len(self.offered), 'node')}"]
        parts += [
            f"{num:,} held by " + (f"experiment {owner}" if owner is not None else "others")
            for owner, num in sorted(self.held.items(), key=lambda i: (-i[1], i[0] or 0))[:3]
        ]
        if self.head is not None and any(self.kept.values()):
            parts.append(
                f"{sum(self.kept.values()):,} kept for trial {self.head.trial_no} of experiment "
                f"{self.head.experiment_id}, which is ahead in the queue"
            )
        shut = Counter(
            {n.name: len(_of_type(n, self.slot_type)) for n in self.nodes if n.unavailable}
        )
        words = {n.name: n.unavailable for n in self.nodes}
        parts += [f"{num:,} on {name} ({words[name]})" for name, num in shut.most_common(3)]
        if num_offered >= request.slots:
            parts.append("but the free ones are not where such a gang could use them")
        return f"{needs}: {'; '.join(parts)}"


def _of_type(node: NodeView, slot_type: str) -> list[int]:
    return [slot.idx for slot in node.slots if slot.slot_type == slot_type]


def _placed_reason(shares: Sequence[NodeShare]) -> str:
    where = ", ".join(f"{len(s.slots)} on {s.node_name}" for s in shares[:4])
    more = f" and {len(shares) - 4} more nodes" if len(shares) > 4 else ""
    return f"{count(sum(len(s.slots) for s in shares), 'slot')}: {where}{more}"
