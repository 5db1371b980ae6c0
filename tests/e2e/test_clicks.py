"""How many clicks from the front page answer what people ask of a dashboard, counted by the browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.browser

COUNTER = """
window.__clicks = 0;
addEventListener("click", (event) => { if (event.isTrusted) window.__clicks += 1; }, true);
"""
SLOW_MS = 60_000
"""For what real workers have to do first."""


@pytest.fixture(scope="module")
def work(stack: Stack) -> Iterator[dict[str, Any]]:
    """A run that trains, one that waits for its slots, one that failed, and a search that ended."""
    with stack.client() as client:

        def submit(name: str, script: list[dict[str, Any]], **more: Any) -> Any:
            return client.post("/experiments", {"document": scripted(name, script, **more)})

        search = submit(
            "asked-search",
            [{"train": {"step_s": 0.01}}],
            hyperparameters={"lr": {"log": [1e-4, 1e-1]}},
            search={
                "method": "random", "metric": "val/loss", "goal": "min", "trials": 2,
                "concurrent": 2,
            },
        )  # fmt: skip
        failed = submit("asked-failed", [{"raise": "shard 7 is damaged"}])
        client.wait(search["id"], timeout_s=100)
        client.wait(failed["id"], timeout_s=100)
        noisy = [
            {"log": "loading"},
            {"log": "ERROR shard 3 was skipped", "stream": "stderr"},
            {"train": {"epochs": 2000, "step_s": 0.1}},
        ]
        submit("asked-noisy", noisy)
        training = {
            "name": "asked-training",
            "trainer": {"model": "mlp", "data": "digits", "epochs": 1000},
            "resources": {"slots": 1},
        }
        trains = client.submit(json.dumps(training))["id"]
        wait_for("it trains", lambda: client.trials(trains)[0]["step"] > 0, timeout_s=120)
        submit("asked-waiting", [{"sleep": 1}], slots=4)
        yield {"search": search["id"], "failed": failed["only_trial_id"]}
        for experiment in client.pages("/experiments", state=["QUEUED", "RUNNING"]):
            client.kill(experiment["id"])
            client.wait(experiment["id"], timeout_s=60)


@pytest.fixture
def front(
    signed_in: BrowserContext, stack: Stack, page: Page, work: dict[str, Any]
) -> Callable[[], int]:
    """The front page is open; returns how many clicks there were since."""
    page.add_init_script(COUNTER)
    page.goto(stack.url)
    expect(page.get_by_test_id("running")).to_contain_text("asked-training")
    return lambda: int(page.evaluate("window.__clicks"))


def open_run(page: Page, name: str) -> None:
    page.get_by_test_id("running").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def test_the_loss_of_a_run_is_one_click_away(front: Callable[[], int], page: Page) -> None:
    open_run(page, "asked-training")
    expect(page.get_by_test_id("stat-headline")).to_contain_text(re.compile(r"\d"))
    expect(page.get_by_test_id("chart-train/loss").locator("canvas").first).to_be_visible()
    assert front() == 1


def test_why_a_run_waits_is_on_the_front_page_and_one_click_away(
    front: Callable[[], int], page: Page
) -> None:
    row = page.get_by_test_id("queue-summary").get_by_role("listitem").filter(
        has_text="asked-waiting"
    )  # fmt: skip
    expect(row).to_contain_text("Needs 4 cpu slots")
    assert front() == 0
    row.get_by_role("link", name="asked-waiting").click()
    expect(page.get_by_test_id("waits")).to_contain_text("Needs 4 cpu slots")
    assert front() == 1


def test_why_a_run_failed_is_on_the_front_page_and_its_last_lines_one_click_away(
    front: Callable[[], int], page: Page
) -> None:
    entry = page.get_by_test_id("attention").get_by_role("listitem").filter(
        has_text="asked-failed"
    )  # fmt: skip
    expect(entry).to_contain_text("shard 7 is damaged")
    assert front() == 0
    entry.get_by_role("link", name=re.compile("asked-failed")).click()
    expect(page.get_by_test_id("last-lines")).to_contain_text("shard 7 is damaged")
    assert front() == 1


def test_the_winning_hyperparameters_are_one_click_away(
    front: Callable[[], int], page: Page
) -> None:
    page.get_by_role("link", name="asked-search").first.click()
    top = page.get_by_test_id("top-trials")
    expect(top.get_by_role("columnheader", name="lr")).to_be_visible()
    expect(top.get_by_role("row").nth(1)).to_contain_text(re.compile(r"0\.\d+"))
    assert front() == 1


def test_where_the_time_of_a_step_goes_is_one_click_away(
    front: Callable[[], int], page: Page
) -> None:
    open_run(page, "asked-training")
    parts = page.get_by_test_id("step-bar")
    expect(parts).to_have_attribute(
        "aria-label", re.compile(r"Where a step's time goes: .*Backward \d+%"), timeout=SLOW_MS
    )
    expect(page.get_by_test_id("stat-step-time")).to_contain_text(re.compile(r"\d"))
    assert front() == 1
    parts.click()
    expect(page.get_by_test_id("chart-step-breakdown")).to_be_visible()


def test_two_runs_are_compared_with_two_clicks(front: Callable[[], int], page: Page) -> None:
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Compare").click()
    page.get_by_test_id("compare-newest").click()
    expect(page.get_by_test_id("chart-train/loss")).to_have_attribute("data-num-series", "2")
    assert front() == 2


def test_an_error_in_a_log_is_two_clicks_away(front: Callable[[], int], page: Page) -> None:
    open_run(page, "asked-noisy")
    page.get_by_test_id("stat-errors-link").click()
    lines = page.get_by_test_id("log-line")
    expect(lines.first).to_contain_text("ERROR shard 3 was skipped")
    assert front() == 2


def test_the_figures_of_a_run_are_explained_to_a_keyboard(
    front: Callable[[], int], page: Page
) -> None:
    open_run(page, "asked-training")
    page.get_by_test_id("about-figures").focus()
    page.keyboard.press("Enter")
    about = page.get_by_role("dialog", name="About these figures")
    expect(about).to_contain_text("Throughput")
    expect(about).to_contain_text(re.compile(r"mean of the latest \d+ rows|the latest row"))
    page.keyboard.press("Escape")
    expect(about).to_have_count(0)
    expect(page.get_by_test_id("about-figures")).to_be_focused()
