"""People: they submit, stop, change priorities and close nodes, and repeat what got no answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

from muster_server.errors import MusterError
from muster_server.schemas.experiments import ExperimentIn, ExperimentPatch
from muster_server.security.principal import Principal
from muster_server.services.core.callers import Caller
from muster_server.services.experiments import operations, trials
from muster_server.services.experiments import submission as experiments
from muster_server.services.nodes import management

from .scenario import Submission, UserAction

if TYPE_CHECKING:
    from .world import World

USER_ID = 1
USER = "ada"
ADA = Principal(kind="user", name=USER, role="member", user_id=USER_ID)
RETRY_S = 2.0
OPERATIONS = {
    "stop_experiment": operations.STOP,
    "kill_experiment": operations.KILL,
    "pause": operations.PAUSE,
    "resume": operations.RESUME,
}
PATIENCE_S = 60.0
"""How long a training may hang before somebody notices."""


class Users:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"users {world.seed}")
        self._answered: set[str] = set()

    def plan(self) -> None:
        scenario, loop = self._world.scenario, self._world.loop
        for submission in scenario.submissions:
            self._world.scripts[submission.name] = submission.script
            loop.call_at(submission.at_s, self._submit, submission)
        for action in scenario.actions:
            loop.call_at(action.at_s, self._act, action)

    def undo_all(self) -> None:
        """Every node is open again, and whoever sees a training hang stops it."""
        for submission in self._world.scenario.submissions:
            if any(mishap.kind == "hang" for _, mishap in submission.script.mishaps):
                self._world.loop.call_later(PATIENCE_S, self._stop, submission.name)
        for row in self._rows("SELECT id FROM nodes WHERE scheduling <> 'open'"):
            self._open(str(row[0]))
        for row in self._rows("SELECT id FROM experiments WHERE desired = 'pause'"):
            self._resume(int(row[0]))

    def _submit(self, submission: Submission) -> None:
        """Until it is acknowledged, with one key; sometimes the answer is lost and it is repeated."""
        world = self._world
        if not world.api.is_serving:
            world.loop.call_later(RETRY_S, self._submit, submission)
            return
        with world.database.transaction() as session:
            made = experiments.create_experiment(
                session,
                ExperimentIn(document=submission.text()),
                user_id=USER_ID,
                user_name=USER,
                now=world.api.clock.wall(),
                idempotency_key=submission.name,
            )
        world.trace(USER, f"submits {submission.name}: experiment {made.experiment_id}")
        known = world.submitted.setdefault(submission.name, made.experiment_id)
        if known != made.experiment_id or made.is_new != (submission.name not in self._answered):
            world.violation(f"{submission.name} was submitted twice")
        self._answered.add(submission.name)
        if self._rng.random() < world.network.weather.loss:
            world.loop.call_later(RETRY_S, self._submit, submission)

    def _act(self, action: UserAction) -> None:
        world = self._world
        now = world.api.clock.wall()
        made = sorted(world.submitted.values())
        if not world.api.is_serving or not made:
            return
        experiment_id = made[action.target % len(made)]
        world.trace(USER, f"{action.kind} (target {action.target}, amount {action.amount})")
        match action.kind:
            case "stop_experiment" | "kill_experiment" | "pause" | "resume":
                operation = OPERATIONS[action.kind]
                self._try(
                    lambda session: operations.run(
                        session, operation, experiment_id, self._caller()
                    )
                )
            case "stop_trial":
                rows = self._rows("SELECT id, experiment_id FROM trials ORDER BY id")
                trial_id, _ = rows[action.target % len(rows)]
                self._try(
                    lambda session: trials.end_trial(
                        session, trial_id, "stop", principal=ADA, now=now
                    )
                )
            case "priority":
                self._try(
                    lambda session: experiments.update_experiment(
                        session,
                        experiment_id,
                        ExperimentPatch(priority=action.amount),
                        principal=ADA,
                        now=now,
                    )
                )
            case "cordon" | "drain" | "open":
                rows = self._rows("SELECT id FROM nodes ORDER BY name")
                if rows:
                    node_id = rows[action.target % len(rows)][0]
                    wanted = {"cordon": "cordoned", "drain": "draining", "open": "open"}
                    self._try(
                        lambda session: self._set_scheduling(session, node_id, wanted[action.kind])
                    )
            case "submit_again":
                submission = world.scenario.submissions[0]
                if submission.name in world.submitted:
                    self._submit(submission)

    def _open(self, node_id: str) -> None:
        self._try(lambda session: self._set_scheduling(session, node_id, "open"))

    def _resume(self, experiment_id: int) -> None:
        self._try(
            lambda session: operations.run(
                session, operations.RESUME, experiment_id, self._caller()
            )
        )

    def _stop(self, name: str) -> None:
        experiment_id = self._world.submitted[name]
        self._try(
            lambda session: operations.run(session, operations.STOP, experiment_id, self._caller())
        )

    def _caller(self) -> Caller:
        return Caller(principal=ADA, now=self._world.api.clock.wall())

    def _set_scheduling(self, session: Session, node_id: str, scheduling: str) -> None:
        management.set_scheduling(
            session, node_id, scheduling, actor=USER, now=self._world.api.clock.wall()
        )

    def _try(self, do: Callable[[Session], object]) -> None:
        try:
            with self._world.database.transaction() as session:
                do(session)
        except MusterError as error:
            self._world.trace(USER, f"is refused: {error.message}")

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._world.witness.rows(query)
