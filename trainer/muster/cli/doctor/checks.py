"""The checks of `muster doctor`, in order of their worth, each by a training on a real node.

A check returns a sentence and figures, raises AssertionError with what is wrong, and `NotPossibleHere` where
this machine lacks what it needs. On a machine without a GPU all of them train over gloo on processors.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.client import Client
from muster.code.bundle import make_bundle

from .stack import NotPossibleHere, OutOfTime, wait_for

if TYPE_CHECKING:
    from muster.client import schema

TRAINING = Path(__file__).with_name("training.py")
STRATEGIES = ("ddp", "fsdp", "tp", "pp", "zero1")
TOLERANCE = {"gloo": 2e-4, "nccl": 1e-2}
"""Relative difference of the last loss to that of one worker: sums in another order, on a GPU by
kernels of other precision."""
NCCL_ON_ONE_DEVICE = {
    "NCCL_HOSTID": "muster-doctor-${MUSTER_NODE_RANK}",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
}
"""What makes two ranks on one device two hosts to NCCL, so that they talk over loopback."""
TRAINING_TIMEOUT_S = 240.0
"""Far more than a training takes: a machine that is busy shall not fail a check."""
Answer = tuple[str, dict[str, Any]]


@dataclass
class Patient:
    """The machine under examination, with a Muster on it."""

    client: Client
    slot_type: str
    ends: float
    """Time of the monotonic clock after which nothing is waited for."""
    blob: str = ""

    @property
    def backend(self) -> str:
        return "nccl" if self.slot_type == "cuda" else "gloo"

    def wait_for(self, what: str, check: Callable[[], Any], timeout_s: float) -> Any:
        """Return what `stack.wait_for` does. Raises OutOfTime where the examination ends before."""
        left_s = self.ends - time.monotonic()
        try:
            return wait_for(what, check, min(timeout_s, left_s))
        except TimeoutError as error:
            if left_s < timeout_s:
                raise OutOfTime from error
            raise

    def submit(self, name: str, *, workers: int = 2, **document: Any) -> int:
        """Submit a training over both nodes, and return the id of its trial."""
        variables = NCCL_ON_ONE_DEVICE if self.backend == "nccl" else {}
        whole = {
            "name": f"doctor: {name}",
            "resources": {"slots": workers, "nodes": workers, "slot_type": self.slot_type},
            "environment": {"variables": variables},
            **document,
        }
        blob = None if "trainer" in document else self.code()
        experiment = self.client.submit(json.dumps(whole), blob_sha256=blob)
        (trial,) = self.client.trials(experiment["id"])
        return int(trial["id"])

    def script(self, case: str, steps: int = 40, *, launcher: str = "torchrun", **more: Any) -> int:
        """Submit a case of `training.py`. The launcher `direct` saves the start of torchrun's own processes,
        which takes longer than a few steps."""
        entry = [TRAINING.name, case, str(steps)]
        return self.submit(case, entrypoint=entry, launcher=launcher, **more)

    def code(self) -> str:
        if not self.blob:
            bundle = make_bundle(TRAINING.parent)
            self.blob = self.client.upload(bundle)
            bundle.remove()
        return self.blob

    def trial(self, trial_id: int) -> schema.TrialDetail:
        found: schema.TrialDetail = self.client.get(f"/trials/{trial_id}")
        return found

    def log(self, trial_id: int) -> list[str]:
        return [line["text"] for line in self.client.log_lines(trial_id)]

    def finish(self, trial_id: int) -> schema.TrialDetail:
        """Wait for the end. AssertionError with the last lines if it is not success."""

        def end() -> schema.TrialDetail | None:
            trial = self.trial(trial_id)
            return trial if trial["ended_at"] else None

        trial: schema.TrialDetail = self.wait_for(
            "the end of the training", end, TRAINING_TIMEOUT_S
        )
        if trial["state"] != "COMPLETED":
            last = " / ".join(self.log(trial_id)[-5:])
            raise AssertionError(f"{trial['state']}: {trial['reason']} {last}".strip()[:600])
        return trial

    def last_loss(self, trial_id: int) -> float:
        found = self.client.get(f"/trials/{trial_id}", summary="headline")
        return float(found["summary"][str(found["headline"])]["last"])

    def measured(self, trial_id: int) -> schema.PerformanceOut:
        return self.client.get(f"/trials/{trial_id}/performance")

    def stop(self, trial_id: int) -> None:
        self.client.post(f"/trials/{trial_id}:kill")


def communication(found: schema.PerformanceOut) -> list[str]:
    """Return the kinds of communication that were measured, with their group."""
    return sorted({f"{kind['group']}/{kind['kind']}" for kind in found["traffic"]})


def strategies(on: Patient) -> Answer:
    """Every strategy ends with the loss of one worker, and its communication is measured."""

    def document(kind: str, batch: int = 32) -> dict[str, Any]:
        shape = {"model": "vit", "data": "synthetic", "width": 32, "depth": 4, "batch_size": batch}
        trainer = {**shape, "steps": 20, "optimizer": "sgd", "momentum": 0.0, "lr": 0.1}
        return {"trainer": trainer, "strategy": {"kind": kind}}

    alone = on.submit("single", workers=1, **document("single", batch=64))
    chosen = {kind: on.submit(kind, **document(kind)) for kind in STRATEGIES}
    on.finish(alone)
    truth = on.last_loss(alone)
    figures: dict[str, Any] = {"loss of one worker": truth}
    wrong = []
    for kind, trial_id in chosen.items():
        try:
            on.finish(trial_id)
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"{kind}: {error}")
            continue
        loss, kinds = on.last_loss(trial_id), communication(on.measured(trial_id))
        off = abs(loss / truth - 1)
        figures[kind] = f"loss {loss:.6f} ({off:.1e} off), measured {', '.join(kinds) or 'nothing'}"
        if off > TOLERANCE[on.backend]:
            wrong.append(f"{kind} ends with a loss of {loss:.6f} instead of {truth:.6f}")
        if not kinds:
            wrong.append(f"of {kind} no communication is measured")
    if wrong:
        raise Wrong("; ".join(wrong), figures)
    return f"{len(STRATEGIES)} strategies end with the loss of one worker and are measured", figures


class Wrong(AssertionError):
    """What is wrong, with the figures that were read before."""

    def __init__(self, text: str, figures: dict[str, Any]) -> None:
        super().__init__(text)
        self.figures = figures


def unchanged_scripts(on: Patient) -> Answer:
    """Scripts that know nothing of Muster are measured: DDP, FSDP2, a group of two backends."""
    figures: dict[str, Any] = {}
    unmeasured = []
    cases = ("ddp", "fsdp2", *(["mixed"] if on.backend == "nccl" else []))
    chosen = {case: on.script(case, 120) for case in cases}
    try:
        for case, trial_id in chosen.items():
            on.finish(trial_id)
            found = on.measured(trial_id)
            kinds = communication(found)
            figures[case] = ", ".join(kinds) or "nothing"
            if not kinds:
                unmeasured.append(case)
    except BaseException:
        for trial_id in chosen.values():  # not beside the next check
            on.stop(trial_id)
        raise
    if unmeasured:
        raise Wrong(f"no communication is measured of {', '.join(unmeasured)}", figures)
    return f"the communication of {len(figures)} unchanged scripts is measured", figures


def _processes_of(trial_id: int, rank: int) -> list[int]:
    """Return the pids of a rank of a trial on this machine."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            env = process.environ()
        except (psutil.Error, OSError):
            continue
        if env.get("MUSTER_TRIAL_ID") == str(trial_id) and env.get("RANK") == str(rank):
            found.append(process.pid)
    return found


def hang(on: Patient) -> Answer:
    """The rank that does not come is named when a training hangs."""
    trial_id = on.script("hangs", 10_000)
    try:

        def blamed() -> schema.ProgressOut | None:
            found: schema.ProgressOut = on.client.get(f"/trials/{trial_id}/progress")
            return found if found["state"] == "still" and found["blamed"] else None

        found = on.wait_for("the detection of the hang", blamed, TRAINING_TIMEOUT_S)
    finally:
        on.stop(trial_id)
    ranks = [blame["rank"] for blame in found["blamed"]]
    figures = {"after_s": found["still_s"], "blamed": ranks, "reason": found["reason"]}
    if ranks != [1]:
        raise Wrong(f"rank 1 hangs, but named is {ranks}: {found['reason']}", figures)
    return str(found["reason"]), figures


def restart(on: Patient) -> Answer:
    """A training whose worker is killed goes on from its checkpoint; the time to its next new step."""
    trainer = {"model": "mlp", "data": "synthetic", "batch_size": 32, "steps": 20_000}
    checkpoints = {"every": {"steps": 100}}
    trial_id = on.submit(
        "restart", trainer=trainer, strategy={"kind": "ddp"}, checkpoints=checkpoints
    )
    try:

        def is_running() -> bool:
            return (on.trial(trial_id)["step"] or 0) >= 150

        on.wait_for("step 150", is_running, TRAINING_TIMEOUT_S)
        pids = on.wait_for("the processes of rank 1", lambda: _processes_of(trial_id, 1), 10.0)
        reached = on.trial(trial_id)["step"]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()

        def goes_on() -> bool:
            trial = on.trial(trial_id)
            return bool(trial["attempt_no"] > 1 and (trial["step"] or 0) > reached)

        on.wait_for("a new step", goes_on, TRAINING_TIMEOUT_S)
        took_s = round(time.monotonic() - killed, 1)
    finally:
        on.stop(trial_id)
    return f"the next new step came {took_s:g} s after SIGKILL", {"after_s": took_s}


def compiled(on: Patient) -> Answer:
    """torch.compile and captured graphs run under measuring."""
    on.finish(on.script("compiled", 20, launcher="direct"))
    if on.backend != "nccl":
        return "torch.compile runs; graphs need a GPU, and were not captured", {}
    on.finish(on.script("graph", 20, launcher="direct"))
    return "torch.compile and a captured graph run", {}


def cost(on: Patient) -> Answer:
    """Measuring costs little beside what equal runs differ by."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for is_measured in (True, False, False, True):
        trial_id = on.script("ddp", 200, launcher="direct", measure={"steps": is_measured})
        on.finish(trial_id)
        (rate,) = re.findall(r"^rate (\S+) steps/s$", "\n".join(on.log(trial_id)), re.MULTILINE)
        rates[is_measured].append(float(rate))
    ratio = statistics.fmean(rates[True]) / statistics.fmean(rates[False])
    spread = (max(rates[False]) - min(rates[False])) / statistics.fmean(rates[False])
    figures = {
        "steps/s measured": rates[True],
        "steps/s not measured": rates[False],
        "ratio": round(ratio, 4),
        "spread of equal runs": round(spread, 4),
    }
    sentence = f"measuring leaves {ratio:.3f} of the steps; equal runs differ by {spread:.1%}"
    return sentence, figures


def warm(on: Patient) -> Answer:
    """Workers of the built-in trainer are forked from a process that has imported torch."""
    trainer = {"model": "mlp", "data": "synthetic", "batch_size": 32, "steps": 20}
    on.finish(on.submit("warm", workers=1, trainer=trainer))
    cold = [
        problem["message"]
        for node in on.client.nodes()
        for problem in node["problems"]
        if problem["kind"] == "workers"
    ]
    if cold:
        raise AssertionError(cold[0])
    return "a forked worker has trained, and no node says that it starts them cold", {}


def walls(on: Patient) -> Answer:
    """A job may open the device of its slot and no other."""
    if on.backend != "nccl":
        raise NotPossibleHere("there is no GPU to keep from a job")
    trial_id = on.script("ddp", 10, workers=1)
    on.finish(trial_id)
    (line,) = [line for line in on.log(trial_id) if line.startswith("devices")]
    levels = sorted({str(node["isolation"]) for node in on.client.nodes()})
    figures = {"opened": line.split()[1:], "isolation": levels}
    if len(figures["opened"]) != 1:
        raise Wrong(f"a job with one slot may open {line}", figures)
    return f"a job with one slot may open {line.split()[1]} alone", figures


def memory(on: Patient) -> Answer:
    """The memory of the device is free again after a training was killed."""
    if on.backend != "nccl":
        raise NotPossibleHere("there is no GPU whose memory could stay taken")
    before = _free_bytes()
    trial_id = on.script("ddp", 1_000_000)
    on.wait_for("the first step", lambda: any(map(is_step, on.log(trial_id))), TRAINING_TIMEOUT_S)
    during = _free_bytes()
    on.stop(trial_id)
    began = time.monotonic()
    on.wait_for("the return of the memory", lambda: before - _free_bytes() < SLACK_BYTES, 60.0)
    after_s = round(time.monotonic() - began, 1)
    figures = {"free before": before, "free during": during, "after_s": after_s}
    return f"the memory was free again {after_s:g} s after the order to kill", figures


def others(on: Patient) -> Answer:
    """Nobody outside Muster uses the device: it would slow down everything that is measured here."""
    if on.backend != "nccl":
        raise NotPossibleHere("there is no GPU that somebody else could use")
    used = [
        problem["message"]
        for node in on.client.nodes()
        for problem in node["problems"]
        if problem["kind"] == "used"
    ]
    if used:
        raise AssertionError(used[0])
    return "no other process uses the device", {}


_STEP = """
import copy, json, torch
torch.manual_seed(0)
torch.set_float32_matmul_precision("highest")
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
x, y = torch.randn(32, 64), torch.randint(8, (32,))

def step(device, dtype):
    trained = copy.deepcopy(model).to(device, dtype)
    loss = torch.nn.functional.cross_entropy(trained(x.to(device, dtype)), y.to(device))
    loss.backward()
    torch.optim.SGD(trained.parameters(), lr=0.1).step()
    return torch.cat([p.detach().cpu().double().flatten() for p in trained.parameters()]), loss.item()

truth, loss = step("cpu", torch.float64)
found, own = step(device, torch.float32)
print(json.dumps([device, abs(own / loss - 1), ((found - truth).norm() / truth.norm()).item()]))
"""
MAX_STEP_ERROR = 1e-5
"""Relative difference of a step in single precision to one in double precision: rounding alone is below
a tenth of that."""


def reference(on: Patient) -> Answer:
    """A training step of the device has the loss and the weights of one in double precision on the processor."""
    done = subprocess.run(
        [sys.executable, "-c", _STEP], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"the step fails: {done.stderr.strip()[-400:]}")
    device, of_loss, of_weights = json.loads(done.stdout.splitlines()[-1])
    figures = {"device": device, "loss": of_loss, "weights": of_weights}
    if not max(of_loss, of_weights) < MAX_STEP_ERROR:
        raise Wrong(f"loss {of_loss:.1e} and weights {of_weights:.1e} off", figures)
    return f"loss {of_loss:.1e} and weights {of_weights:.1e} off, which is rounding", figures


SLACK_BYTES = 64 << 20


def is_step(line: str) -> bool:
    return line.startswith("step ")


def _free_bytes() -> int:
    """Return the free memory of the first device, asked by a process of its own."""
    text = "import torch; print(torch.cuda.mem_get_info(0)[0])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return int(done.stdout)


CHECKS: tuple[tuple[str, Callable[[Patient], Answer]], ...] = (
    ("reference", reference),
    ("others", others),
    ("strategies", strategies),
    ("scripts", unchanged_scripts),
    ("hang", hang),
    ("restart", restart),
    ("warm", warm),
    ("compiled", compiled),
    ("walls", walls),
    ("memory", memory),
    ("cost", cost),
)
