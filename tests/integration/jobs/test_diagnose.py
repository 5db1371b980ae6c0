"""A diagnosis on a real stack, of a training whose bottleneck was put there."""

from __future__ import annotations

import json

from muster.client import Client
from support.stack import Stack, wait_for

DELAY_MS = 250
"""Of the loader: many times the rest of a step, also on a busy machine, and it takes no processor."""


def test_a_slow_loader_is_found_and_the_advice_launched(stack: Stack, client: Client) -> None:
    inject = [{"rank": 0, "ms": DELAY_MS}]
    document = {
        "name": "slow-loader",
        "trainer": {"model": "mlp", "steps": 2, "options": {"width": 8, "inject": inject}},
        "checkpoints": {"every": None},
    }
    experiment = client.submit(json.dumps(document))
    client.wait(experiment["id"], timeout_s=90)
    (trial,) = client.trials(experiment["id"])

    options = ("--repeats", "3", "--steps", "15", "--no-wait", "--json")
    begun = stack.cli("diagnose", f"{experiment['id']}.1", *options)
    assert begun.returncode == 0, begun.stderr
    path = f"/diagnoses/{json.loads(begun.stdout)['id']}"
    wait_for("the verdict", lambda: client.get(path)["state"] != "running", 240)
    found = client.get(path)
    assert (found["state"], found["verdict"]) == ("complete", "data"), found["reason"]
    assert found["shares"]["data"]["value"] > 0.5
    assert [p["state"] for p in found["probes"]] == ["COMPLETED"] * 6
    # Nothing of the diagnosed trial has changed.
    (after,) = client.trials(experiment["id"])
    assert (after["attempt_no"], after["summary"]) == (trial["attempt_no"], trial["summary"])

    shown = stack.cli("diagnose", f"{experiment['id']}.1", "--apply", "prefetch")
    assert shown.returncode == 0, shown.stderr
    assert "Advice prefetch" in shown.stdout
    (advice,) = client.get(path)["advice"]
    fork = client.wait(advice["applied"][0]["experiment_id"], timeout_s=90)
    assert (fork["state"], fork["config"]["trainer"]["prefetch"]) == ("COMPLETED", 2)
