"""The one page of an experiment with a single trial, from its wait to what it takes to run it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.browser

SLOW_MS = 60_000
PHONE_PX = {"width": 390, "height": 844}
NUM_LINES = 30_000


@pytest.fixture(scope="module")
def trained(stack: Stack) -> Iterator[int]:
    """An experiment whose only trial trains; its id."""
    with stack.client() as client:
        training = {"epochs": 5000, "steps_per_epoch": 10, "step_s": 0.05}
        made = client.post(
            "/experiments", {"document": scripted("one-page", [{"train": training}])}
        )
        wait_for("it trains", lambda: client.trials(made["id"])[0]["step"] > 20, 90)
        yield made["id"]
        client.stop(made["id"])
        client.wait(made["id"], timeout_s=60)


def test_a_script_without_metrics_opens_on_its_log_which_fills_the_window(
    page: Page, stack: Stack, signed_in: BrowserContext
) -> None:
    with stack.client() as client:
        script = [
            {"log": "the needle"},
            {"log": "hay", "repeat": NUM_LINES},
            {"sleep": 600},
        ]
        made = client.post("/experiments", {"document": scripted("says-much", script)})
        path = f"/trials/{made['only_trial_id']}/logs"
        wait_for("it wrote", lambda: client.get(path, limit=1)["num_lines"] > NUM_LINES, 90)
        page.goto(f"{stack.url}/experiments/{made['id']}")
        log = page.get_by_test_id("log")
        expect(log).to_be_visible()
        expect(page).to_have_url(re.compile(rf"/experiments/{made['id']}$"))
        main = page.get_by_role("main")
        # Nothing but the log scrolls, and what is below it is its keys.
        wait_for(
            "the log fills the window",
            lambda: main.evaluate("(main) => main.scrollHeight <= main.clientHeight"),
        )
        box = log.bounding_box()
        assert box
        assert box["y"] + box["height"] > 900 - 120
        assert box["height"] > 450

        # A search goes on by itself to the first line.
        page.get_by_test_id("log-filter").fill("needle")
        expect(page.get_by_test_id("log-hits")).to_contain_text("in all lines")
        expect(page.get_by_test_id("log-line")).to_have_count(1)

        # The other tab is one click away, and stays in the address.
        page.get_by_test_id("tab-metrics").click()
        expect(page).to_have_url(re.compile(r"\?(.*&)?tab=metrics"))
        expect(page.get_by_test_id("empty")).to_be_visible()
        client.kill(made["id"])
        client.wait(made["id"], timeout_s=60)


def test_the_page_of_an_experiment_is_its_trials(
    page: Page, stack: Stack, signed_in: BrowserContext, trained: int
) -> None:
    page.goto(f"{stack.url}/experiments/{trained}")
    expect(page.get_by_test_id("chart-train/loss").locator("canvas").first).to_be_visible()
    strip = page.get_by_test_id("trial-strip")
    expect(strip.get_by_test_id("stat-loss")).to_contain_text("train/loss")
    expect(strip.get_by_test_id("stat-eta")).to_contain_text("≈")
    box = strip.bounding_box()
    assert box
    assert box["height"] < 40  # one line

    page.get_by_test_id("tab-system").click()
    expect(page.get_by_test_id("chart-cpu/cpu_pct")).to_have_attribute(
        "data-num-series", "1", timeout=SLOW_MS
    )
    expect(page.get_by_test_id("chart-cpu/memory_used_bytes")).to_be_visible()

    page.get_by_test_id("tab-config").click()
    reproduce = page.get_by_test_id("reproduce")
    expect(reproduce).to_contain_text(f"muster fork {trained}")
    expect(reproduce).to_contain_text("support.nodes.scripted")
    expect(reproduce).to_contain_text("installed packages")
    rows = page.get_by_test_id("settings-table").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("document")
    expect(rows.last).to_contain_text("default")
    page.get_by_test_id("settings-find").fill("max_nodes")
    expect(rows).to_have_count(2)
    shapes = page.get_by_test_id("settings")
    shapes.get_by_text("As submitted", exact=True).click()
    expect(page.get_by_test_id("settings")).to_contain_text('"name": "one-page"')
    with stack.client() as client:
        document = json.loads(client.get(f"/experiments/{trained}")["document"])
        document |= {"name": "two-slots", "resources": {"slots": 64}}
        other = client.post("/experiments", {"document": json.dumps(document)})["id"]
    shapes.get_by_text("Compare", exact=True).click()
    page.get_by_test_id("settings-other").fill(str(other))
    difference = page.get_by_test_id("settings-difference")
    expect(difference.get_by_role("row").filter(has_text="resources.slots")).to_contain_text("64")
    with stack.client() as client:
        client.kill(other)


def test_on_a_phone_the_first_chart_is_on_the_first_screen(
    browser: Browser, stack: Stack, signed_in: BrowserContext, trained: int
) -> None:
    phone = browser.new_context(
        viewport=PHONE_PX, storage_state=signed_in.storage_state(), locale="en-US"
    )
    page = phone.new_page()
    page.goto(f"{stack.url}/experiments/{trained}")
    chart = page.get_by_test_id("chart-train/loss")
    expect(chart.locator("canvas").first).to_be_visible()
    box = chart.bounding_box()
    assert box
    bottom = page.get_by_role("main").bounding_box()
    assert bottom
    assert box["y"] + box["height"] <= bottom["y"] + bottom["height"]
    phone.close()
