"""An experiment from pause to deletion in the browser; every dialog says what it is about to do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.browser

SLOW_MS = 90_000


def confirm(page: Page, action: str, says: str) -> None:
    """Ask for an operation and confirm it once the dialog says so: it follows what the trials do."""
    button = page.get_by_test_id(action)
    if button.count() == 0:
        page.get_by_test_id("more-actions").click()
    button.click()
    effect = page.get_by_test_id("operation-effect")
    expect(effect).to_contain_text(says)
    page.get_by_test_id("confirm").click()
    expect(effect).to_have_count(0)


def badge(page: Page, state: str) -> None:
    expect(page.locator(f"header [data-state={state}]")).to_be_visible(timeout=SLOW_MS)


def test_pause_resume_budget_stop_continue_fork_archive_and_delete(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        training = {"epochs": 5000, "steps_per_epoch": 10, "step_s": 0.05}
        document = scripted("operated", [{"train": training}], stop_grace_s=20)
        experiment_id = client.post("/experiments", {"document": document})["id"]

        def detail() -> Any:
            return client.get(f"/experiments/{experiment_id}")

        trial_id = detail()["only_trial_id"]
        wait_for("it trains", lambda: client.get(f"/trials/{trial_id}")["step"] > 20, 90)
        page.goto(f"{stack.url}/trials/{trial_id}")
        confirm(
            page, "pause", "1 running trial gets 20 s to save a checkpoint and gives up 1 slot."
        )
        badge(page, "PAUSED")
        confirm(page, "resume", "1 trial is queued again and resumes from its checkpoint.")
        badge(page, "RUNNING")

        # The page of the experiment is the same one, with the rest in a tab.
        page.goto(f"{stack.url}/experiments/{experiment_id}")
        expect(page.get_by_test_id("chart-train/loss")).to_be_visible()
        page.get_by_test_id("tab-details").click()
        expect(page).to_have_url(re.compile(rf"/experiments/{experiment_id}\?tab=details$"))
        page.get_by_test_id("edit-budget").click()
        form = page.get_by_test_id("budget-form")
        form.get_by_label("Slot-hours").fill("1000")
        form.get_by_label("Alert at (%)").fill("25, 75")
        form.get_by_role("button", name="Save").click()
        limit = page.get_by_test_id("limit-slot_hours")
        expect(limit).to_contain_text("of 1,000 slot-hours")
        expect(limit).to_contain_text("Alerts at 25%, 75%")
        expect(page.get_by_test_id("budget")).to_contain_text("save a checkpoint and end")

        confirm(page, "kill", "are killed immediately, freeing 1 slot")
        badge(page, "CANCELED")
        page.get_by_test_id("continue").click()
        expect(page.get_by_test_id("continue-effect")).to_contain_text("The trial continues.")
        page.get_by_test_id("confirm").click()
        badge(page, "RUNNING")
        expect(page.get_by_test_id("continued")).to_have_text("continued 1 time")
        confirm(
            page, "stop", "1 running trial gets 20 s to save a last checkpoint and frees 1 slot."
        )
        badge(page, "CANCELED")

        see_which_checkpoints_would_go(page, stack, client, experiment_id)
        fork_id = fork_from_the_latest_checkpoint(page, stack, client, experiment_id)
        client.post(f"/experiments/{fork_id}:kill")
        client.wait(fork_id, timeout_s=60)

        page.goto(f"{stack.url}/experiments/{experiment_id}?tab=details")
        expect(page.get_by_test_id("children")).to_contain_text(f"operated #{fork_id}")
        confirm(page, "archive", "Nothing is deleted")
        expect(page.get_by_text("archived", exact=True)).to_be_visible()

        page.get_by_test_id("more-actions").click()
        page.get_by_test_id("delete").click()
        deletion = page.get_by_test_id("deletion")
        size = client.get(f"/experiments/{experiment_id}/deletion")["freed"]["num_checkpoints"]
        expect(deletion).to_contain_text(re.compile(rf"{size} checkpoints?, [\d.]+ .*B of files"))
        expect(deletion).to_contain_text("The files are deleted now.")
        expect(deletion).to_contain_text("1 experiment forked from it is kept.")
        expect(page.get_by_test_id("confirm")).to_be_disabled()
        page.get_by_test_id("typed").fill(str(experiment_id))
        page.get_by_test_id("confirm").click()
        expect(page).to_have_url(re.compile(r"/experiments$"))
        page.goto(f"{stack.url}/experiments/{fork_id}?tab=details")
        expect(page.get_by_test_id("origin")).to_contain_text("since deleted")


def see_which_checkpoints_would_go(
    page: Page, stack: Stack, client: Any, experiment_id: int
) -> None:
    before = page.url
    plan = client.get(f"/experiments/{experiment_id}/checkpoints:plan", last=0)
    trial_id = client.get(f"/experiments/{experiment_id}")["only_trial_id"]
    page.goto(f"{stack.url}/trials/{trial_id}?tab=checkpoints")
    page.get_by_test_id("export-model").first.click()
    problem = page.get_by_test_id("export-problem").first
    expect(problem).to_contain_text("another program than the built-in trainer made it")
    page.get_by_test_id("cleaning-open").click()
    expect(page.get_by_test_id("cleaning-policy")).to_contain_text("everything is kept")
    page.get_by_label("Latest per trial").fill("0")
    rows = page.get_by_test_id("cleaning-plan").locator("tbody tr")
    expect(rows).to_have_count(len(plan["checkpoints"]))
    expect(page.get_by_test_id("cleaning-delete")).to_contain_text(f"Delete {plan['num_dropped']}")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("cleaning-plan")).to_have_count(0)
    page.goto(before)


def fork_from_the_latest_checkpoint(
    page: Page, stack: Stack, client: Any, experiment_id: int
) -> int:
    page.get_by_test_id("more-actions").click()
    page.get_by_test_id("fork").click()
    expect(page.get_by_role("heading", name="Fork of operated")).to_be_visible()
    page.get_by_test_id("fork-bar").get_by_label("Start from").click()
    page.get_by_role("option", name="Latest checkpoint").click()
    expect(page).to_have_url(re.compile(r"start=latest"))
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true", timeout=SLOW_MS)
    page.get_by_test_id("submit").click()
    expect(page.get_by_test_id("origin")).to_contain_text(f"operated #{experiment_id}, step")
    expect(page).to_have_url(re.compile(r"/trials/\d+"))
    trial = client.get(f"/trials/{page.url.rsplit('/', 1)[1]}")
    return int(trial["experiment_id"])


def test_all_that_match_are_stopped_then_deleted_and_each_is_accounted_for(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        ids = [
            client.post(
                "/experiments", {"document": scripted(f"many-{i}", [{"sleep": 1}], slots=64)}
            )["id"]
            for i in range(52)
        ]
        client.stop(ids[0])
        client.wait(ids[0], timeout_s=60)

        page.goto(f"{stack.url}/experiments?q=many-")
        # Only rows in view are drawn.
        expect(page.get_by_test_id("experiments")).to_have_attribute("data-rows", "50")
        page.get_by_test_id("select-all").check()
        bar = page.get_by_test_id("bulk-bar")
        expect(bar).to_contain_text("50 selected")
        page.get_by_test_id("select-all-matching").click()
        expect(bar).to_contain_text("All 52 matching selected")
        bulk(page, "stop")
        preview = page.get_by_test_id("bulk-preview")
        expect(preview.get_by_test_id("group-changes")).to_contain_text("51 will change")
        expect(preview.get_by_test_id("group-unchanged")).to_contain_text("1 already in this state")
        page.get_by_test_id("confirm").click()
        expect(page.get_by_test_id("bulk-result")).to_contain_text(
            "51 done, 1 unchanged, 0 refused."
        )
        page.get_by_test_id("bulk-close").click()
        expect(bar).to_have_count(0)
        for id_ in ids:
            client.wait(id_, timeout_s=90)

        # One that goes on is refused, with its reason; the others are not kept back by it.
        document = scripted("many-last", [{"sleep": 600}], slots=64)
        last = client.post("/experiments", {"document": document})["id"]
        page.reload()
        page.get_by_test_id("select-all").check()
        page.get_by_test_id("select-all-matching").click()
        bulk(page, "delete")
        expect(preview.get_by_test_id("group-refused")).to_contain_text("only one that has ended")
        expect(preview.get_by_test_id("freed")).to_contain_text("0 checkpoints")
        expect(page.get_by_test_id("confirm")).to_be_disabled()
        page.get_by_test_id("typed").fill("52")
        page.get_by_test_id("confirm").click()
        result = page.get_by_test_id("bulk-result")
        expect(result).to_contain_text("52 done, 0 unchanged, 1 refused.", timeout=SLOW_MS)
        expect(result).to_contain_text("experiments.not_ended")
        page.get_by_test_id("bulk-close").click()
        rows = page.get_by_test_id("experiments").locator("tbody tr")
        expect(rows).to_have_count(1)
        assert [e["id"] for e in client.pages("/experiments", q="many-")] == [last]
        client.stop(last)


def bulk(page: Page, action: str) -> None:
    page.get_by_test_id("bulk-actions").click()
    page.get_by_test_id(f"bulk-{action}").click()
