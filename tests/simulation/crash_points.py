"""Everything that wrote to the database in one history, to be done again with a crash in it."""

import dataclasses
import gc
import json
from collections.abc import Callable
from contextlib import contextmanager, suppress

from sqlalchemy import event

from muster_server.db.leases import LeaseLost
from muster_server.loops.runner import Controller
from support.simulation import control_plane, world
from support.simulation.clock import deterministic


class Crash(LeaseLost):
    """kill -9. What a controller does not go on after, whatever it is doing."""


@dataclasses.dataclass(frozen=True)
class Work:
    """Something a process did to the database, and the database it found."""

    name: str
    before: bytes
    now_s: float
    do: Callable[[], object]


def record(scenario) -> list[Work]:
    """Play a history; every tick of a controller and every request that changed something."""
    found: list[Work] = []
    simulated = world.World(scenario)
    connection = world._shared["connection"]

    def note(name, do, run):
        before, num, now_s = connection.serialize(), connection.total_changes, simulated.loop.now_s
        answer = run()
        if connection.total_changes != num:
            found.append(Work(name, before, now_s, do))
        return answer

    outcome = simulated.api._outcome
    simulated.api._outcome = lambda do: note(
        "request", lambda: control_plane.ApiServer._outcome(simulated.api, do), lambda: outcome(do)
    )
    tick = Controller.tick

    def recorded_tick(controller, clock_now):
        def again():
            Controller(
                simulated.database,
                simulated.settings,
                holder=controller.holder,
                monotonic=simulated.loop.time,
            ).tick(clock_now)

        return note("tick", again, lambda: tick(controller, clock_now))

    Controller.tick = recorded_tick
    try:
        history = simulated.run()
    finally:
        Controller.tick = tick
    assert not history.violations, history.violations
    return found


class Replay:
    """The same database and clock as at the moment of a recorded piece of work."""

    def __init__(self):
        gc.freeze()  # what is there by now stays, and is not looked through each time
        self.database = world._shared_database()
        self.connection = world._shared["connection"]
        self.loop = world._shared_loop()
        self._num_left = None
        event.listen(self.database.engine, "before_cursor_execute", self._on_statement)
        event.listen(self.database.engine, "commit", self._count)

    def close(self):
        event.remove(self.database.engine, "before_cursor_execute", self._on_statement)
        event.remove(self.database.engine, "commit", self._count)

    def _on_statement(self, connection, cursor, statement, *_):
        if not statement.startswith("BEGIN"):  # before it nothing was begun
            self._count(connection)

    def _count(self, connection):
        if self._num_left is not None:
            if self._num_left == 0:
                self._has_crashed = True
                raise Crash  # and again, should anything still be tried
            self._num_left -= 1

    @contextmanager
    def _from(self, work, *, seed=1):
        # A cursor that a crash left in a cycle must not outlive the database that it reads.
        gc.collect()
        self.connection.deserialize(work.before)
        self.loop.now_s = work.now_s
        with deterministic(seed, lambda: self.loop.now_s):
            yield

    def undisturbed(self, work):
        """How many statements it takes, and what the database then says."""
        with self._from(work):
            self._num_left = 1 << 30
            work.do()
            num = (1 << 30) - self._num_left
            self._num_left = None
            return num, contents(self.connection)

    def crashed(self, work, at):
        """The database that is left by a death at the statement with this number."""
        with self._from(work):
            self._num_left = at
            self._has_crashed = False
            with suppress(Crash):
                work.do()
            self._num_left = None
            assert self._has_crashed, f"{work.name} has no statement {at}"
            return self.connection.serialize()

    def done_again(self, work, left):
        """What the database says when another process has done the work on what was left."""
        with self._from(dataclasses.replace(work, before=left), seed=2):  # it draws other ids
            work.do()
            return contents(self.connection)

    def done_twice(self, work):
        """How many promises are broken when work whose answer got lost is done again."""
        with self._from(work):
            work.do()
            work.do()
            (num,) = self.connection.execute("SELECT count(*) FROM sim_violations").fetchone()
            return num


TABLES = {
    "experiments": "id, state, desired, reason, search_seq, search_state",
    "trials": "id, state, desired, attempt_no, failures_user, failures_infra, no_progress, reason, "
    "pending_reason, step, summary, latest_checkpoint_id, flags, termination, logs_complete",
    "attempts": "trial_id, no, state, reason, resume_step, termination, root_rank, rendezvous_port",
    "allocations": "trial_id, attempt_no, node_rank, node_name, slots, desired, observed, "
    "acked_seq, message, exit",
    "node_slots": "idx, slot_type, allocation_id IS NOT NULL",
    "nodes": "name, state, scheduling, health, strikes",
    "workers": "trial_id, attempt_no, rank, step, exit_code, ended_at IS NOT NULL",
    "checkpoints": "trial_id, attempt_no, step, state",
    "metric_batches": "trial_id, attempt_no, seq, num_points",
    "log_streams": "trial_id, attempt_no, stream, size_bytes, is_complete",
    "search_events": "experiment_id, seq, key, actions",
    "events": "type, message, trial_id, attempt_no",
}


def contents(connection) -> dict[str, list[str]]:
    """What the database says, without what may rightly differ: ids, times, epochs."""
    return {
        table: sorted(
            json.dumps(row) for row in connection.execute(f"SELECT {columns} FROM {table}")
        )
        for table, columns in TABLES.items()
    }
