"""Clusters, queues and a small discrete-event cluster, to try scheduling on.

For the scheduler alone: no agents, no messages, nothing is lost. What a trial does is to take a
while, or to give up its slots some seconds after it has been asked.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_server.domain.messages import Message
from muster_server.domain.nodes.maintenance import Schedule, Window
from muster_server.domain.nodes.reservations import NodeReservation, on_nodes
from muster_server.domain.scheduling import (
    Decided,
    Decision,
    GroupKey,
    Placement,
    Preempt,
    ProjectView,
    QueuedTrial,
    Resize,
    RunningTrial,
    Scheduler,
    SchedulerPolicy,
    SchedulerSnapshot,
    schedule,
)
from muster_server.domain.scheduling.resources import NodeView, Request, SlotView

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def at(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def make_node(
    name: str,
    num_slots: int,
    *,
    held: int = 0,
    slot_type: str = "cpu",
    pool: str = "default",
    free_since: dt.datetime | None = None,
    problems: Mapping[int, str] | None = None,
    **changes: object,
) -> NodeView:
    """A node. held: how many of its slots are busy, from index 0 on. problems: what keeps new work off
    slots, by index."""
    slots = tuple(
        SlotView(
            idx=i,
            slot_type=slot_type,
            allocation_id=f"a{i}" if i < held else None,
            free_since=None if i < held else free_since,
            problem=(problems or {}).get(i, ""),
        )
        for i in range(num_slots)
    )
    view = NodeView(id=f"id-{name}", name=name, pool=pool, slots=slots)
    return dataclasses.replace(view, **changes)  # type: ignore[arg-type]


def make_window(
    start: float = 0.0, end: float | None = 3600.0, *, id: int = 1, **changes: object
) -> Window:
    """A maintenance window from `start` to `end`, in seconds from NOW. Keywords are fields of
    Window."""
    values: dict[str, object] = {"reason": "new switch", "running": "checkpoint"}
    ends_at = None if end is None else at(end)
    return Window(id=id, starts_at=at(start), ends_at=ends_at, **(values | changes))  # type: ignore[arg-type]


def under_windows(
    windows: Iterable[Window], nodes: Iterable[NodeView], now: dt.datetime = NOW
) -> list[NodeView]:
    """The nodes as a snapshot of this moment has them under these windows."""
    plan = Schedule(windows, now)
    return [
        dataclasses.replace(n, maintenance=plan.of_node(node=n.name, pool=n.pool)) for n in nodes
    ]


def make_reservation(
    start: float = 0.0, end: float = 3600.0, *, id: int = 1, **changes: object
) -> NodeReservation:
    """A reservation for project 7 from `start` to `end`, in seconds from NOW. Keywords are fields of
    NodeReservation."""
    values: dict[str, object] = {"nodes": ("a",), "beneficiary": "vision", "project_id": 7}
    return NodeReservation(id=id, starts_at=at(start), ends_at=at(end), **(values | changes))  # type: ignore[arg-type]


def under_reservations(
    reservations: Iterable[NodeReservation],
    nodes: Mapping[str, int] | Iterable[NodeView],
    now: dt.datetime = NOW,
) -> list[NodeView]:
    """The nodes as a snapshot of this moment has them under these reservations."""
    if isinstance(nodes, Mapping):
        nodes = [make_node(name, num) for name, num in nodes.items()]
    of_node = on_nodes(one for one in reservations if one.ends_at > now)
    return [dataclasses.replace(n, reservations=of_node.get(n.name, ())) for n in nodes]


def make_queued(trial_id: int, slots: int = 1, **changes: object) -> QueuedTrial:
    """A waiting trial. Keywords are fields of QueuedTrial or of its Request."""
    of_trial, of_request = _split(changes, QueuedTrial)
    values: dict[str, object] = {
        "trial_no": trial_id,
        "experiment_id": 1,
        "priority": 50,
        "queued_at": at(trial_id),
        "request": Request(slots=slots, **of_request),  # type: ignore[arg-type]
    }
    return QueuedTrial(trial_id=trial_id, **(values | of_trial))  # type: ignore[arg-type]


def make_running(trial_id: int, shares: Mapping[str, int], **changes: object) -> RunningTrial:
    """A running trial. shares: node name → slots. Keywords as of `make_queued`."""
    of_trial, of_request = _split(changes, RunningTrial)
    slots = of_request.pop("slots", sum(shares.values()))
    values: dict[str, object] = {
        "trial_no": trial_id,
        "attempt_no": 1,
        "experiment_id": trial_id,
        "project_id": 0,
        "priority": 50,
        "started_at": at(-3600),
        "request": Request(slots=slots, **of_request),  # type: ignore[arg-type]
        "shares": {f"id-{name}": num for name, num in shares.items()},
    }
    return RunningTrial(trial_id=trial_id, **(values | of_trial))  # type: ignore[arg-type]


def make_snapshot(
    nodes: Mapping[str, int] | Iterable[NodeView],
    queue: Iterable[QueuedTrial] = (),
    running: Iterable[RunningTrial] = (),
    projects: Iterable[ProjectView] = (),
) -> SchedulerSnapshot:
    """A snapshot whose nodes carry what `running` holds. nodes: views, or name → slots."""
    if isinstance(nodes, Mapping):
        nodes = [make_node(name, num) for name, num in nodes.items()]
    holders: dict[tuple[str, str], list[RunningTrial]] = defaultdict(list)
    running = tuple(running)
    for trial in running:
        for node_id, num in trial.shares.items():
            holders[node_id, trial.request.slot_type] += [trial] * num
    views = []
    for view in nodes:
        slots = []
        for slot in view.slots:
            waiting = holders[view.id, slot.slot_type]
            if slot.allocation_id is None and waiting:
                trial = waiting.pop(0)
                slot = dataclasses.replace(
                    slot, allocation_id=f"a{trial.trial_id}", free_since=None
                )
            slots.append(slot)
        views.append(dataclasses.replace(view, slots=tuple(slots)))
    assert not any(holders.values()), f"more is held than there is: {holders}"
    return SchedulerSnapshot(
        nodes=tuple(views), queue=tuple(queue), running=running, projects=tuple(projects)
    )


def run(
    nodes: Mapping[str, int] | Iterable[NodeView],
    queue: Iterable[QueuedTrial] = (),
    running: Iterable[RunningTrial] = (),
    *,
    projects: Iterable[ProjectView] = (),
    policy: SchedulerPolicy | None = None,
    now: dt.datetime = NOW,
) -> list[Decision]:
    """`schedule` on a snapshot of these."""
    snapshot = make_snapshot(nodes, queue, running, projects)
    return schedule(snapshot, now=now, policy=policy or SchedulerPolicy())


def placed(decisions: Iterable[Decision]) -> list[int]:
    """The trials that start."""
    return [d.trial_id for d in decisions if isinstance(d, Placement)]


def where(decisions: Iterable[Decision], trial_id: int) -> dict[str, int]:
    """Node name → slots of a trial that starts."""
    (place,) = (d for d in decisions if isinstance(d, Placement) and d.trial_id == trial_id)
    return {share.node_name: len(share.slots) for share in place.shares}


def reason_of(decisions: Iterable[Decision], trial_id: int) -> str:
    """Its first sentence: of a wait, without what would help."""
    return message_of(decisions, trial_id).english.partition(". ")[0]


def message_of(decisions: Iterable[Decision], trial_id: int) -> Message:
    """The whole reason of a decision on this trial."""
    return next(d.reason for d in decisions if d.trial_id == trial_id)


def _split(
    changes: Mapping[str, object], trial_type: type[QueuedTrial | RunningTrial]
) -> tuple[dict[str, object], dict[str, object]]:
    names = {f.name for f in dataclasses.fields(trial_type)}
    of_trial = {name: value for name, value in changes.items() if name in names}
    return of_trial, {name: value for name, value in changes.items() if name not in names}


# ---- a cluster in which time passes


@dataclass(kw_only=True)
class Job:
    """A trial to come."""

    trial_id: int
    request: Request
    arrives_s: float = 0.0
    work_s: float
    """How long it takes with all of its slots; with fewer, in proportion longer."""
    project_id: int = 0
    priority: int = 50
    preemptible: bool = True
    is_predictable: bool = False
    """Its end is known in advance."""


@dataclass(kw_only=True)
class JobHistory:
    job: Job
    starts: list[tuple[float, int]] = field(default_factory=list)
    """(seconds, slots) of each attempt."""
    asks: list[tuple[float, Preempt | Resize]] = field(default_factory=list)
    ended_s: float | None = None


class ClusterSimulation:
    """Jobs arrive, start, are asked to make room, and end; the scheduler looks after each change.

    Every decision is checked against the slots that are really free, and against quotas.
    """

    def __init__(
        self,
        nodes: Iterable[NodeView],
        jobs: Iterable[Job],
        *,
        projects: Iterable[ProjectView] = (),
        policy: SchedulerPolicy | None = None,
        yield_s: float = 5.0,
        look_every_s: float = 60.0,
    ) -> None:
        self.now_s = 0.0
        self.jobs = {job.trial_id: JobHistory(job=job) for job in jobs}
        self.used_slot_s: Counter[int] = Counter()
        """Project → slot-seconds."""
        self.num_passes = 0
        self._policy = policy or SchedulerPolicy()
        self._projects = tuple(projects)
        self._scheduler = Scheduler()
        self._yield_s = yield_s
        self._look_every_s = look_every_s
        self._nodes = {view.id: view for view in nodes}
        self._queue: dict[int, QueuedTrial] = {}
        self._running: dict[int, RunningTrial] = {}
        self._slots: dict[int, dict[str, tuple[int, ...]]] = {}
        self._left_slot_s: dict[int, float] = {
            i: h.job.work_s * h.job.request.slots for i, h in self.jobs.items()
        }
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, str, int, int]] = []
        for history in self.jobs.values():
            self._at(history.job.arrives_s, "arrive", history.job.trial_id)

    @property
    def is_done(self) -> bool:
        return all(history.ended_s is not None for history in self.jobs.values())

    def run(self, until_s: float) -> None:
        """Let time pass until everything has ended, or until then."""
        while not self.is_done and self.now_s < until_s:
            next_s = self._events[0][0] if self._events else until_s
            if self._queue or self._running:
                next_s = min(next_s, self.now_s + self._look_every_s)
            self._pass_time(min(next_s, until_s))
            while self._events and self._events[0][0] <= self.now_s:
                _, _, what, trial_id, attempt_no = heapq.heappop(self._events)
                self._happen(what, trial_id, attempt_no)
            for _ in range(20):  # what one pass leaves for the next comes at once
                if not self._look():
                    break

    def snapshot(self) -> SchedulerSnapshot:
        return SchedulerSnapshot(
            nodes=tuple(self._nodes.values()),
            queue=tuple(self._queue.values()),
            running=tuple(self._running.values()),
            projects=self._projects,
        )

    def change_nodes(self, **changes: object) -> None:
        """Change fields of all nodes, from the next pass on."""
        self._nodes = {
            node_id: dataclasses.replace(view, **changes)  # type: ignore[arg-type]
            for node_id, view in self._nodes.items()
        }

    def reserve(self, reservations: Iterable[NodeReservation]) -> None:
        """Put the nodes under these reservations, from the next pass on."""
        of_node = on_nodes(reservations)
        self._nodes = {
            view.id: view
            if view.reservations == of_node.get(view.name, ())
            else dataclasses.replace(view, reservations=of_node.get(view.name, ()))
            for view in self._nodes.values()
        }

    def running(self) -> list[RunningTrial]:
        """The trials that hold slots."""
        return list(self._running.values())

    def held(self) -> Counter[int]:
        """Project → slots."""
        held: Counter[int] = Counter()
        for trial in self._running.values():
            held[trial.project_id] += trial.slots
        return held

    def _at(self, when_s: float, what: str, trial_id: int, attempt_no: int = 0) -> None:
        heapq.heappush(self._events, (when_s, next(self._numbers), what, trial_id, attempt_no))

    def _pass_time(self, until_s: float) -> None:
        for trial in self._running.values():
            done = (until_s - self.now_s) * trial.slots
            self.used_slot_s[trial.project_id] += round(done)
            self._left_slot_s[trial.trial_id] -= done
        self.now_s = until_s

    def _happen(self, what: str, trial_id: int, attempt_no: int) -> None:
        history = self.jobs[trial_id]
        if what == "arrive":
            self._enqueue(history, resize_slots=None)
            return
        trial = self._running.get(trial_id)
        if trial is None or trial.attempt_no != attempt_no:
            return
        self._release(trial)
        if what == "end":
            history.ended_s = self.now_s
        else:
            ask = history.asks[-1][1]
            self._enqueue(history, resize_slots=ask.slots if isinstance(ask, Resize) else None)

    def _enqueue(self, history: JobHistory, *, resize_slots: int | None) -> None:
        job = history.job
        left_s = self._left_slot_s[job.trial_id] / job.request.slots
        self._queue[job.trial_id] = QueuedTrial(
            trial_id=job.trial_id,
            trial_no=1,
            experiment_id=job.trial_id,
            project_id=job.project_id,
            priority=job.priority,
            queued_at=at(job.arrives_s),
            waiting_since=at(self.now_s),
            request=job.request,
            preemptible=job.preemptible,
            expected_s=left_s if job.is_predictable and not job.request.elastic else None,
            resize_slots=resize_slots,
        )

    def _look(self) -> int:
        """One pass; how many actions it took."""
        self.num_passes += 1
        decided: Decided = self._scheduler.run(
            self.snapshot(), now=at(self.now_s), policy=self._policy
        )
        for action in decided.actions:
            if isinstance(action, Placement):
                self._start(action)
            else:
                self._ask(action)
        for wait in decided.waiting():
            trial = self._queue[wait.trial_id]
            since = (trial.promised_since or at(self.now_s)) if wait.is_promised else None
            if since != trial.promised_since:
                self._queue[trial.trial_id] = dataclasses.replace(trial, promised_since=since)
        self._check_quotas()
        return len(decided.actions)

    def _start(self, place: Placement) -> None:
        history = self.jobs[place.trial_id]
        job = history.job
        queued = self._queue.pop(job.trial_id)
        size = sum(len(share.slots) for share in place.shares)
        assert job.request.least_slots <= size <= job.request.slots
        self._slots[job.trial_id] = {}
        for share in place.shares:
            self._hold(share.node_id, share.slots, f"a{job.trial_id}")
            self._slots[job.trial_id][share.node_id] = share.slots
        history.starts.append((self.now_s, size))
        end_s = self.now_s + self._left_slot_s[job.trial_id] / size
        self._running[job.trial_id] = RunningTrial(
            trial_id=job.trial_id,
            trial_no=1,
            attempt_no=len(history.starts),
            experiment_id=job.trial_id,
            project_id=job.project_id,
            priority=job.priority,
            request=job.request,
            shares={share.node_id: len(share.slots) for share in place.shares},
            started_at=at(self.now_s),
            preemptible=job.preemptible,
            queue_no=queued.place,
            expected_end_at=at(end_s) if job.is_predictable else None,
        )
        self._at(end_s, "end", job.trial_id, len(history.starts))

    def _hold(self, node_id: str, slots: tuple[int, ...], allocation: str) -> None:
        view = self._nodes[node_id]
        assert view.unavailable is None
        held = {slot.idx for slot in view.slots if slot.allocation_id is not None}
        assert not held & set(slots), f"{node_id} holds {held}, {slots} are taken again"
        self._change(node_id, slots, allocation)

    def _change(self, node_id: str, indexes: tuple[int, ...], allocation: str | None) -> None:
        view = self._nodes[node_id]
        since = at(self.now_s) if allocation is None else None
        slots = tuple(
            dataclasses.replace(slot, allocation_id=allocation, free_since=since)
            if slot.idx in indexes
            else slot
            for slot in view.slots
        )
        self._nodes[node_id] = dataclasses.replace(view, slots=slots)

    def _ask(self, action: Preempt | Resize) -> None:
        trial = self._running[action.trial_id]
        assert not trial.yielding, "asked twice"
        self.jobs[action.trial_id].asks.append((self.now_s, action))
        self._running[action.trial_id] = dataclasses.replace(trial, yielding=True)
        self._at(self.now_s + self._yield_s, "yield", action.trial_id, action.attempt_no)

    def _release(self, trial: RunningTrial) -> None:
        del self._running[trial.trial_id]
        for node_id, slots in self._slots.pop(trial.trial_id).items():
            self._change(node_id, slots, None)

    def _check_quotas(self) -> None:
        held: Counter[tuple[int, GroupKey]] = Counter()
        for trial in self._running.values():
            held[trial.project_id, trial.group] += trial.slots
        for project in self._projects:
            for key, quota in project.quotas.items():
                assert held[project.id, key] <= quota, f"{project.name} is over its quota of {key}"
