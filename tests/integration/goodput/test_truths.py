"""What is done to real trainings, case by case, and what their ledgers say: within 2 % or 1 s."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from support.guides import last_id, shell
from support.quick_stack import QuickStack
from support.stack import scripted, wait_for

STEP_S, SAVE_S = 0.05, 0.4
SCRIPT = f"""
import time
born = time.time()
import json, os, sys
import muster

settings = json.loads(sys.argv[1])
run = muster.init()
rank = int(os.environ.get("RANK", 0))
truth = open(os.environ["TRUTH"], "a", buffering=1)

def say(kind, **more):
    if rank == 0:
        truth.write(json.dumps({{"kind": kind, "at": time.time(), "pid": os.getpid(), **more}}) + chr(10))

say("began", born=born)
if settings.get("gang"):
    import torch.distributed as dist
    dist.init_process_group("gloo")

def save(step):
    if rank:
        return
    with run.checkpoint(step=step) as folder:
        (folder / "step.txt").write_text(str(step))
        time.sleep({SAVE_S})

for step in range(run.resume_step + 1, settings["steps"] + 1):
    say("begins", step=step)
    time.sleep({STEP_S})
    if rank == 1:
        time.sleep(settings.get("hangs", {{}}).get(str(step), 0))
    if settings.get("gang"):
        dist.barrier()
    run.log({{"train/loss": 1.0 / step}}, step=step)
    say("stepped", step=step)
    if step % settings["every"] == 0:
        save(step)
    if settings.get("listens") and muster.should_stop():
        save(step)
        say("ended")
        sys.exit(0)
time.sleep(1.5)
say("ended")
"""
LOADER = """
import time
born = time.time()
import json, os
import torch
import muster

run = muster.init()
truth = open(os.environ["TRUTH"], "a", buffering=1)

def say(kind, **more):
    truth.write(json.dumps({"kind": kind, "at": time.time(), "pid": os.getpid(), **more}) + chr(10))

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, no):
        time.sleep(0.25)
        return torch.full((4,), float(no))

say("began", born=born)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
say("begins", step=1)
for step, batch in enumerate(torch.utils.data.DataLoader(Data(), batch_size=1), start=1):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.05)
    optimizer.step()
    say("stepped", step=step)
say("ended")
"""


class Truth:
    """What the script says, by the clock of the machine, attempt by attempt."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text().splitlines() if path.exists() else []
        self.lines = [json.loads(line) for line in lines if line.endswith("}")]
        self.pids = list(dict.fromkeys(line["pid"] for line in self.lines))

    def of(self, attempt: int, kind: str) -> list[dict[str, Any]]:
        if attempt >= len(self.pids):
            return []
        pid = self.pids[attempt]
        return [line for line in self.lines if line["pid"] == pid and line["kind"] == kind]

    def starting_s(self, attempt: int) -> float:
        (began,), first = self.of(attempt, "began"), self.of(attempt, "begins")[0]
        return float(first["at"] - began["born"])

    def steps_s(self, attempt: int, after: int = 0, until: int = 1 << 53) -> float:
        """Seconds in steps after one and up to another, with the saves between them: of a script whose steps
        are not timed, nobody sees a save."""
        begins = next(line for line in self.of(attempt, "begins") if line["step"] > after)
        steps = [line for line in self.of(attempt, "stepped") if after < line["step"] <= until]
        return float(steps[-1]["at"] - begins["at"])

    @property
    def kept(self) -> int:
        """Number of steps of the first attempt that the second one did not repeat."""
        return int(self.of(1, "begins")[0]["step"]) - 1

    def finishing_s(self, attempt: int) -> float:
        (end,), last = self.of(attempt, "ended"), self.of(attempt, "stepped")[-1]
        return float(end["at"] - last["at"])


@dataclasses.dataclass
class Case:
    """A training to which something is done."""

    stack: QuickStack
    client: Client
    folder: Path
    steps: int = 120
    every: int = 50
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    more: str = ""
    id: int = 0
    script: str = SCRIPT

    @property
    def truth(self) -> Truth:
        return Truth(self.folder / "truth.jsonl")

    def submit(self) -> None:
        (self.folder / "train.py").write_text(self.script)
        settings = json.dumps({"steps": self.steps, "every": self.every, **self.settings})
        document = {
            "name": "true",
            "entrypoint": f"train.py '{settings}'",
            "stop_grace_s": 2,
            "restarts": {"infra": 3, "user": 0},
            "environment": {"variables": {"TRUTH": str(self.folder / "truth.jsonl")}},
        }
        text = json.dumps(document)[:-1] + (f", {self.more}" if self.more else "") + "}"
        (self.folder / "experiment.yaml").write_text(text)
        submitted = shell(self.stack, "muster submit experiment.yaml", self.folder)
        assert submitted.returncode == 0, submitted.stderr
        self.id = last_id(self.stack)

    def wait_for_step(self, step: int, attempt: int = 0) -> None:
        def stepped() -> bool:
            lines = self.truth.of(attempt, "stepped")
            if not lines:
                state = self.client.experiment(self.id)
                assert state["state"] not in ("ERROR", "FAILED"), state["reason"]
            return bool(lines) and lines[-1]["step"] >= step

        wait_for(f"attempt {attempt + 1} does step {step}", stepped, 45, every_s=0.02)

    def trial(self) -> dict[str, Any]:
        (trial,) = self.client.trials(self.id)
        found: dict[str, Any] = self.client.get(f"/trials/{trial['id']}")
        return found

    def end(self, state: str = "COMPLETED") -> dict[str, Any]:
        ended = self.client.wait(self.id, timeout_s=120)
        assert ended["state"] == state, ended["reason"]
        found: dict[str, Any] = self.client.get(f"/trials/{self.trial()['id']}/goodput")
        return found


Expected = dict[str, float]


def pause(case: Case) -> Expected:
    """It saves when it is asked to, so all its steps survive; while it is paused, it holds no slot."""
    case.settings, case.more = {"listens": True}, '"launcher": "plain"'
    case.submit()
    case.wait_for_step(30)
    assert case.stack.cli("pause", str(case.id)).returncode == 0
    wait_for("it has paused", lambda: case.trial()["state"] == "PAUSED", 60)
    time.sleep(3)
    assert case.stack.cli("resume", str(case.id)).returncode == 0
    case.end()
    truth = case.truth
    return {
        "starting, restoring": truth.starting_s(0) + truth.starting_s(1),
        "productive": truth.steps_s(0) + truth.steps_s(1),
        "stopping": truth.finishing_s(0),
        "finishing": truth.finishing_s(1),
    }


def preempt(case: Case) -> Expected:
    """It is killed for a trial of higher priority, and does the steps after its checkpoint again."""
    case.settings = {"gang": True}
    case.more = '"resources": {"slots": 2, "priority": 10}'
    case.submit()
    case.wait_for_step(70)
    resources = {"slots": 1, "priority": 90}
    urgent = scripted(
        "urgent",
        [{"train": {"epochs": 1, "steps_per_epoch": 10, "step_s": 0.1}}],
        resources=resources,
    )
    assert case.client.wait(case.client.submit(urgent)["id"], timeout_s=120)["state"] == "COMPLETED"
    case.end()
    truth = case.truth
    return {
        "starting, restoring": 2 * (truth.starting_s(0) + truth.starting_s(1)),
        "productive": 2 * (truth.steps_s(0, until=truth.kept) + truth.steps_s(1)),
        "repeated": 2 * truth.steps_s(0, after=truth.kept),
    }


def cut_off(case: Case) -> Expected:
    """Its agent falls silent: nobody hears of the steps that its processes go on to make."""
    case.more = '"launcher": "plain"'
    case.steps = 400
    case.submit()
    case.wait_for_step(70)
    (node,) = case.trial()["attempts"][0]["nodes"]
    pid = case.stack.part_pid(f"agent-{node}")
    os.kill(pid, signal.SIGSTOP)
    cut_at = time.time()
    case.wait_for_step(60, attempt=1)
    os.kill(pid, signal.SIGCONT)
    case.end()
    truth = case.truth
    lost_at = dt.datetime.fromisoformat(case.trial()["attempts"][-1]["ended_at"]).timestamp()
    heard = [line["step"] for line in truth.of(0, "stepped") if line["at"] <= cut_at][-1]
    return {
        "starting, restoring": truth.starting_s(0) + truth.starting_s(1),
        "productive": truth.steps_s(0, until=truth.kept) + truth.steps_s(1),
        "repeated": truth.steps_s(0, after=truth.kept, until=heard),
        "undetected": lost_at - cut_at,
        "finishing": truth.finishing_s(1),
    }


def hang(case: Case) -> Expected:
    """One of two ranks hangs for a while, and later until somebody stops the trial."""
    case.settings = {"gang": True, "hangs": {"60": 9.0, "90": 300.0}}
    case.more = '"resources": {"slots": 2}'
    case.submit()
    case.wait_for_step(89)
    time.sleep(33)
    stopped_at = time.time()
    assert case.stack.cli("stop", str(case.id)).returncode == 0
    case.end("CANCELED")
    truth = case.truth
    return {
        "starting": 2 * truth.starting_s(0),
        "stalled": 2 * 9.0,
        "abandoned": 2 * (truth.steps_s(0) - 9.0),
        "undetected": 2 * (stopped_at - truth.of(0, "stepped")[-1]["at"]),
    }


def slow_loader(case: Case) -> Expected:
    """Every sample takes five times as long as its computation: that is what its steps are."""
    case.script, case.more = LOADER, '"launcher": "plain"'
    case.submit()
    case.end()
    truth = case.truth
    return {
        "starting": truth.starting_s(0),
        "productive": truth.steps_s(0),
        "data": 40 * 0.25,
    }


CASES: Sequence[Callable[[Case], Expected]] = (pause, preempt, cut_off, hang, slow_loader)
UNSEEN = ("preparing", "stopping", "finishing")
"""Classes of which a script knows nothing, unless a case names them: torchrun ends after its workers."""


@pytest.mark.parametrize("inject", CASES, ids=lambda inject: inject.__name__)
def test_the_ledger_says_what_was_done(
    quick_stack: QuickStack, tmp_path: Path, inject: Callable[[Case], Expected]
) -> None:
    with quick_stack.client() as client:
        case = Case(quick_stack, client, tmp_path)
        expected = inject(case)
        found = case.end(case.trial()["state"])
        spent = client.experiment(case.id)["spending"]["slot_hours"]
    amounts = {**found["classes"], **found["parts"]}
    assert sum(found["classes"].values()) == pytest.approx(found["allocated_s"], rel=5e-3)
    assert found["allocated_s"] == pytest.approx(3600 * spent, rel=5e-3)
    of_these = {names: sum(amounts.get(n, 0.0) for n in names.split(", ")) for names in expected}
    assert of_these == {
        names: pytest.approx(seconds, rel=0.02, abs=1.0) for names, seconds in expected.items()
    }, amounts
    named = {name for names in expected for name in names.split(", ")}
    others = {name: s for name, s in found["classes"].items() if name not in {*named, *UNSEEN}}
    assert sum(others.values()) <= 1.0, (others, expected)
