"""One run: submit, strike, wait, judge."""

from __future__ import annotations

import collections
import contextlib
import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.client import Client, ClientError
from support.stack import wait_for

from .faults import Blows
from .judge import judge_curve, judge_tables
from .recoveries import Recoveries, describe
from .waiting import Story, story_of
from .world import DatabaseKind, World, world

PAUSE_S = (0.3, 2.0)
RETRY_S = 0.1
STEPS_MAX = 900
"""Of a training: all of its points are shown as they are."""
CHECKPOINT_S = 1.5
SETTLE_S = 300.0
"""Within which, and once more the time of the blows, everything has ended after the last one: waits
before restarts double, one training waits for the others, and the machine may be busy."""
PART_TRAINED = 0.4
"""Of the time of the blows: how long a training would take on its own."""
TRAININGS: tuple[dict[str, Any], ...] = (
    {"name": "gang", "resources": {"slots": 2, "nodes": 2}},
    {"name": "pair", "resources": {"slots": 2, "nodes": 1}},
    {"name": "single", "resources": {"slots": 1}, "launcher": "direct"},
)
"""More than there are slots: one waits. The first two run under torchrun."""
SHORT_S = 60.0
"""A shorter run starts `pair` without torchrun, whose start would take as long as its steps."""
Say = Callable[[str], None]


@dataclass
class Report:
    seed: int
    database: DatabaseKind
    blows: collections.Counter[str] = field(default_factory=collections.Counter)
    """"kill server" → how often."""
    recovered_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """"server answers again" → how long each time."""
    num_attempts: int = 0
    num_points: int = 0
    blows_s: float = 0.0
    settled_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        blows = ", ".join(f"{num} × {what}" for what, num in sorted(self.blows.items()))
        lines = [
            f"seed {self.seed}, {self.database}: {sum(self.blows.values())} blows in "
            f"{self.blows_s:.0f} s ({blows})",
            f"{len(TRAININGS)} trainings, {self.num_attempts} attempts, {self.num_points} points "
            f"compared; all over {self.settled_s:.0f} s after the last blow",
            *describe(self.recovered_s),
        ]
        return "\n".join([*lines, *(self.problems or ["everything held"])])


@dataclass(frozen=True)
class Training:
    experiment_id: int
    num_steps: int
    num_ranks: int


class Chaos:
    """One run in a world that has started."""

    def __init__(
        self, place: World, report: Report, *, duration_s: float, only: str, say: Say
    ) -> None:
        self.report = report
        self._world = place
        self._stack = place.stack
        self._draw = random.Random(report.seed)
        self._duration_s = duration_s
        self._only = re.compile(only)
        self._step_s = max(0.05, duration_s / STEPS_MAX)
        self._story = Story(say)

    def run(self) -> None:
        """Submit, strike, wait, judge, and end the stack."""
        with self._stack.client() as client:
            trainings = [self._submit(client, document) for document in TRAININGS]
            with Recoveries() as recoveries, self._telling():
                self._strike(recoveries)
                ended_at = time.monotonic()
                for training in trainings:
                    self._wait(client, training, ended_at)
                self.report.settled_s = time.monotonic() - ended_at
                self.report.recovered_s = recoveries.took_s
            for training in trainings:
                self._judge_training(client, training)
        self._judge_stack()

    def _submit(self, client: Client, document: dict[str, Any]) -> Training:
        num_steps = max(100, int(PART_TRAINED * self._duration_s / self._step_s))
        per_epoch = max(1, round(CHECKPOINT_S / self._step_s))
        epochs = max(1, num_steps // per_epoch)
        options = {"epochs": epochs, "steps_per_epoch": per_epoch, "step_s": self._step_s}
        is_quick = self._duration_s < SHORT_S and document["name"] == "pair"
        script = [{"alone": str(self._world.witness)}, {"train": options}]
        text = json.dumps(
            {
                "entrypoint": ["-m", "support.nodes.scripted", json.dumps(script)],
                "restarts": {"user": 20, "infra": 20},
                "on_disconnect": "stop",
                **document,
                **({"launcher": "direct"} if is_quick else {}),
            }
        )
        experiment = client.submit(text)
        return Training(experiment["id"], epochs * per_epoch, document["resources"]["slots"])

    def _strike(self, recoveries: Recoveries) -> None:
        blows = Blows(
            self._world,
            self._draw,
            recoveries,
            is_long=self._duration_s >= 120,
            say=self._story.say,
        )
        wait_for("a training has saved a checkpoint", blows.ready, 200)
        began_at = time.monotonic()
        # Each kind of blow at least once, in an order of the seed; then whatever it says.
        kinds = [kind for kind in blows.kinds if self._only.search(kind)]
        left = list(kinds)
        self._draw.shuffle(left)
        was_refused = False
        while time.monotonic() - began_at < self._duration_s:
            is_due = bool(left) and not was_refused
            kind = left.pop() if is_due else self._draw.choice(kinds)
            was_refused = is_due
            if blows.strike(kind):
                was_refused = False
                self.report.blows[re.sub(r"(-local)?-\d+$", "", kind)] += 1
                time.sleep(self._draw.uniform(*PAUSE_S))
            else:
                if is_due:
                    left.insert(0, kind)  # nothing to be hit in this way now: later
                time.sleep(RETRY_S)
        self.report.blows_s = time.monotonic() - began_at
        blows.undo_all()

    @contextlib.contextmanager
    def _telling(self) -> Any:
        """Say what the trials do whenever that changes, so that a slow run differs from a stuck one."""
        is_over = threading.Event()

        def tell() -> None:
            while not is_over.wait(1.0):
                self._story.tell(story_of(self._world))

        thread = threading.Thread(target=tell, name="story", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    # ---- the verdict

    def _wait(self, client: Client, training: Training, ended_at: float) -> None:
        def state() -> str | None:
            try:
                found = str(client.experiment(training.experiment_id)["state"])
            except ClientError:
                return None
            return found if found in ("COMPLETED", "FAILED", "CANCELED") else None

        left_s = max(1.0, SETTLE_S + self._duration_s - (time.monotonic() - ended_at))
        try:
            wait_for(f"experiment {training.experiment_id} ends", state, left_s)
        except AssertionError as error:
            self.report.problems.append(f"{error}; {self._story.last_lines()}")

    def _judge_training(self, client: Client, training: Training) -> None:
        (trial,) = client.trials(training.experiment_id)
        name = f"trial {trial['id']} ({trial['experiment_name']})"
        self.report.num_attempts += trial["attempt_no"]
        if trial["state"] != "COMPLETED":
            self.report.problems.append(
                f"{name} is {trial['state']} at step {trial['step']} of {training.num_steps}, in "
                f"attempt {trial['attempt_no']}: {trial['reason'] or trial['pending_reason']}"
            )
            return
        for rank in range(training.num_ranks):
            reply = client.get(
                f"/trials/{trial['id']}/series", name="train/loss", rank=rank, max_points=1000
            )
            series = reply["series"][0]
            self.report.num_points += len(series["step"])
            # Ranks do not wait for each other here: of another rank than the one that saves, the
            # last steps before a checkpoint may never have been reported.
            self.report.problems += [
                f"{name}, rank {rank}: {problem}"
                for problem in judge_curve(
                    series["step"],
                    [float(value) for value in series["last"]],
                    num_steps=training.num_steps,
                    may_miss=rank > 0,
                )
            ]

    def _judge_stack(self) -> None:
        problems = self.report.problems
        if (self._world.witness / "overlaps").exists():
            problems += (self._world.witness / "overlaps").read_text().splitlines()
        code = self._stack.interrupt()
        if code != 0:
            problems.append(f"muster up ended with {code}")
        for process in self._world.processes():
            problems.append(f"process {process.pid} is left")
        with self._world.tables() as tables:
            problems += judge_tables(tables)


def run(
    *,
    seed: int,
    duration_s: float,
    database: DatabaseKind = "sqlite",
    only: str = "",
    say: Say = lambda _: None,
) -> Report:
    """One run in a home of its own, of which nothing is left.

    only: a regular expression; kinds of blows it is not found in are left out.
    say: takes a line of what goes on.
    """
    report = Report(seed, database)
    with world(database, seed=seed) as place:
        Chaos(place, report, duration_s=duration_s, only=only, say=say).run()
    return report
