"""The queue page: order and priority changed with the keyboard alone, one project at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


@pytest.fixture
def waiting(stack: Stack) -> Iterator[list[int]]:
    """Three of one project and one of another, all larger than the cluster."""
    with stack.client() as client:
        ids = []
        for name, project in (("first", "a"), ("second", "a"), ("third", "a"), ("other", "b")):
            document = scripted(name, [{"sleep": 1}], slots=64, project=project)
            ids.append(client.post("/experiments", {"document": document})["id"])
        yield ids
        for experiment_id in ids:
            client.stop(experiment_id)
            client.wait(experiment_id, timeout_s=60)


def row(page: Page, name: str) -> Locator:
    return page.get_by_test_id("queue").locator("tbody tr").filter(has_text=name)


def names(page: Page) -> Locator:
    return page.get_by_test_id("queue").locator("tbody td[data-lead]")


def test_the_order_is_changed_with_the_keyboard_and_the_focus_goes_along(
    signed_in: BrowserContext, stack: Stack, page: Page, waiting: list[int]
) -> None:
    page.goto(f"{stack.url}/queue?project=a")
    expect(names(page)).to_have_text([re.compile(n) for n in ("first", "second", "third")])
    up = row(page, "third").get_by_test_id("move-up")
    up.focus()
    page.keyboard.press("Enter")
    expect(names(page)).to_have_text([re.compile(n) for n in ("first", "third", "second")])
    expect(page.get_by_test_id("moved")).to_contain_text("third, trial 1, is now at position")
    expect(row(page, "third").get_by_test_id("move-up")).to_be_focused()
    page.keyboard.press("Enter")
    expect(names(page)).to_have_text([re.compile(n) for n in ("third", "first", "second")])
    # At the front there is nowhere to go: the button says so, and keeps the focus.
    expect(row(page, "third").get_by_test_id("move-up")).to_have_attribute("aria-disabled", "true")
    expect(row(page, "third").get_by_test_id("move-up")).to_be_focused()
    # A move made while another is under way waits for its turn; none is lost.
    row(page, "second").get_by_test_id("move-front").press("Enter")
    row(page, "second").get_by_test_id("move-down").press("Enter")
    expect(names(page)).to_have_text([re.compile(n) for n in ("third", "second", "first")])
    expect(page.get_by_test_id("moved")).to_contain_text("second, trial 1, is now at position")
    page.reload()
    expect(names(page)).to_have_text([re.compile(n) for n in ("third", "second", "first")])


def test_priority_is_changed_from_the_queue_and_says_what_it_touches(
    signed_in: BrowserContext, stack: Stack, page: Page, waiting: list[int]
) -> None:
    page.goto(f"{stack.url}/queue?project=a")
    row(page, "third").get_by_test_id("priority").press("Enter")
    form = page.get_by_test_id("priority-form")
    expect(form).to_contain_text(f"trial of experiment #{waiting[2]}")
    field = form.get_by_label("Priority")
    expect(field).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("80")
    page.keyboard.press("Enter")
    expect(form).to_have_count(0)
    expect(names(page)).to_have_text([re.compile(n) for n in ("third", "first", "second")])
    expect(row(page, "third").get_by_test_id("priority")).to_have_text("80")
    # It has no equals any more.
    expect(row(page, "third").get_by_test_id("move-down")).to_have_attribute(
        "aria-disabled", "true"
    )


def test_one_project_alone_and_everyone_with_reason_and_estimate(
    signed_in: BrowserContext, stack: Stack, page: Page, waiting: list[int]
) -> None:
    page.goto(f"{stack.url}/queue")
    expect(names(page)).to_have_count(4)
    other = row(page, "other")
    expect(other.get_by_test_id("pending-reason")).to_contain_text("Needs 64 cpu slots")
    expect(other).to_contain_text("no estimate")
    other.get_by_test_id("project").click()
    expect(page).to_have_url(re.compile(r"project=b"))
    expect(names(page)).to_have_count(1)
    page.get_by_test_id("project-filter").click()
    expect(names(page)).to_have_count(4)
