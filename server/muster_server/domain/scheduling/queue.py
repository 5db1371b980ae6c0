"""Who waits in a group, in lines: one per priority and project, each in the order of its places."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from itertools import accumulate
from typing import NamedTuple

from muster_server.domain.scheduling.resources import Request

from . import sorting
from .views import QueuedTrial

SPARE_REQUESTS = 500
"""Requests of trials that are gone that are remembered before they are forgotten together."""


class IdleRoom(Enum):
    """What the open nodes of a group could hold if they were idle."""

    NONE = "none"
    WITHOUT_SPARES = "without spares"
    """It fits, but not beside the spares of the pool."""
    ENOUGH = "enough"


class Kind:
    """Trials that are alike: what does not fit for one of them does not fit for any.

    One object per kind and group, compared by identity.
    """

    __slots__ = (
        "counted_slots",
        "expected_s",
        "is_checked",
        "is_idle_enough",
        "lost_slots",
        "num_trials",
        "quota",
        "request",
        "resize_slots",
    )

    def __init__(
        self,
        request: Request,
        expected_s: float | None,
        resize_slots: int | None,
        lost_slots: int | None,
        quota: int | None,
    ) -> None:
        self.request = request
        self.expected_s = expected_s
        self.resize_slots = resize_slots
        self.lost_slots = lost_slots
        self.quota = quota
        """Quota of the project in this group, in slots; None for no limit."""
        self.num_trials = 0
        self.counted_slots = 0
        """Slots it counts for those behind it: its least size, 0 when it could never start."""
        self.is_checked = False
        self.is_idle_enough = False
        """The open nodes could hold it if they were idle and none were a spare."""

    @property
    def possible(self) -> bool:
        return self.counted_slots > 0

    @property
    def over_quota(self) -> bool:
        """It needs more than its project may ever hold."""
        return self.quota is not None and self.request.least_slots > self.quota

    @property
    def most_slots(self) -> int:
        """The size it may start with at most."""
        if self.resize_slots is None:
            return self.request.slots
        return max(self.request.least_slots, min(self.request.slots, self.resize_slots))


KindKey = tuple[Request, float | None, int | None, int | None, int | None]


class Entry(NamedTuple):
    """A waiting trial at its place. Entries sort by place: ids are unique, so no further."""

    queue_no: float
    trial_id: int
    trial: QueuedTrial
    kind: Kind


class Turn(IntEnum):
    """Order of turns among the trials of one priority."""

    RETURNING = 0
    """They come back with another size, or after they lost a node in a pool with spares: what they
    held is not lost to them."""
    PROMISED = 1
    """Slots are being collected for them: those are not given away when shares change."""
    SHARED = 2
    """All others, by fair share."""


def turn_of(trial: QueuedTrial) -> Turn:
    if trial.resize_slots is not None or trial.lost_slots is not None:
        return Turn.RETURNING
    return Turn.SHARED if trial.promised_since is None else Turn.PROMISED


class LineKey(NamedTuple):
    """Lines sort in the order in which a project's trials are considered."""

    importance: int
    """Minus the priority."""
    turn: Turn
    project_id: int


class QueueLine:
    """The waiting trials of one project and priority, in their order."""

    def __init__(self, key: LineKey) -> None:
        self.key = key
        self.entries: list[Entry] = []
        self.by_kind: dict[Kind, list[Entry]] = {}
        self._firsts: list[Entry] | None = None
        self._before: list[int] | None = None

    def add(self, entries: Sequence[Entry]) -> None:
        sorting.insert(self.entries, entries)
        for kind, alike in _grouped(entries).items():
            kind.num_trials += len(alike)
            sorting.insert(self.by_kind.setdefault(kind, []), alike)
        self._firsts = self._before = None

    def remove(self, entries: Sequence[Entry]) -> None:
        sorting.delete(self.entries, entries)
        for kind, alike in _grouped(entries).items():
            kind.num_trials -= len(alike)
            sorting.delete(self.by_kind[kind], alike)
            if not self.by_kind[kind]:
                del self.by_kind[kind]
        self._firsts = self._before = None

    def firsts(self) -> list[Entry]:
        """Return the first trial of each kind, in order (which makes the list a heap). A copy."""
        if self._firsts is None:
            self._firsts = sorted(alike[0] for alike in self.by_kind.values())
        return self._firsts.copy()

    def recount(self) -> None:
        """Discard the counts, because what kinds count for has changed."""
        self._before = None

    def before(self) -> list[int]:
        """Return the slots counted ahead of each entry, in the line; one more number, for all of
        them."""
        if self._before is None:
            counted = [entry.kind.counted_slots for entry in self.entries]
            self._before = list(accumulate(counted, initial=0))
        return self._before

    def index(self, entry: Entry) -> int:
        return bisect_left(self.entries, entry)

    def following(self, entry: Entry) -> Entry | None:
        """Return the next trial of the same kind."""
        alike = self.by_kind[entry.kind]
        at = bisect_left(alike, entry) + 1
        return alike[at] if at < len(alike) else None


class GroupQueue:
    """All lines of a group. Changed between passes, read during one."""

    def __init__(self, quotas: Mapping[int, int]) -> None:
        self.lines: dict[LineKey, QueueLine] = {}
        self._quotas = quotas
        """Project → most slots it may hold in this group."""
        self._kinds: dict[KindKey, Kind] = {}
        self._quick: dict[tuple[int, float | None, int | None, int | None, int | None], Kind] = {}
        """Kinds by the identity of the request: hashing one takes longer than placing it."""
        self._requests: list[Request] = []
        """Requests of `_quick`, kept so that nothing else gets their identity."""

    def __len__(self) -> int:
        return sum(len(line.entries) for line in self.lines.values())

    def trials(self) -> list[QueuedTrial]:
        return [entry.trial for line in self.lines.values() for entry in line.entries]

    def update(self, removed: Iterable[QueuedTrial], added: Iterable[QueuedTrial]) -> None:
        for key, entries in self._by_line(removed).items():
            line = self.lines[key]
            line.remove(entries)
            if not line.entries:
                del self.lines[key]
        for key, entries in self._by_line(added).items():
            if key not in self.lines:
                self.lines[key] = QueueLine(key)
            self.lines[key].add(entries)
        self._forget_unused_kinds()

    @property
    def kinds(self) -> Collection[Kind]:
        return self._kinds.values()

    def check(self, could_hold: Callable[[Request], IdleRoom], *, anew: bool) -> None:
        """Find out which kinds could ever start: the new ones, or all of them."""
        changed = False
        for kind in self._kinds.values():
            if anew or not kind.is_checked:
                room = could_hold(kind.request)
                kind.is_idle_enough = room is not IdleRoom.NONE and not kind.over_quota
                possible = kind.is_idle_enough and (
                    room is IdleRoom.ENOUGH or kind.lost_slots is not None
                )
                counted = kind.request.least_slots if possible else 0
                changed |= kind.counted_slots != counted
                kind.counted_slots = counted
                kind.is_checked = True
        if changed:
            for line in self.lines.values():
                line.recount()

    def _by_line(self, trials: Iterable[QueuedTrial]) -> dict[LineKey, list[Entry]]:
        lines: dict[LineKey, list[Entry]] = {}
        for trial in trials:
            key = LineKey(-trial.priority, turn_of(trial), trial.project_id)
            entry = Entry(trial.place, trial.trial_id, trial, self._kind(trial))
            lines.setdefault(key, []).append(entry)
        return lines

    def _kind(self, trial: QueuedTrial) -> Kind:
        quota = self._quotas.get(trial.project_id)
        rest = (trial.expected_s, trial.resize_slots, trial.lost_slots, quota)
        quick = (id(trial.request), *rest)
        kind = self._quick.get(quick)
        if kind is None:
            key = (trial.request, *rest)
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = Kind(*key)
            self._requests.append(trial.request)
            self._quick[quick] = kind
        return kind

    def _forget_unused_kinds(self) -> None:
        unused = sum(1 for kind in self._kinds.values() if not kind.num_trials)
        if unused or len(self._quick) > 2 * len(self._kinds) + SPARE_REQUESTS:
            self._kinds = {key: kind for key, kind in self._kinds.items() if kind.num_trials}
            self._quick.clear()
            self._requests.clear()


def queue_order(trial: QueuedTrial) -> tuple[int, float, int]:
    """Priority, then place: the order of the queue as far as it does not depend on what is held."""
    return (-trial.priority, trial.place, trial.trial_id)


def _grouped(entries: Iterable[Entry]) -> dict[Kind, list[Entry]]:
    kinds: dict[Kind, list[Entry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    return kinds
