"""A diagnosis on a real stack, of a training whose bottleneck was put there."""

from __future__ import annotations

import json

from muster.client import Client
from muster.testing.stack import Stack, wait_for

DELAY_MS = 80
"""Of the loader: several times the rest of a step, and it takes no processor."""
STEPS = 30


def test_a_slow_loader_is_found_and_the_advice_brings_what_it_predicts(
    stack: Stack, client: Client
) -> None:
    inject = [{"rank": 0, "ms": DELAY_MS}]
    document = {
        "name": "slow-loader",
        "trainer": {"model": "mlp", "steps": STEPS, "options": {"width": 8, "inject": inject}},
        "checkpoints": {"every": None},
    }
    experiment = client.submit(json.dumps(document))
    client.wait(experiment["id"], timeout_s=90, poll_s=0.1)
    (trial,) = client.trials(experiment["id"])

    done = stack.cli("diagnose", str(trial["id"]), "--repeats", "2", "--steps", "15", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["state"], found["verdict"]) == ("complete", "data"), found["reason"]
    assert found["shares"]["data"]["low"] > 0.5
    assert [p["state"] for p in found["probes"]] == ["COMPLETED"] * 4
    # Nothing of the diagnosed trial has changed.
    (after,) = client.trials(experiment["id"])
    assert (after["attempt_no"], after["summary"]) == (trial["attempt_no"], trial["summary"])

    shown = stack.cli("diagnose", str(trial["id"]), "--apply", "prefetch")
    assert shown.returncode == 0, shown.stderr
    assert "Advice prefetch" in shown.stdout

    def achieved() -> float | None:
        (advice,) = client.get(f"/diagnoses/{found['id']}")["advice"]
        gain = advice["applied"][0]["achieved"]
        return None if gain is None else float(gain)

    # The loader sleeps for most of a step, so fetching beside computing saves the rest of it.
    predicted = found["advice"][0]["gain"]["value"]
    wait_for("the advice was tried", lambda: achieved() is not None, 90)
    assert abs((achieved() or 0.0) - predicted) < 0.3
