"""What a real Slurm does to a job before its time: each end leads to a checkpoint, and none is charged.

`MUSTER_SLURM_ENDS=10` ends ten pilots one after the other, by turns with scancel and by a preemption.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import support.stack
from support.batch.pools import pilots_of, running, stack_of, submit, trial_of
from support.batch.slurm import SlurmLab, why_missing
from support.quick_stack import QuickStack

from .test_slurm import create_pool, diagnosis

NUM_ENDS = int(os.environ.get("MUSTER_SLURM_ENDS", "2"))
TRAINING = """
name: ended-by-slurm
trainer:
  {model: mlp, data: digits, epochs: 100000, batch_size: 32, options: {inject: [{rank: 0, phase: forward, ms: 50}]}}
resources: {slots: 2, nodes: 2, pool: gpu}
checkpoints: {every: {epochs: 90000}}
restarts: {infra: 0, user: 0}
"""

pytestmark = [
    pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "Slurm is here"),
    pytest.mark.torch,
    pytest.mark.timeout(900 + 120 * NUM_ENDS),
]


@pytest.fixture(scope="module", params=["linuxproc", "cgroup"])
def lab(request: pytest.FixtureRequest) -> Iterator[SlurmLab]:
    if request.param == "cgroup" and not os.access("/sys/fs/cgroup/freezer", os.W_OK):
        pytest.skip("Slurm may not make control groups here")
    with running(
        "muster-slurm-", lambda folder: SlurmLab(folder / "lab", proctrack=request.param)
    ) as lab:
        yield lab


@pytest.fixture(scope="module")
def stack(lab: SlurmLab) -> Iterator[QuickStack]:
    with stack_of({"SLURM_CONF": str(lab.conf), "PATH": lab.environment["PATH"]}) as stack:
        yield stack


def preempt(lab: SlurmLab, job: str) -> str:
    """Submit a job that takes the machine of another one; return its number."""
    words = ["-p", "urgent", "--exclusive", f"--nodelist={lab.node_of(job)}", "--wrap=sleep 60"]
    done = subprocess.run(
        ["sbatch", "--parsable", "--output=/dev/null", *words],
        env=lab.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_every_end_of_a_pilot_saves_and_is_charged_to_nobody(
    stack: QuickStack, lab: SlurmLab
) -> None:
    create_pool(stack, lab, slots="1")
    experiment_id = submit(stack, TRAINING)
    saved: list[int] = []
    trial: dict[str, Any] = {}

    def attempts() -> dict[int, dict[str, Any]]:
        nonlocal trial
        trial = trial_of(stack, experiment_id)
        assert trial["state"] != "FAILED", f"{trial['reason']}\n{diagnosis(stack, lab)}"
        return {attempt["no"]: attempt for attempt in trial["attempts"]}

    def checkpoints() -> list[int]:
        with stack.client() as client:
            found = list(client.pages(f"/trials/{trial['id']}/checkpoints"))
        return sorted(checkpoint["step"] for checkpoint in found)

    for no in range(1, NUM_ENDS + 2):
        after = saved[-1] if saved else 0

        def trains(no: int = no, after: int = after) -> bool:
            is_running = attempts().get(no, {}).get("state") == "RUNNING"
            return is_running and (trial["step"] or 0) > after

        try:
            support.stack.wait_for(f"attempt {no} trains", trains, 180)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{diagnosis(stack, lab)}") from None
        assert attempts()[no]["resume_step"] == after, "it goes on from where the last one was"
        if no > NUM_ENDS:
            break
        up = {pilot["id"]: str(pilot["ref"]) for pilot in pilots_of(stack)}
        names = attempts()[no]["nodes"]
        assert len({lab.node_of(up[name]) for name in names}) == 2, "a gang has two machines"
        job = up[names[no % 2]]
        urgent = preempt(lab, job) if no % 2 == 0 else ""
        if not urgent:
            lab.run("scancel", job)
        support.stack.wait_for(
            f"attempt {no} has ended", lambda no=no: attempts()[no]["termination"] is not None, 90
        )
        if urgent:
            lab.run("scancel", urgent)
        assert attempts()[no]["termination"] == "drained"
        assert trial["num_restarts"] == 0
        steps = checkpoints()
        assert steps, "it has saved"
        assert steps[-1] > after, "it has saved"
        saved.append(steps[-1])
        print(
            f"{lab.proctrack}: end {no} ({'preempted' if urgent else 'scancel'}): saved step {saved[-1]}"
        )
    print(f"{lab.proctrack}: {len(saved)} of {NUM_ENDS} saved, {trial['num_restarts']} charged")
    with stack.client() as client:
        client.post(f"/experiments/{experiment_id}:kill")
    support.stack.wait_for("all pilots have left", lambda: not lab.jobs(), 90)
