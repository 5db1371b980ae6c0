"""The one page of an experiment with a single trial, from its wait to what it takes to run it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

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


@pytest.fixture(scope="module")
def resumed(stack: Stack) -> Iterator[dict[str, Any]]:
    """An experiment whose only trial was killed after step 38, resumed at step 30, and is done."""
    training = {"steps_per_epoch": 10, "step_s": 0.05}
    script: list[dict[str, Any]] = [
        {"train": {**training, "epochs": 3}, "attempts": [1]},
        *(
            action
            for step in range(31, 39)
            for action in (
                {"sleep": 0.2, "attempts": [1]},
                {"report": {"train/loss": 0.1}, "step": step, "attempts": [1]},
            )
        ),
        {"signal": "SIGKILL", "attempts": [1]},
        {"train": {**training, "epochs": 6}},
    ]
    with stack.client() as client:
        made = client.post("/experiments", {"document": scripted("resumes", script)})
        client.wait(made["id"], timeout_s=120)
        yield made


def test_the_tab_goodput_names_each_piece_and_what_survived(
    page: Page, stack: Stack, signed_in: BrowserContext, resumed: dict[str, Any]
) -> None:
    page.goto(f"{stack.url}/trials/{resumed['only_trial_id']}")
    page.get_by_test_id("tab-goodput").click()
    expect(page.get_by_test_id("goodput-headline")).to_contain_text("% ")
    whole = page.get_by_test_id("goodput")
    expect(whole.locator("[data-kind=productive]")).to_contain_text("slot-seconds")
    # The keyboard learns what a piece is, like the pointer.
    whole.locator("[data-kind=productive]").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("tooltip")).to_have_text(
        re.compile(r"^Preparing: [\d.]+% · [\d.]+ slot-seconds$")
    )
    expect(whole.locator("[data-kind=repeated]")).to_have_count(1)
    attempts = page.get_by_test_id("goodput-attempts").get_by_role("listitem")
    expect(attempts.filter(has_text="Attempt 1")).to_contain_text("kept to step 30")
    expect(attempts.filter(has_text="Attempt 2")).to_contain_text("all steps kept")


def test_a_trial_that_does_nothing_is_kept_running_by_one_click(
    page: Page, stack: Stack, signed_in: BrowserContext
) -> None:
    rule = {"no_step_for_min": 0.1, "grace_min": 0, "action": "stop", "act_after_min": 60}
    script = [{"train": {"epochs": 1, "steps_per_epoch": 5, "step_s": 0.05}}, {"sleep": 600}]
    with stack.client() as client:
        document = {**json.loads(scripted("wasteful", script)), "waste": rule}
        made = client.post("/experiments", {"document": json.dumps(document)})
        trial = f"/trials/{made['only_trial_id']}"
        wait_for("it is noticed", lambda: client.get(trial)["waste"], 120)
        page.goto(f"{stack.url}/experiments/{made['id']}")
        expect(page.get_by_test_id("waste")).to_contain_text("unless it goes on or you keep it")
        page.get_by_test_id("keep-8").click()
        expect(page.get_by_test_id("waste")).to_have_count(0)
        assert client.get(trial)["keep_until"] is not None
        client.kill(made["id"])
        client.wait(made["id"], timeout_s=60)
    page.get_by_test_id("tab-goodput").click()
    expect(page.get_by_test_id("efficiency")).to_contain_text("Asked for")


def test_the_page_goodput_is_narrowed_by_a_click_and_leads_to_the_trial_that_lost(
    page: Page, stack: Stack, signed_in: BrowserContext, resumed: dict[str, Any]
) -> None:
    trial = str(resumed["only_trial_id"])
    with stack.client() as client:
        wait_for(
            "it is counted",
            lambda: trial in [str(t["trial_id"]) for t in client.get("/goodput")["trials"]],
            150,
        )
    page.goto(f"{stack.url}/goodput")
    expect(page.get_by_test_id("goodput-losses")).to_contain_text("What to do")
    expect(page.get_by_test_id("goodput-trend").locator("rect").first).to_be_visible()
    page.get_by_test_id("goodput-groups").get_by_role("button", name="default").click()
    expect(page).to_have_url(re.compile("project=default"))
    page.get_by_text("30 days", exact=True).click()
    expect(page).to_have_url(re.compile("days=30"))
    page.get_by_test_id("goodput-only-project").click()
    expect(page).not_to_have_url(re.compile("project="))
    with page.expect_download() as download:
        page.get_by_test_id("goodput-csv").click()
    assert download.value.suggested_filename == "goodput.csv"
    page.get_by_test_id("goodput-trials").get_by_role("link", name="resumes").click()
    expect(page).to_have_url(re.compile(rf"/trials/{trial}\?tab=goodput"))
    expect(page.get_by_test_id("goodput")).to_be_visible()


def test_a_fork_takes_the_override_that_its_link_brings(
    page: Page, stack: Stack, signed_in: BrowserContext, resumed: dict[str, Any]
) -> None:
    override = 'checkpoints.every={"steps":7}'
    page.goto(f"{stack.url}/submit?from={resumed['id']}&set={quote(override)}")
    expect(page.get_by_test_id("fork-set")).to_contain_text(override)
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true")
    page.get_by_test_id("submit").click()
    expect(page).to_have_url(re.compile(r"/trials/\d+"))
    trial_id = int(page.url.rpartition("/")[2])
    with stack.client() as client:
        forked = client.get(f"/trials/{trial_id}")
        client.kill(forked["experiment_id"])
        assert forked["config"]["checkpoints"]["every"] == {"steps": 7, "epochs": None}
