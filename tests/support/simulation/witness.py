"""Somebody who sees everything: what the tables went through, and what really ran where.

The database tells by triggers, so that no change of state escapes, whoever makes it; a transaction
that is rolled back leaves nothing. Workers tell when they start and end.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster import wire
from muster_server.domain import states
from muster_server.domain.nodes.reports import is_reachable

if TYPE_CHECKING:
    from .shim import SimulatedShim
    from .world import World

MACHINES: Mapping[str, states.Transitions] = {
    "experiment": states.EXPERIMENT_TRANSITIONS,
    "trial": states.TRIAL_TRANSITIONS,
    "attempt": states.ATTEMPT_TRANSITIONS,
    "allocation": states.ALLOCATION_TRANSITIONS,
    "node": states.NODE_TRANSITIONS,
}

_STATE_COLUMNS = {
    "experiment": ("experiments", "id", "state"),
    "trial": ("trials", "id", "state"),
    "attempt": ("attempts", "id", "state"),
    "allocation": ("allocations", "id", "observed"),
    "node": ("nodes", "id", "state"),
}


def triggers() -> list[str]:
    """Statements that make a database report to a witness."""
    statements = [
        "CREATE TABLE sim_changes(id INTEGER PRIMARY KEY, what, subject, old, new)",
        "CREATE TABLE sim_violations(id INTEGER PRIMARY KEY, text)",
    ]
    for what, (table, key, column) in _STATE_COLUMNS.items():
        statements += [
            f"CREATE TRIGGER sim_{what}_update AFTER UPDATE OF {column} ON {table} "
            f"WHEN old.{column} <> new.{column} BEGIN INSERT INTO sim_changes(what, subject, old, "
            f"new) VALUES ('{what}', new.{key}, old.{column}, new.{column}); END",
            f"CREATE TRIGGER sim_{what}_insert AFTER INSERT ON {table} BEGIN "
            f"INSERT INTO sim_changes(what, subject, old, new) "
            f"VALUES ('{what}', new.{key}, NULL, new.{column}); END",
        ]
    statements.append(
        "CREATE TRIGGER sim_checkpoint AFTER INSERT ON checkpoints BEGIN INSERT INTO sim_changes("
        "what, subject, old, new) VALUES ('checkpoint', new.trial_id, NULL, new.state); END"
    )
    current = "(SELECT attempt_no FROM trials WHERE id = new.trial_id)"
    for name, table, condition, text in (
        (
            "two_attempts",
            "attempts",
            "EXISTS (SELECT 1 FROM allocations WHERE trial_id = new.trial_id "
            "AND observed NOT IN ('CLEANED', 'LOST'))",
            "'attempt ' || new.no || ' of trial ' || new.trial_id || ' was made while an earlier "
            "one had allocations that may live'",
        ),
        (
            "stale_checkpoint",
            "checkpoints",
            f"new.attempt_no <> {current}",
            "'a checkpoint of attempt ' || new.attempt_no || ' of trial ' || new.trial_id || "
            "' was registered after it was superseded'",
        ),
        (
            "stale_metrics",
            "metric_batches",
            f"new.attempt_no <> {current}",
            "'metrics of attempt ' || new.attempt_no || ' of trial ' || new.trial_id || "
            "' were taken after it was superseded'",
        ),
    ):
        statements.append(
            f"CREATE TRIGGER sim_{name} AFTER INSERT ON {table} WHEN {condition} "
            f"BEGIN INSERT INTO sim_violations(text) VALUES ({text}); END"
        )
    statements += [
        "CREATE TRIGGER sim_slot_taken AFTER UPDATE OF allocation_id ON node_slots "
        "WHEN old.allocation_id IS NOT NULL AND new.allocation_id IS NOT NULL "
        "AND old.allocation_id <> new.allocation_id BEGIN INSERT INTO sim_violations(text) "
        "VALUES ('slot ' || new.idx || ' of ' || new.node_id || ' was given away twice'); END",
        "CREATE TRIGGER sim_slot_freed AFTER UPDATE OF allocation_id ON node_slots "
        "WHEN old.allocation_id IS NOT NULL AND new.allocation_id IS NULL AND "
        "(SELECT observed FROM allocations WHERE id = old.allocation_id) <> 'CLEANED' "
        "BEGIN INSERT INTO sim_violations(text) VALUES ('slot ' || new.idx || ' of ' || "
        "new.node_id || ' was freed while ' || old.allocation_id || ' holds it'); END",
        "CREATE TRIGGER sim_acked AFTER UPDATE OF acked_seq ON allocations "
        "WHEN new.acked_seq < old.acked_seq BEGIN INSERT INTO sim_violations(text) "
        "VALUES ('acknowledged records of ' || new.id || ' were forgotten'); END",
    ]
    return statements


@dataclass(frozen=True)
class Change:
    what: str
    subject: str
    before: str | None
    after: str


class Witness:
    def __init__(self, world: World, connection: Any) -> None:
        self._world = world
        self._connection = connection
        self._num_seen = 0
        self.changes: list[Change] = []
        self.acknowledged: dict[str, int] = defaultdict(int)
        """Allocation → highest record number an agent was told is durable."""
        self.sent: dict[tuple[str, int], wire.NumberedRecord] = {}
        """Every acknowledged record, by allocation and number."""
        self.saved: dict[int, set[int]] = defaultdict(set)
        """Trial → steps of which a checkpoint lies on storage."""
        self.logged: dict[str, str] = defaultdict(str)
        self.num_overlaps = 0
        """Times an attempt ran while an earlier one of the trial still lived somewhere."""
        self._live: dict[int, dict[int, int]] = defaultdict(dict)
        """Trial → attempt → number of its allocations with living workers."""
        self._occupied: dict[tuple[str, int], str] = {}

    # ---- the tables

    def look(self) -> list[Change]:
        """What has changed since the last look; judged, and returned."""
        rows = self._connection.execute(
            "SELECT id, what, subject, old, new FROM sim_changes WHERE id > ?", (self._num_seen,)
        ).fetchall()
        found = self._connection.execute("SELECT text FROM sim_violations").fetchall()
        for (text,) in found:
            self._world.violation(text)
        if found:
            self._connection.execute("DELETE FROM sim_violations")
        if not rows:
            return []
        self._num_seen = rows[-1][0]
        changes = [Change(what, str(subject), old, new) for _, what, subject, old, new in rows]
        for change in changes:
            self._judge(change)
        self.changes += changes
        return changes

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Straight from the tables, past everything that is under test."""
        found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return found

    def _judge(self, change: Change) -> None:
        if change.before is None or change.what not in MACHINES:
            return
        table = MACHINES[change.what]
        is_legal = (
            # Between two reports that got through, an agent may have gone several steps.
            is_reachable(change.before, change.after) or (change.before, change.after) in table
            if change.what == "allocation"
            else states.is_legal(table, change.before, change.after)
        )
        if not is_legal:
            self._world.violation(
                f"{change.what} {change.subject} went from {change.before} to {change.after}"
            )

    def fingerprint(self) -> str:
        """A digest of every change of state, in order."""
        text = "\n".join(f"{c.what} {c.subject} {c.before} {c.after}" for c in self.changes)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # ---- what really runs

    @property
    def num_living(self) -> int:
        return sum(sum(attempts.values()) for attempts in self._live.values())

    def workers_start(self, shim: SimulatedShim) -> None:
        spec = shim.spec
        for slot in spec.slots:
            holder = self._occupied.get((shim.computer.name, slot))
            if holder is not None:
                self._world.violation(
                    f"{spec.allocation_id} started on slot {slot} of {shim.computer.name}, on "
                    f"which {holder} still lives"
                )
            self._occupied[shim.computer.name, slot] = spec.allocation_id
        attempts = self._live[spec.trial_id]
        others = [no for no, num in attempts.items() if no != spec.attempt_no and num > 0]
        if others:
            self.num_overlaps += 1
            if spec.on_disconnect == "stop":
                self._world.violation(
                    f"attempt {spec.attempt_no} of trial {spec.trial_id} started while attempt "
                    f"{others[0]} lives, although on_disconnect is stop"
                )
        attempts[spec.attempt_no] = attempts.get(spec.attempt_no, 0) + 1
        if spec.resume_from is not None and spec.resume_step not in self.saved[spec.trial_id]:
            self._world.violation(
                f"trial {spec.trial_id} was to go on from step {spec.resume_step}, of which there "
                "is no checkpoint"
            )

    def workers_end(self, shim: SimulatedShim) -> None:
        spec = shim.spec
        self._live[spec.trial_id][spec.attempt_no] -= 1
        for slot in spec.slots:
            if self._occupied.get((shim.computer.name, slot)) == spec.allocation_id:
                del self._occupied[shim.computer.name, slot]

    def note_saved(self, spec: wire.AllocationSpec, step: int) -> None:
        self.saved[spec.trial_id].add(step)

    def note_logged(self, allocation_id: str, text: str) -> None:
        self.logged[allocation_id] += text

    def note_acknowledged(
        self, allocation_id: str, request: wire.RecordsRequest, reply: wire.RecordsReply
    ) -> None:
        """An agent was told what is durable. What a superseded attempt says is not promised."""
        if reply.superseded:
            return
        for numbered in request.records:
            if numbered.seq <= reply.acked_seq:
                self.sent[allocation_id, numbered.seq] = numbered
        self.acknowledged[allocation_id] = max(self.acknowledged[allocation_id], reply.acked_seq)
