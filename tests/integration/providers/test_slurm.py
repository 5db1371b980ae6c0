"""Pools whose nodes a real Slurm supplies: submitted, used, canceled, and gone again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import support.stack
from muster_server.loops.batch_systems.slurm_listing import parse_squeue, parse_squeue_json
from support.batch.batch_jobs import run_job
from support.batch.pools import nodes_of, pilots_of, running, stack_of, submit, trial_of
from support.batch.slurm import SlurmLab, why_missing
from support.guides import GUIDES, write_files
from support.quick_stack import QuickStack
from support.stack import scripted, wait_for

pytestmark = [
    pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "Slurm is here"),
    pytest.mark.timeout(1200),
]
PATIENCE_S = 240.0
"""Least time that each thing may take: a condition that holds ends the wait, however fast the machine is."""

AGENT = str(Path(sys.executable).parent / "muster-agent")
TRAINING = """
name: digits-on-slurm
trainer: {model: mlp, data: digits, epochs: EPOCHS, batch_size: 32}
resources: {slots: 4, nodes: 2, pool: gpu}
checkpoints: {every: {epochs: 1}}
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    with running("muster-slurm-", lambda folder: SlurmLab(folder / "lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def stack(lab: SlurmLab) -> Iterator[QuickStack]:
    with stack_of({"SLURM_CONF": str(lab.conf), "PATH": lab.environment["PATH"]}) as stack:
        yield stack


@pytest.fixture(autouse=True)
def explained(stack: QuickStack, lab: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits in vain says how things stood."""

    def wait(what: str, check: Callable[[], Any], timeout_s: float) -> None:
        try:
            support.stack.wait_for(what, check, max(timeout_s, PATIENCE_S))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{diagnosis(stack, lab)}") from None

    monkeypatch.setitem(globals(), "wait_for", wait)


def create_pool(stack: QuickStack, lab: SlurmLab, name: str = "gpu", **options: str) -> None:
    given = {
        "provider": "slurm",
        "nodes": "0:3",
        "slots": "2",
        "walltime": "30m",
        "idle": "10s",
        "server-url": stack.url,
        "folder": str(lab.folder / "shared"),
        "agent": AGENT,
        **options,
    }
    words = [f"--{key}={value}" if value else f"--{key}" for key, value in given.items()]
    done = stack.cli("pool", "create", name, *words)
    assert done.returncode == 0, done.stderr


def diagnosis(stack: QuickStack, lab: SlurmLab) -> str:
    logs = [p.read_text()[-3000:] for p in (lab.folder / "shared" / "logs").glob("*.log")]
    jobs = lab.run("squeue", "-a", "-r", "-t", "all", "-o", "%i|%j|%T|%N|%r|%M")
    with stack.client() as client:
        trials = list(client.pages("/queue"))
        newest = max(e["id"] for e in client.get("/experiments")["items"])
        trials.append(client.trials(newest)[0])
    told = [str(trials), str(pilots_of(stack)), jobs, stack.text()[-3000:], lab.words()[-3000:]]
    return "\n".join([*logs, *told])


@pytest.mark.torch
def test_pilots_come_for_what_waits_and_leave_when_idle(stack: QuickStack, lab: SlurmLab) -> None:
    create_pool(stack, lab)
    experiment_id = submit(stack, TRAINING.replace("EPOCHS", "2"))
    reasons = set()

    def has_ended() -> bool:
        trial = trial_of(stack, experiment_id)
        reasons.add(trial["pending_reason"])
        return trial["state"] in ("COMPLETED", "FAILED")

    wait_for("the training ends", has_ended, 240)
    trial = trial_of(stack, experiment_id)
    assert trial["state"] == "COMPLETED", trial["reason"]
    assert any("2 pilots of Slurm" in reason for reason in reasons), reasons
    assert trial["num_restarts"] == 0
    assert trial["summary"]["train/loss"]["last"] is not None
    names = {part["id"] for part in pilots_of(stack)}
    (attempt,) = trial["attempts"]
    assert len(attempt["nodes"]) == 2
    assert set(attempt["nodes"]) <= names
    wait_for("the pilots have left", lambda: not nodes_of(stack) and not lab.jobs(), 90)
    wait_for(
        "they are known to have ended",
        lambda: {p["state"] for p in pilots_of(stack)} == {"ended"},
        60,
    )
    shown = stack.cli("pool", "provider", "gpu")
    assert "Slurm" in shown.stdout
    assert "problem" not in shown.stdout
    assert not list((lab.folder / "shared" / "tokens").iterdir())


def test_a_canceled_job_and_a_lost_controller_cost_a_trial_no_restart(
    stack: QuickStack, lab: SlurmLab
) -> None:
    create_pool(stack, lab)
    script = [
        {"checkpoint": 5, "attempts": [1]},
        {"wait_for_stop": 300, "exit": 0, "attempts": [1]},
        {"log": "second"},
    ]
    resources = {"slots": 4, "nodes": 2, "pool": "gpu"}
    experiment_id = submit(stack, scripted("canceled", script, resources=resources))

    def runs() -> bool:
        attempts = trial_of(stack, experiment_id)["attempts"]
        return [a["state"] for a in attempts] == ["RUNNING"]

    def pilots_up() -> list[dict[str, Any]]:
        return [pilot for pilot in pilots_of(stack) if pilot["state"] == "up"]

    wait_for("it runs", runs, 180)
    # From an older state it would start the pilots once more, and their attempt would be lost.
    since = time.time()
    wait_for("slurmctld has saved that they run", lambda: lab.has_saved(since), 30)
    lab.kill_controller()
    lab.start_controller()
    wait_for("both pilots are known to be up", lambda: len(pilots_up()) == 2, 60)
    wait_for("Slurm answers again", lambda: len(lab.jobs()) == 2, 60)
    lab.run("scancel", pilots_up()[0]["ref"])
    wait_for(
        "it has gone on elsewhere",
        lambda: trial_of(stack, experiment_id)["state"] == "COMPLETED",
        180,
    )
    trial = trial_of(stack, experiment_id)
    assert trial["num_restarts"] == 0
    ends = {attempt["no"]: attempt["termination"] for attempt in trial["attempts"]}
    assert ends == {1: "drained", 2: "success"}
    wait_for("all pilots have left", lambda: not nodes_of(stack) and not lab.jobs(), 90)


def test_a_trial_goes_on_after_a_node_that_is_down_and_after_the_end_of_the_wall_time(
    stack: QuickStack, lab: SlurmLab, tmp_path: Path
) -> None:
    create_pool(stack, lab)
    script = [
        {"checkpoint": 5, "attempts": [1, 2]},
        {"wait_for_stop": 300, "exit": 0, "attempts": [1, 2]},
        {"log": "third"},
    ]
    document = scripted("moves", script, resources={"slots": 2, "pool": "gpu"})
    experiment_id = submit(stack, document)

    def job_of_attempt(no: int) -> str:
        def runs() -> bool:
            attempts = trial_of(stack, experiment_id)["attempts"]
            return {a["no"]: a["state"] for a in attempts}.get(no) == "RUNNING"

        wait_for(f"attempt {no} runs", runs, 180)
        attempts = {a["no"]: a for a in trial_of(stack, experiment_id)["attempts"]}
        (name,) = attempts[no]["nodes"]
        return next(str(p["ref"]) for p in pilots_of(stack) if p["id"] == name)

    first = job_of_attempt(1)
    start_again(lab, first, tmp_path)
    node = lab.node_of(first)
    lab.set_node(node, "down", "power")
    try:
        second = job_of_attempt(2)
        assert second != first, "the node itself may be back by then"
    finally:
        lab.set_node(node, "resume")
    # Slurm sends its signal, and would kill the job after a minute.
    lab.run("scontrol", "update", f"jobid={second}", "timelimit=1")
    wait_for(
        "it has gone on in a third pilot",
        lambda: trial_of(stack, experiment_id)["state"] == "COMPLETED",
        180,
    )
    trial = trial_of(stack, experiment_id)
    ends = {attempt["no"]: attempt["termination"] for attempt in trial["attempts"]}
    # Slurm's SIGTERM for a job whose node is down goes to all of its processes, and may end the shim or
    # the launcher before the agent stops them.
    first_end = ends.pop(1)
    assert first_end in ("drained", "shim_lost", "launcher_failed")
    assert ends == {2: "drained", 3: "success"}
    assert trial["num_restarts"] == (first_end != "drained")
    wait_for("all pilots have left", lambda: not nodes_of(stack) and not lab.jobs(), 90)
    wait_for("that is known", lambda: {p["state"] for p in pilots_of(stack)} == {"ended"}, 60)
    reasons = {pilot["ref"]: pilot["reason"] for pilot in pilots_of(stack)}
    assert "NODE_FAIL" in reasons[first], reasons
    assert "(COMPLETED)" in reasons[second], reasons
    lab.wait_idle()


def start_again(lab: SlurmLab, job: str, folder: Path) -> None:
    """Start the script of a job that runs a second time: on its machine, and as if on another one. The
    server lets neither in, and the first is left alone."""
    script = lab.run("scontrol", "write", "batch_script", job, "-")
    for codes, variables in (({4}, {"TMPDIR": ""}), ({3}, {"TMPDIR": str(folder)})):
        done = subprocess.run(
            ["bash"],
            input=script,
            env=lab.environment | {"SLURM_JOB_ID": job, "SLURM_CLUSTER_NAME": "lab"} | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode in codes, done.stderr
    assert not list(folder.iterdir()), "its home is gone"


def test_pilots_of_an_exclusive_pool_are_one_job_array_and_end_with_their_attempt(
    stack: QuickStack, lab: SlurmLab
) -> None:
    lab.set_node("n3", "drain", "disk")
    try:
        more = {"max-slot-hours": "2", "cpus-per-task": "2"}
        create_pool(stack, lab, "own", exclusive="", idle="10m", **more)
        script = [{"wait_for_stop": 300, "exit": 0}]
        resources = {"slots": 4, "nodes": 2, "pool": "own"}
        first = submit(stack, scripted("alone", script, resources=resources))
        wait_for("it runs", lambda: trial_of(stack, first)["state"] == "RUNNING", 180)
        running = pilots_of(stack, "own")
        arrays = {pilot["ref"].partition("_")[0] for pilot in running}
        assert (len(running), len(arrays)) == (2, 1)
        assert {lab.node_of(pilot["ref"]) for pilot in running} == {"n1", "n2"}
        wait_for(
            "the drained node is told",
            lambda: "n3 is drained (disk)" in stack.cli("pool", "provider", "own").stdout,
            60,
        )
        text = lab.run("squeue", "-a", "-h", "-r", "-t", "running", "-o", "%i|%j|%T|%S|%N|%r")
        listed = parse_squeue_json(lab.run("squeue", "-a", "-t", "running", "--json"))
        assert {id_: seen.ref for id_, seen in listed.items() if seen.state == "running"} == {
            id_: seen.ref for id_, seen in parse_squeue(text).items()
        }
        second = submit(stack, scripted("later", [], resources={"slots": 1, "pool": "own"}))
        wait_for(
            "the limit of cost is told",
            lambda: (
                "may use 2 slot-hours: 0 are used, its pilots may use up to 2 more"
                in trial_of(stack, second)["pending_reason"]
            ),
            60,
        )
        with stack.client() as client:
            client.post(f"/experiments/{first}:kill")
        wait_for("they have left", lambda: not nodes_of(stack), 90)
        wait_for(
            "the other trial got a pilot of its own",
            lambda: trial_of(stack, second)["state"] == "COMPLETED",
            120,
        )
        wait_for("no job is left", lambda: not lab.jobs(), 60)
        wait_for(
            "their ends are known",
            lambda: (
                {p["reason"] for p in pilots_of(stack, "own")}
                == {"its job is complete (COMPLETED)"}
            ),
            60,
        )
    finally:
        lab.set_node("n3", "resume")


def test_refusals_reach_the_trial_in_slurms_words_and_ours(
    stack: QuickStack, lab: SlurmLab
) -> None:
    create_pool(stack, lab, "wrong", partition="nope")
    create_pool(stack, lab, "locked", partition="locked")
    create_pool(stack, lab, "small", partition="small")
    waiting = {
        pool: submit(stack, scripted(pool, [], resources={"slots": 1, "pool": pool, **more}))
        for pool, more in (
            ("wrong", {}), ("locked", {}), ("small", {}), ("gpu", {"max_duration": "2h"}),
        )
    }  # fmt: skip

    def tells(pool: str, words: str) -> bool:
        return words in str(trial_of(stack, waiting[pool])["pending_reason"])

    for pool, words in (
        ("wrong", "invalid partition specified: nope"),
        ("locked", "Access/permission denied"),
        ("small", "its wall time is longer than the partition allows (PartitionTimeLimit)"),
        ("gpu", "its time limit of 120 min does not fit into the wall time of Slurm, 30 min"),
    ):
        wait_for(f"it is told in {pool}", partial(tells, pool, words), 60)
    assert tells("wrong", "is asked again at")
    for pool, experiment_id in waiting.items():
        assert stack.cli("pool", "release", pool).returncode == 0
        with stack.client() as client:
            client.post(f"/experiments/{experiment_id}:kill")
    wait_for("no job is left", lambda: not lab.jobs(), 60)
    assert {pilot["state"] for pilot in pilots_of(stack, "wrong")} == {"ended"}


def test_the_script_of_the_guide_runs_a_pilot(
    stack: QuickStack, lab: SlurmLab, tmp_path: Path
) -> None:
    write_files((GUIDES / "pilots.md").read_text(), tmp_path)
    with stack.client() as client:
        token = client.post("/join-tokens", {"pool": "default", "uses": 1, "expires_in_s": 600})
    (tmp_path / "token").write_text(token["secret"])
    variables = {
        "MUSTER_AGENT_SERVER_URL": stack.url,
        "MUSTER_AGENT_JOIN_TOKEN_FILE": str(tmp_path / "token"),
        "MUSTER_AGENT_STORAGE_DIR": str(tmp_path / "storage"),
        "MUSTER_AGENT_SLOTS": "3",
        "PILOT_HOME": str(tmp_path),
        "PATH": f"{Path(AGENT).parent}:{lab.environment['PATH']}",
    }
    done = subprocess.run(
        ["sbatch", "--parsable", "--time=30", f"--output={tmp_path}/log", "pilot.sbatch"],
        cwd=tmp_path,
        env=lab.environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    name = f"slurm-{done.stdout.strip()}"
    wait_for("the pilot is there", lambda: name in nodes_of(stack), 60)
    with stack.client() as client:
        node = client.get(f"/nodes/{name}")
    assert node["provider_ref"] == f"slurm:lab:{done.stdout.strip()}"
    assert node["ends_at"] is not None
    document = scripted("once", [{"log": "here"}], resources={"slots": 3})
    experiment_id = submit(stack, document)
    wait_for(
        "it has run there", lambda: trial_of(stack, experiment_id)["state"] == "COMPLETED", 120
    )
    wait_for("the pilot has left", lambda: name not in nodes_of(stack) and not lab.jobs(), 60)
    assert not list(tmp_path.glob("muster-*")), "its home is gone"


ASKS = """#!/bin/bash
#SBATCH --nodes=2
show() { env | sed -n "s/^\\(SLURM_[A-Z_]*\\)=/$1 \\1 /p"; }
export -f show
show script
srun bash -c 'show task-$SLURM_PROCID'
srun -n1 bash -c 'show one'
srun -N1 -n1 -r1 bash -c 'show second'
srun --label echo here
srun -n2 sh -c 'exit $((SLURM_PROCID + 3))'; echo "code $?"
srun -n1 sh -c 'kill -9 $$'; echo "code $?"
srun -n9 true; echo "code $?"
srun -K sh -c '[ $SLURM_PROCID = 1 ] && exit 5; sleep 60'; echo "code $?"
srun -n2 cat <<END
input
END
echo "$(scontrol show hostnames | wc -l) $(scontrol show hostnames a[1-2],b)"
"""
COMPARED = frozenset(
    f"SLURM_{name}"
    for name in (
        "JOB_NUM_NODES", "NNODES", "NTASKS", "NTASKS_PER_NODE", "NPROCS", "TASKS_PER_NODE", "PROCID", "LOCALID",
        "NODEID", "GTIDS", "STEP_ID", "STEPID", "STEP_NUM_NODES", "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE",
        "JOB_NAME", "CPUS_PER_TASK",
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--ntasks=3"], {"SLURM_NTASKS": "3"}),
        (["--ntasks-per-node=1"], {"SLURM_NTASKS_PER_NODE": "1"}),
        (["-n2", "-c2"], {"SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "2"}),
        ([], {}),
    ],
    ids=["tasks", "per-node", "cpus", "none"],
)
def test_a_batch_script_finds_here_what_it_finds_in_slurm(
    lab: SlurmLab, tmp_path: Path, options: list[str], variables: dict[str, str]
) -> None:
    """Variables of script and tasks, places, exit codes, input and labels."""
    ours = run_job(tmp_path, ASKS, nodes=2, **variables)
    subprocess.run(
        ["sbatch", "--wait", "--output=out", *options, "job.sh"],
        cwd=tmp_path / "code",
        env=lab.environment,
        capture_output=True,
        check=False,
        timeout=110,
    )
    theirs = (tmp_path / "code" / "out").read_text()
    assert _compared(ours.out) == _compared(theirs), ours.err


def _compared(output: str) -> list[str]:
    """The lines that must not differ, in any order: tasks write when they like."""
    found = []
    for line in output.splitlines():
        words = line.split(" ", 2)
        is_variable = len(words) == 3 and words[1].startswith("SLURM_")
        if (is_variable and words[1] in COMPARED) or line.startswith(
            ("code", "2 ", "input", "0:", "1:", "2:", "b")
        ):
            found.append(line)
    return sorted(found)
