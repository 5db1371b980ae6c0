"""Real trainings on a real stack whose processes are killed and frozen, and what must still be true.

    python -m muster.testing.chaos --minutes 5 --seed 1

The order of blows follows from the seed; what they hit at that moment does not altogether. Parts
are killed (SIGKILL) or frozen (SIGSTOP, for less than a lease): API server, controller, Celery
worker, Redis-compatible server, agents; and shims and ranks of trainings, which is charged to their
trials and therefore done a few times only. Then everything is left alone, and judged:

* every trial completes, and its visible curve is the one of an undisturbed training, point by point;
* no rank of a trial ever ran twice at once: each holds a lock of the kernel while it lives;
* every slot is free, every allocation cleaned, and no process is left when Muster ends.

Needs the `local` extra.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from muster.client import Client, ClientError

from .stack import Stack, processes_of, wait_for

Kind = Literal["kill", "freeze"]
PARTS = ("server", "controller", "worker", "valkey", "agent-local-1", "agent-local-2")
MEMBERS = ("shim", "rank")
"""Of a training: hitting one costs its trial a restart."""
FREEZE_S = (0.5, 4.0)
PAUSE_S = (0.3, 2.5)
STEPS_MAX = 900
"""Of a training: all of its points are shown as they are."""
CHECKPOINT_S = 1.5
SETTLE_S = 300.0
"""Within which, and once more the time of the blows, everything has ended after the last one: waits
before restarts double, one training waits for the others, and the machine may be busy."""
PART_TRAINED = 0.6
"""Of the time of the blows: how long a training would take on its own."""
TRAININGS: tuple[dict[str, Any], ...] = (
    {"name": "gang", "resources": {"slots": 2, "nodes": 2}},
    {"name": "pair", "resources": {"slots": 2, "nodes": 1}},
    {"name": "single", "resources": {"slots": 1}, "launcher": "direct"},
)
"""More than there are slots: one waits. The first two run under torchrun."""


@dataclass
class Report:
    seed: int
    blows: collections.Counter[str] = field(default_factory=collections.Counter)
    """"kill server" → how often."""
    num_attempts: int = 0
    num_points: int = 0
    blows_s: float = 0.0
    settled_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        blows = ", ".join(f"{num} × {what}" for what, num in sorted(self.blows.items()))
        lines = [
            f"seed {self.seed}: {sum(self.blows.values())} blows in {self.blows_s:.0f} s ({blows})",
            f"{len(TRAININGS)} trainings, {self.num_attempts} attempts, {self.num_points} points "
            f"compared; all over {self.settled_s:.0f} s after the last blow",
        ]
        return "\n".join([*lines, *(self.problems or ["everything held"])])


@dataclass(frozen=True)
class Training:
    experiment_id: int
    num_steps: int
    num_ranks: int


class Chaos:
    """One run on a stack that has started. `witness`: an empty folder."""

    def __init__(self, stack: Stack, witness: Path, *, seed: int, duration_s: float) -> None:
        self.report = Report(seed)
        self._stack = stack
        self._witness = witness
        self._draw = random.Random(seed)  # noqa: S311 (nobody must not guess it)
        self._duration_s = duration_s
        self._step_s = max(0.05, duration_s / STEPS_MAX)
        self._hits: collections.Counter[int] = collections.Counter()
        self._hits_max = 2 if duration_s < 120 else 4
        self._thaws: list[threading.Timer] = []

    def run(self) -> Report:
        """Submit, strike, wait, judge, and end the stack."""
        with self._stack.client() as client:
            trainings = [self._submit(client, document) for document in TRAININGS]
            self._strike()
            ended_at = time.monotonic()
            for training in trainings:
                self._wait(client, training, ended_at)
            self.report.settled_s = time.monotonic() - ended_at
            for training in trainings:
                self._judge_training(client, training)
        self._judge_stack()
        return self.report

    def _submit(self, client: Client, document: dict[str, Any]) -> Training:
        num_steps = max(100, int(PART_TRAINED * self._duration_s / self._step_s))
        per_epoch = max(1, round(CHECKPOINT_S / self._step_s))
        epochs = max(1, num_steps // per_epoch)
        options = {"epochs": epochs, "steps_per_epoch": per_epoch, "step_s": self._step_s}
        script = [{"alone": str(self._witness)}, {"train": options}]
        text = json.dumps(
            {
                "entrypoint": ["-m", "muster.testing.scripted", json.dumps(script)],
                "restarts": {"user": 20, "infra": 20},
                "on_disconnect": "stop",
                **document,
            }
        )
        experiment = client.submit(text)
        return Training(experiment["id"], epochs * per_epoch, document["resources"]["slots"])

    # ---- blows

    def _strike(self) -> None:
        wait_for("a training has saved a checkpoint", self._ready, 200)
        began_at = time.monotonic()
        # Each kind of blow at least once, in an order of the seed; then whatever it says.
        blows: list[tuple[Kind, str]] = [
            (kind, what) for what in (*PARTS, *MEMBERS) for kind in ("kill", "freeze")
        ]
        self._draw.shuffle(blows)
        while time.monotonic() - began_at < self._duration_s:
            kind, what = blows.pop() if blows else self._any_blow()
            for_s = self._draw.uniform(*FREEZE_S)
            process = self._target(what)
            if process is not None:
                self._hit(process, kind, for_s)
                self.report.blows[f"{kind} {what.rpartition('-local')[0] or what}"] += 1
            time.sleep(self._draw.uniform(*PAUSE_S))
        self.report.blows_s = time.monotonic() - began_at
        for thaw in self._thaws:
            thaw.join()

    def _any_blow(self) -> tuple[Kind, str]:
        return self._draw.choice(("kill", "freeze")), self._draw.choice((*PARTS, *MEMBERS))

    def _hit(self, process: psutil.Process, kind: Kind, for_s: float) -> None:
        try:
            if kind == "kill":
                process.kill()
            else:
                process.suspend()
                thaw = threading.Timer(for_s, self._thaw, [process])
                thaw.start()
                self._thaws.append(thaw)
        except psutil.NoSuchProcess:
            pass  # it has just ended by itself

    def _thaw(self, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # killed meanwhile
            process.resume()

    def _target(self, what: str) -> psutil.Process | None:
        """A process to hit; None when there is none that may be hit now."""
        alive = {process.pid: process for process in processes_of(self._stack.home)}
        if what in PARTS:
            try:
                return alive.get(self._stack.part_pid(what))
            except (KeyError, ValueError):
                return None  # it is being started again
        ready = [trial for trial in self._ready() if self._hits[trial] < self._hits_max]
        members = [p for p in alive.values() if _trial_of(p, what) in ready]
        if not members:
            return None
        member = self._draw.choice(sorted(members, key=lambda p: p.pid))
        trial = _trial_of(member, what)
        assert trial is not None
        self._hits[trial] += 1
        return member

    def _ready(self) -> list[int]:
        """Trials that have saved a checkpoint in their attempt: three failures in a row without one
        would rightly end them. Straight from the tables: the server is one of those that are hit."""
        with contextlib.closing(self._tables()) as database:
            rows = database.execute(
                "SELECT DISTINCT t.id FROM trials t JOIN checkpoints c "
                "ON c.trial_id = t.id AND c.attempt_no = t.attempt_no "
                "WHERE t.state = 'RUNNING' ORDER BY t.id"
            )
            return [int(row[0]) for row in rows]

    def _tables(self) -> sqlite3.Connection:
        path = self._stack.home / "muster.db"
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)

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
            self.report.problems.append(str(error))

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
                    series["last"],
                    num_steps=training.num_steps,
                    may_miss=rank > 0,
                )
            ]

    def _judge_stack(self) -> None:
        problems = self.report.problems
        if (self._witness / "overlaps").exists():
            problems += (self._witness / "overlaps").read_text().splitlines()
        code = self._stack.interrupt()
        if code != 0:
            problems.append(f"muster up ended with {code}")
        for process in processes_of(self._stack.home):
            problems.append(f"process {process.pid} is left")
        with contextlib.closing(self._tables()) as database:
            problems += judge_tables(database)


def judge_curve(
    steps: Sequence[int], values: Sequence[float], *, num_steps: int, may_miss: bool = False
) -> list[str]:
    """What is wrong with a visible curve of `scripted.train` with one point per step from 1.

    may_miss: steps may be missing, but for the last one.
    """
    problems = []
    counts = collections.Counter(steps)
    doubled = [step for step, num in counts.items() if num > 1]
    if doubled:
        problems.append(f"doubled steps: {doubled[:5]}")
    missing = [step for step in range(1, num_steps + 1) if not counts[step]]
    if missing and (not may_miss or num_steps in missing):
        problems.append(f"{len(missing)} missing steps: {missing[:5]}")
    strange = [step for step in counts if not 1 <= step <= num_steps]
    if strange:
        problems.append(f"steps that were never done: {strange[:5]}")
    wrong = [s for s, value in zip(steps, values, strict=True) if abs(value - 1 / s) > 1e-12]
    if wrong:
        problems.append(f"wrong values at steps {wrong[:5]}")
    return problems


def judge_tables(database: sqlite3.Connection) -> list[str]:
    """What is still held or open although every trial has ended."""
    queries = {
        "slots are still taken": "SELECT count(*) FROM node_slots WHERE allocation_id IS NOT NULL",
        "allocations are not cleaned": "SELECT count(*) FROM allocations WHERE observed <> 'CLEANED'",
        "attempts have not ended": "SELECT count(*) FROM attempts WHERE ended_at IS NULL",
        "attempts began before the one before had ended": (
            "SELECT count(*) FROM attempts a JOIN attempts b ON b.trial_id = a.trial_id "
            "AND b.no = a.no + 1 WHERE b.created_at < a.ended_at"
        ),
    }
    return [
        f"{num} {what}"
        for what, query in queries.items()
        if (num := database.execute(query).fetchone()[0])
    ]


def _trial_of(process: psutil.Process, what: str) -> int | None:
    """Of which trial it is a shim or a rank; None: it is neither."""
    try:
        command, environment = process.cmdline(), process.environ()
    except (psutil.Error, OSError):
        return None
    if what == "shim" and "muster_agent.shim" in command:
        folder = Path(command[command.index("--dir") + 1])
        try:
            spec = json.loads((folder / "spec.json").read_text())
        except (OSError, ValueError):
            return None
        return int(spec["trial_id"])
    if what == "rank" and "RANK" in environment and "muster.testing.scripted" in command:
        return int(environment["MUSTER_TRIAL_ID"])
    return None


def run(*, seed: int, duration_s: float) -> Report:
    """One run in a home of its own, of which nothing is left."""
    with tempfile.TemporaryDirectory(prefix="muster-chaos-", ignore_cleanup_errors=True) as folder:
        witness = Path(folder) / "witness"
        witness.mkdir()
        stack = Stack(Path(folder) / "home")
        try:
            stack.start()
            return Chaos(stack, witness, seed=seed, duration_s=duration_s).run()
        finally:
            stack.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m muster.testing.chaos", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="of blows (default: 5)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2), "big"))
    options = parser.parse_args()
    if not 0 < options.minutes <= 24 * 60:
        parser.error("--minutes: must be more than 0 and at most 1440")
    report = run(seed=options.seed, duration_s=60 * options.minutes)
    print(report)  # noqa: T201
    return 1 if report.problems else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
