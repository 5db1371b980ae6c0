"""Sessions that are started, watched and opened from a run on the dashboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.pages import violations
from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


def started(page: Page) -> int:
    """Submit the dialog; return the number of the session once it runs and the page says how to enter it."""
    form = page.get_by_test_id("session-form")
    form.get_by_role("button", name="Start").click()
    expect(form).to_have_count(0)
    result = page.get_by_test_id("session-started")
    expect(result).to_have_attribute("data-state", "RUNNING")
    command = result.locator("pre").first
    expect(command).to_have_text(re.compile(r"^muster session open \d+$"))
    return int(command.inner_text().rpartition(" ")[2])


@pytest.mark.refused(422)
def test_a_session_is_started_and_the_page_says_how_to_enter_it(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/sessions")
    page.get_by_test_id("start-session").click()
    form = page.get_by_test_id("session-form")
    assert violations(page) == []
    form.get_by_label("End when idle for").fill("soon")
    form.get_by_role("combobox", name="Kind").click()
    page.get_by_role("option", name="SSH").click()
    expect(form).to_contain_text("needs asyncssh")
    with page.expect_response(lambda response: response.status == 422):
        form.get_by_role("button", name="Start").click()
    expect(form.get_by_role("alert")).to_contain_text("session.idle")
    form.get_by_label("End when idle for").fill("10m")
    number = started(page)
    result = page.get_by_test_id("session-started")
    expect(result).to_contain_text(f"muster ssh-config && ssh muster-{number}")
    assert violations(page) == []
    row = page.get_by_test_id("sessions").get_by_role("row").nth(1)
    expect(row).to_contain_text("session-ssh")
    with stack.client() as client:
        made = client.get(f"/experiments/{number}")
        assert made["config"]["session"] == {"kind": "ssh", "idle": "10m"}
        assert made["config"]["resources"]["preemptible"] is False
    row.get_by_role("button", name="Stop").click()
    page.get_by_test_id("confirm").click()
    expect(result).to_contain_text("It has ended")


def test_a_session_is_opened_from_a_run_with_its_newest_checkpoint(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        run = client.post("/experiments", {"document": scripted("to-look-into", [{"train": {}}])})
        client.wait(run["id"], timeout_s=100)
        page.goto(f"{stack.url}/trials/{run['only_trial_id']}")
        page.get_by_test_id("more-actions").click()
        page.get_by_test_id("session").click()
        expect(page).to_have_url(re.compile(rf"/sessions\?from={run['id']}$"))
        form = page.get_by_test_id("session-form")
        expect(page.get_by_role("dialog")).to_contain_text("to-look-into")
        form.get_by_role("combobox", name="Kind").click()
        page.get_by_role("option", name="Shell").click()
        number = started(page)
        expect(page).to_have_url(re.compile("/sessions$"))
        made = client.get(f"/experiments/{number}")
        assert made["parent"]["experiment_id"] == run["id"]
        assert made["config"]["from"]["experiment"] == run["id"]
        client.stop(number)
        client.wait(number, timeout_s=60)
