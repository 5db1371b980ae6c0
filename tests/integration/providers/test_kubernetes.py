"""Pools whose nodes a cluster of Kubernetes supplies, whose pods are processes of this machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from muster_server.loops.providers import LOOK_S
from support.batch.kubernetes import IMAGE, KubernetesLab
from support.batch.pools import pilots_of, running, stack_of, submit, trial_of
from support.guides import GUIDES
from support.quick_stack import QuickStack
from support.stack import scripted, wait_for

pytestmark = pytest.mark.timeout(1200)

TRAINING = """
name: digits-on-kubernetes
trainer: {model: mlp, data: digits, epochs: 2, batch_size: 32}
resources: {slots: 4, nodes: 2, pool: gpu}
checkpoints: {every: {epochs: 1}}
"""
OURS = {
    "image": IMAGE,
    "nodes": "0:3",
    "slots": "2",
    "slot-type": "cpu",
    "cpus": "2",
    "memory": "1Gi",
    "gpus": None,
    "walltime": "30m",
    "idle": "10s",
    "grace": "20s",
    "toleration": None,
}
"""What this cluster has, instead of what the guide's has."""


@pytest.fixture(scope="module")
def lab() -> Iterator[KubernetesLab]:
    with running("muster-k8s-", lambda folder: KubernetesLab(folder / "lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def stack(lab: KubernetesLab) -> Iterator[QuickStack]:
    with stack_of({"MUSTER_KUBECONFIG": str(lab.kubeconfig)}) as stack:
        yield stack


def command_of_guide() -> list[str]:
    text = (GUIDES / "kubernetes.md").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^muster pool create .*$", text, re.MULTILINE)
    return shlex.split(line)


def create_pool(stack: QuickStack, name: str = "gpu", **options: str) -> None:
    """Run the command of the guide, with what this machine has instead."""
    words = command_of_guide()[3:]
    given = dict(zip((word.removeprefix("--") for word in words[1::2]), words[2::2], strict=True))
    given |= OURS | {"server-url": stack.url} | options
    options_given = [f"--{key}={value}" for key, value in given.items() if value is not None]
    done = stack.cli("pool", "create", name, *options_given)
    assert done.returncode == 0, done.stderr


def reason_of(stack: QuickStack, experiment_id: int) -> str:
    return str(trial_of(stack, experiment_id)["pending_reason"])


def all_have_left(stack: QuickStack, lab: KubernetesLab) -> bool:
    """Whether no pod of the cluster runs, and no pilot is taken for one that does."""
    phases = [pod["status"]["phase"] for pod in list(lab.api.objects["pods"].values())]
    return not {"Pending", "Running"} & set(phases) and {
        pilot["state"] for pilot in pilots_of(stack)
    } == {"ended"}


@pytest.mark.torch
def test_pilots_come_for_what_waits_and_leave_when_idle(
    stack: QuickStack, lab: KubernetesLab
) -> None:
    create_pool(stack)
    experiment_id = submit(stack, TRAINING)
    reasons = set()

    def has_ended() -> bool:
        trial = trial_of(stack, experiment_id)
        reasons.add(trial["pending_reason"])
        return trial["state"] in ("COMPLETED", "FAILED")

    try:
        wait_for("the training ends", has_ended, 240)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{lab.logs()}\n{stack.text()[-3000:]}") from None
    trial = trial_of(stack, experiment_id)
    assert trial["state"] == "COMPLETED", trial["reason"]
    assert any("pilots of Kubernetes namespace ml" in reason for reason in reasons), reasons
    assert trial["num_restarts"] == 0
    assert trial["summary"]["train/loss"]["last"] is not None
    (attempt,) = trial["attempts"]
    assert set(attempt["nodes"]) <= {pilot["id"] for pilot in pilots_of(stack)}
    assert len(attempt["nodes"]) == 2
    wait_for("the pilots have left", lambda: all_have_left(stack, lab), 240)
    ends = {job["status"]["conditions"][0]["type"] for job in lab.api.objects["jobs"].values()}
    assert ends == {"Complete"}
    assert "problem" not in stack.cli("pool", "provider", "gpu").stdout


def test_an_evicted_pilot_costs_a_trial_no_restart_and_an_api_that_is_away_nothing(
    stack: QuickStack, lab: KubernetesLab
) -> None:
    create_pool(stack)
    script = [
        {"checkpoint": 5, "attempts": [1]},
        {"wait_for_stop": 300, "exit": 0, "attempts": [1]},
        {"log": "second"},
    ]
    resources = {"slots": 4, "nodes": 2, "pool": "gpu"}
    experiment_id = submit(stack, scripted("evicted", script, resources=resources))

    def states() -> list[str]:
        return [a["state"] for a in trial_of(stack, experiment_id)["attempts"]]

    wait_for("it runs", lambda: states() == ["RUNNING"], 180)
    asked: list[str] = []
    lab.api.fault = lambda verb, resource: asked.append(resource) or "away"
    try:
        wait_for("Kubernetes was asked in vain", lambda: len(asked) > 1, max(4 * LOOK_S, 120))
    finally:
        lab.api.fault = lambda verb, resource: ""
    assert states() == ["RUNNING"]
    up = [pilot for pilot in pilots_of(stack) if pilot["state"] == "up"]
    assert len(up) == 2
    lab.evict(lab.pod_of(up[0]["ref"]))
    wait_for(
        "it has gone on elsewhere",
        lambda: trial_of(stack, experiment_id)["state"] == "COMPLETED",
        180,
    )
    trial = trial_of(stack, experiment_id)
    assert trial["num_restarts"] == 0
    ends = {attempt["no"]: attempt["termination"] for attempt in trial["attempts"]}
    assert ends == {1: "drained", 2: "success"}
    wait_for("all pilots have left", lambda: all_have_left(stack, lab), 240)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": "8"}, "2 Insufficient nvidia.com/gpu"),
        ({"image": "nope:1"}, 'Back-off pulling image "nope:1"'),
        (
            {"namespace": "elsewhere"},
            'there is no such namespace (namespaces "elsewhere" not found)',
        ),
    ],
    ids=["no-gpus", "no-image", "no-namespace"],
)
def test_what_keeps_a_pilot_reaches_the_trial_in_kubernetes_words(
    stack: QuickStack, lab: KubernetesLab, options: dict[str, str], words: str
) -> None:
    create_pool(stack, "wrong", **options)
    document = scripted("waits", [], resources={"slots": 1, "pool": "wrong"})
    experiment_id = submit(stack, document)
    wait_for("it is told", lambda: words in reason_of(stack, experiment_id), 240)
    with stack.client() as client:
        client.post(f"/experiments/{experiment_id}:kill")
    assert stack.cli("pool", "release", "wrong").returncode == 0
    names = {pilot["ref"] for pilot in pilots_of(stack, "wrong")}
    wait_for("its Jobs are gone", lambda: not names & set(lab.names("jobs")), 240)
