"""One run whose figures are read in every place: page, list, overview, commands, REST, CSV and Prometheus."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from prometheus_client.parser import text_string_to_metric_families

from support.stack import Stack, wait_for

pytestmark = pytest.mark.browser

NUM_ROWS = 120
BATCH = 64


SCRIPT = f"""
import time
import muster
run = muster.init()
rank = run.info.rank
for step in range(1, {NUM_ROWS} + 1):
    # Every fifth step is slow, so that a mean of rates or of shares is far from the true one.
    took = 450.0 if step % 5 == 0 else 100.0
    exposed = 10.0 + 5.0 * rank + (60.0 if step % 5 == 0 else 0.0)
    values = {{
        "time/step_ms": took,
        "time/forward_ms": took - exposed,
        "comm/exposed_ms": exposed,
        "comm/overhead_ratio": exposed / took,
    }}
    if rank == 0:
        values |= {{"throughput/samples_per_s": {BATCH} / took * 1e3, "loss": 1 / step}}
    muster.log(values, step=step)
time.sleep(2)  # below a second a duration has a decimal
while not run.should_stop():
    time.sleep(0.1)
"""


def in_words(seconds: int) -> str:
    """Return a duration as people read it."""
    minutes, rest = divmod(seconds, 60)
    parts = [f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0 or not minutes)
    return " ".join(parts)


def test_the_figures_of_a_run_are_equal_everywhere(
    page: Page, stack: Stack, signed_in: BrowserContext
) -> None:
    with stack.client() as client:
        document = {
            "name": "equal",
            "entrypoint": ["python", "-c", SCRIPT],
            "launcher": "direct",
            "resources": {"slots": 2},
        }
        made = client.post("/experiments", {"document": json.dumps(document)})
        trial_id = made["only_trial_id"]

        def has_all() -> bool:
            workers = client.pages(f"/trials/{trial_id}/workers")
            return [worker["step"] for worker in workers] == [NUM_ROWS] * 2

        wait_for("both ranks have reported", has_all, 120)
        running = client.get("/cluster")
        headers = {"Authorization": f"Bearer {stack.access['token']}"}
        scraped = {
            sample.name: sample.value
            for family in text_string_to_metric_families(
                httpx.get(f"{stack.url}/metrics", headers=headers).text
            )
            for sample in family.samples
        }
        # These two say what was measured last: step 120 is a slow one.
        assert running["samples_per_s"] == pytest.approx(BATCH / 0.45)
        assert scraped["muster_training_samples_per_second"] == running["samples_per_s"]
        assert running["comm_overhead_ratio"] == pytest.approx(145 / 900)
        assert scraped["muster_training_communication_ratio"] == running["comm_overhead_ratio"]

        client.stop(made["id"])
        client.wait(made["id"], timeout_s=60)
        trial = client.get(f"/trials/{trial_id}")
        experiment = client.get(f"/experiments/{made['id']}")
        figures = client.get(f"/trials/{trial_id}/performance")["figures"]
        text = httpx.get(f"{stack.url}/api/v1/trials/{trial_id}/series.csv", headers=headers).text

    # REST, and the file with every row.
    assert figures["time/step_ms"] == pytest.approx(170)
    assert figures["throughput/samples_per_s"] == pytest.approx(BATCH / 0.17)
    assert figures["comm/overhead_ratio"] == pytest.approx(24.5 / 170)
    values: dict[tuple[str, str], list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        values.setdefault((row["name"], row["rank"]), []).append(float(row["value"]))
    newest = {key: found[-100:] for key, found in values.items()}
    assert sum(newest["time/step_ms", "0"]) / 100 == pytest.approx(figures["time/step_ms"])
    exposed = sum(newest["comm/exposed_ms", "0"] + newest["comm/exposed_ms", "1"]) / 200
    assert exposed / 170 == pytest.approx(figures["comm/overhead_ratio"])
    assert newest["loss", "0"][-1] == trial["summary"]["loss"]["last"] == 1 / NUM_ROWS
    assert experiment["headline"]["last"] == 1 / NUM_ROWS
    assert (trial["step"], experiment["headline"]["step"]) == (NUM_ROWS, NUM_ROWS)
    took = [
        dt.datetime.fromisoformat(one["ended_at"]) - dt.datetime.fromisoformat(one["started_at"])
        for one in (trial, experiment)
    ]
    duration = in_words(int(took[0].total_seconds()))
    assert took[1] == took[0]

    # The page.
    page.goto(f"{stack.url}/experiments/{made['id']}")
    for name, shown in {
        "headline": "0.008333",
        "step": str(NUM_ROWS),
        "throughput": "376.5",
        "comm": "14%",
        "step-time": "170 ms",
    }.items():
        expect(page.get_by_test_id(f"stat-{name}")).to_contain_text(shown)
    expect(page.get_by_test_id("stat-elapsed")).to_have_text(re.compile(rf"\b{duration}$"))

    # The list.
    page.goto(f"{stack.url}/experiments")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="equal", exact=True))
    expect(row).to_contain_text("0.008333")
    expect(row).to_contain_text(duration)

    # The commands.
    shown = " ".join(stack.cli("show", str(made["id"])).stdout.split())
    assert "loss 0.008333" in shown, shown
    assert re.search(rf"\b{BATCH / 0.17:.2f} samples/s 14% 0\b", shown), shown
    listed = " ".join(stack.cli("list").stdout.split())
    assert "loss 0.008333" in listed, listed
    performance = stack.cli("performance", str(made["id"]))
    told = " ".join((performance.stdout + performance.stderr).split())
    assert f"{BATCH / 0.17:.2f} samples/s, 170.0 ms per step" in told, told
    assert "communication and waiting 14%" in told, told
