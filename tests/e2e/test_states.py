"""What the pages say when things go wrong: a NaN loss, a failing script, a queue, no server."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.browser

SLOW_MS = 60_000
"""For what real workers have to do first."""


def submit(stack: Stack, name: str, script: list[dict[str, Any]], **more: Any) -> int:
    """Return the trial's id. Who is asked to stop afterwards is not waited for: it sleeps."""
    with stack.client() as client:
        document = scripted(name, script, stop_grace_s=1.0, **more)
        reply = client.post("/experiments", {"document": document})
    return int(reply["only_trial_id"])


def stop_all(stack: Stack) -> None:
    with stack.client() as client:
        states = {"state": ["QUEUED", "RUNNING"]}
        for experiment in client.pages("/experiments", **states):
            client.stop(experiment["id"])
            client.wait(experiment["id"], timeout_s=60, poll_s=0.2)


@pytest.fixture(autouse=True)
def free_slots(stack: Stack) -> Iterator[None]:
    yield
    stop_all(stack)


@contextlib.contextmanager
def without(stack: Stack, part: str) -> Iterator[None]:
    """Kill a part of the stack, and keep it from being started again for that long."""
    assert stack.process is not None
    pid = stack.part_pid(part)
    stack.process.send_signal(signal.SIGSTOP)
    try:
        os.kill(pid, signal.SIGKILL)
        yield
    finally:
        stack.process.send_signal(signal.SIGCONT)
    wait_for(f"{part} is started again", lambda: stack.part_pid(part) != pid)


def test_a_loss_that_is_not_finite_is_seen_everywhere(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    trial = submit(
        stack,
        "diverges",
        [{"train": {"steps_per_epoch": 10, "nan_at_step": 30}}, {"sleep": 600}],
    )
    page.goto(f"{stack.url}/trials/{trial}")
    notice = page.get_by_text("train/loss is NaN at step 30.")
    expect(notice).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_test_id("stat-loss")).to_contain_text("NaN")
    expect(page.get_by_test_id("non-finite")).to_contain_text("NaN at step 30")
    page.goto(stack.url)
    expect(page.get_by_test_id("attention")).to_contain_text("diverges reports a non-finite value")
    expect(page.get_by_test_id("attention")).to_contain_text("train/loss")


def test_a_failed_script_says_how_with_its_last_lines_and_a_way_to_the_log(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    trial = submit(
        stack,
        "exits-seven",
        [{"log": "no such file: train.bin", "stream": "stderr"}, {"exit": 7}],
    )
    page.goto(f"{stack.url}/trials/{trial}")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text(
        re.compile(r"Rank 0 on local-\d exited with code 7: no such file: train\.bin"),
        timeout=SLOW_MS,
    )
    expect(page.get_by_test_id("last-lines")).to_have_text("no such file: train.bin")
    page.get_by_test_id("root-cause").click()
    expect(page).to_have_url(re.compile(r"tab=logs"))
    expect(page.get_by_test_id("log-line").first).to_contain_text("no such file: train.bin")
    page.goto(f"{stack.url}/experiments?q=exits-seven&cols=name,state,progress")
    # It never took a step, so it is not done.
    expect(page.get_by_role("cell", name="Failed")).to_have_count(1)
    expect(page.get_by_role("progressbar", name="Progress")).to_have_count(0)


def test_a_queued_trial_says_why_it_waits(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    trial = submit(stack, "too-large", [{"sleep": 1}], slots=64)
    page.goto(f"{stack.url}/trials/{trial}")
    expect(page.get_by_text("Needs 64 cpu slots in pool default")).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_text("Cannot start on the current nodes")).to_be_visible()
    expect(page.get_by_test_id("stat-step")).to_have_count(0)  # nothing ran, nothing to measure
    # No node could ever hold it: that is more than an ordinary wait, wherever it stands.
    with stack.client() as client:
        experiment = client.get(f"/trials/{trial}")["experiment_id"]
    page.goto(f"{stack.url}/experiments/{experiment}")
    expect(page.get_by_test_id("waits")).to_contain_text("Needs 64 cpu slots")
    expect(page.get_by_test_id("stat-elapsed")).to_contain_text("waiting")
    page.goto(f"{stack.url}/queue")
    expect(page.get_by_test_id("pending-reason")).to_contain_text(
        "Cannot start on the current nodes: Needs 64 cpu slots"
    )
    page.goto(stack.url)
    expect(page.get_by_test_id("attention")).to_contain_text(
        "too-large cannot start on the current nodes"
    )
    # Dismissed, it stays away, for this user; it can be brought back.
    page.get_by_role("button", name="Dismiss: too-large cannot start on the current nodes:").click()
    expect(page.get_by_test_id("dismissed")).to_be_visible()
    expect(page.get_by_text("too-large cannot start")).to_have_count(0)
    page.reload()
    page.get_by_test_id("dismissed").click()
    expect(page.get_by_test_id("attention")).to_contain_text("too-large cannot start")
    page.get_by_role("button", name="Show again: too-large cannot start").click()
    expect(page.get_by_test_id("dismissed")).to_have_count(0)
    expect(page.get_by_test_id("attention")).to_contain_text("too-large cannot start")


def test_a_search_says_at_its_top_what_its_trials_failed_of(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    search = {"method": "random", "trials": 6, "metric": "val/acc", "goal": "max", "concurrent": 2}
    space = {"lr": {"log": [0.001, 0.1]}}
    with stack.client() as client:
        fails = [{"raise": "3 heads do not divide 64"}]
        document = scripted("fails-alike", fails, search=search, hyperparameters=space)
        experiment = client.submit(document)["id"]
        client.wait(experiment, timeout_s=90)
    page.goto(f"{stack.url}/experiments/{experiment}")
    expect(page.get_by_role("alert")).to_contain_text("failed alike before any of them reported")
    expect(page.get_by_test_id("notice")).to_contain_text("RuntimeError: 3 heads do not divide 64")


def test_a_restart_is_marked_where_it_resumed(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    training = {"epochs": 4, "steps_per_epoch": 10, "step_s": 0.02, "fail_at_step": 25}
    trial = submit(stack, "restarts", [{"train": training}, {"sleep": 600}], restarts={"user": 1})
    page.goto(f"{stack.url}/trials/{trial}?tab=metrics")
    chart = page.get_by_test_id("chart-train/loss")
    expect(chart).to_have_attribute("data-last-step", "40", timeout=SLOW_MS * 2)
    expect(chart).to_have_attribute("data-restarts", "21")
    expect(page.get_by_test_id("stat-restarts")).to_contain_text("1")


@pytest.fixture
def unwatched(signed_in: BrowserContext) -> Iterator[Page]:
    """A page whose console may complain: the browser reports every failed request there."""
    page = signed_in.new_page()
    yield page
    page.close()


def live_state(page: Page) -> Any:
    return expect(page.get_by_test_id("live-state"))


def test_without_a_server_the_page_says_so_and_goes_on_when_it_is_back(
    unwatched: Page, stack: Stack
) -> None:
    trial = submit(stack, "outlives", [{"train": {"epochs": 2000, "step_s": 0.1}}])
    page = unwatched
    page.goto(f"{stack.url}/trials/{trial}?tab=metrics")
    expect(page.get_by_test_id("chart-train/loss").locator("canvas").first).to_be_visible(
        timeout=SLOW_MS
    )
    live_state(page).to_have_text("Live")
    page.evaluate("window.__not_reloaded = true")
    fetched = "performance.getEntriesByType('resource').map((entry) => entry.name)"
    wait_for(
        "the code of the other pages is there",
        lambda: any("/Settings-" in name for name in page.evaluate(fetched)),
    )
    with without(stack, "server"):
        live_state(page).to_contain_text("Offline – data from")
        step = page.get_by_test_id("stat-step").inner_text()
        assert re.search(r"[1-9]", step)  # what was there stays
        # Going to another page keeps the frame, and says why there is nothing on it.
        page.get_by_role("link", name="Queue").first.click()
        expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
        live_state(page).to_contain_text("Offline")
        page.go_back()
        expect(page.get_by_test_id("stat-step")).to_be_visible()
    live_state(page).to_have_text("Live", timeout=SLOW_MS)
    expect(page.get_by_test_id("stat-step")).not_to_have_text(step)
    assert page.evaluate("window.__not_reloaded")


def test_without_redis_the_page_says_that_it_is_late(unwatched: Page, stack: Stack) -> None:
    page = unwatched
    page.goto(stack.url)
    live_state(page).to_have_text("Live")
    with without(stack, "valkey"):
        live_state(page).to_have_text("Delayed", timeout=SLOW_MS)
        submit(stack, "while-late", [{"sleep": 600}])
        expect(page.get_by_role("link", name="while-late").first).to_be_visible(timeout=SLOW_MS)
    live_state(page).to_have_text("Live", timeout=SLOW_MS)
