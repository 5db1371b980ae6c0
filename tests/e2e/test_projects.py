"""Projects and pools in the settings: shares, quotas, budgets and prices."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


def test_a_project_is_made_and_its_quota_keeps_a_trial_waiting(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/settings?tab=projects")
    form = page.get_by_test_id("project-form")
    form.get_by_label("Name").fill("speech")
    form.get_by_role("button", name="Create project").click()
    page.get_by_test_id("projects").get_by_role("link", name="speech").click()
    expect(page).to_have_url(re.compile(r"project=speech"))

    page.get_by_test_id("project-share").click()
    share = page.get_by_test_id("share-form")
    share.get_by_label("Weight").fill("2.5")
    page.get_by_test_id("add-quota").click()
    share.get_by_label("Max slots").fill("0")
    share.get_by_role("button", name="Save").click()
    panel = page.get_by_test_id("project")
    expect(panel).to_contain_text("2.5")
    expect(panel).to_contain_text("0 of 0")

    page.get_by_test_id("project-retention").click()
    retention = page.get_by_test_id("project-retention-form")
    retention.get_by_label("Keep logs for (days)").fill("30")
    retention.get_by_role("button", name="Save").click()
    expect(panel).to_contain_text("30 days")
    page.get_by_test_id("project-retention").click()
    retention.get_by_label("Keep logs for (days)").fill("")
    retention.get_by_role("button", name="Save").click()
    expect(panel).not_to_contain_text("30 days")

    page.get_by_test_id("project-budget").click()
    budget = page.get_by_test_id("budget-form")
    expect(budget).to_contain_text("Waiting ones stay queued")
    budget.get_by_label("Slot-hours").fill("12.5")
    budget.get_by_label("Alert at (%)").fill("50, 120")
    expect(budget).to_contain_text("120 is not a percentage")
    budget.get_by_label("Alert at (%)").fill("80")
    budget.get_by_role("button", name="Save").click()
    expect(panel.get_by_test_id("limit-slot_hours")).to_contain_text("0 of 12.5 slot-hours (0%)")

    with stack.client() as client:
        document = scripted("held-back", [{"sleep": 1}], project="speech")
        experiment = client.post("/experiments", {"document": document})
        page.goto(f"{stack.url}/queue?project=speech")
        expect(page.get_by_test_id("pending-reason")).to_contain_text("quota", timeout=60_000)
        page.goto(f"{stack.url}/settings?tab=projects&project=speech")
        expect(page.get_by_test_id("projects")).to_contain_text("1 active of 1")
        client.stop(experiment["id"])
        client.wait(experiment["id"], timeout_s=60)


OPEN = {"min_isolation": "none", "requires_containers": False, "allowed_images": [], "spares": 0}


def test_the_price_of_a_pool_says_for_what_it_holds(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/settings?tab=pools")
    page.get_by_test_id("edit-pool").first.click()
    form = page.get_by_test_id("pool-form")
    expect(form).to_contain_text("reserved from now on")
    form.get_by_label("USD per slot-hour").fill("1.75")
    form.get_by_label("Minimum isolation").click()
    page.get_by_role("option", name="Sandbox").click()
    form.get_by_label("Require containers").check()
    form.get_by_label("Allowed images").fill("ghcr.io/acme\ndocker.io/library")
    form.get_by_label("Spare nodes").fill("1")
    with stack.client() as client:
        try:
            form.get_by_role("button", name="Save").click()
            expect(page.get_by_test_id("pools")).to_contain_text("1.75 USD/h")
            expect(page.get_by_test_id("pools")).to_contain_text("2 nodes are weaker")
            (pool,) = [p for p in client.get("/pools")["items"] if p["name"] == "default"]
            assert (pool["price_per_slot_hour"], pool["min_isolation"]) == (1.75, "sandbox")
            assert (pool["requires_containers"], pool["spares"]) == (True, 1)
            assert pool["allowed_images"] == ["ghcr.io/acme", "docker.io/library"]
            expect(page.get_by_test_id("pools")).to_contain_text("images from 2 sources")
        finally:
            # The other tests of this stack start trials on its nodes.
            client.call("PUT", "/pools/default", body=OPEN)


@pytest.mark.refused(404, 422)
def test_a_provider_is_given_to_a_pool_changed_and_removed(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/settings?tab=pools")
    page.get_by_test_id("add-provider").click()
    form = page.get_by_test_id("provider-form")
    save = form.get_by_role("button", name="Save")
    form.get_by_label("Pool").fill("a100")
    for option, value in (
        ("server_url", stack.url),
        ("folder", "/shared/muster"),
        ("partition", "gpu"),
    ):
        form.get_by_label(option).fill(value)
    expect(save).to_be_disabled()
    form.get_by_label("agent").fill("relative/muster-agent")
    form.get_by_label("Max slot-hours").fill("100")
    save.click()
    expect(form).to_contain_text("the absolute path of muster-agent on the compute nodes")
    form.get_by_label("agent").fill("/opt/muster-agent")
    save.click()
    page.get_by_test_id("pools").get_by_role("link", name="Slurm").click()
    panel = page.get_by_test_id("pool-provider")
    expect(panel).to_contain_text("Pool a100: Slurm partition gpu")
    expect(panel).to_contain_text("0 slot-hours of 100")
    page.get_by_test_id("change-provider").click()
    form.get_by_label("Exclusive").check()
    save.click()
    expect(panel).to_contain_text("one gang per attempt")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    panel.get_by_role("button", name="Remove provider").click()
    page.get_by_test_id("confirm").click()
    expect(page.get_by_test_id("pools")).not_to_contain_text("a100")
