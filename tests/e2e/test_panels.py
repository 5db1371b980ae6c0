"""Charts of one's own: hidden lines, pins, panels with expressions, and the page as a file."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def trial(stack: Stack, signed_in: BrowserContext) -> int:
    with stack.client() as client:
        document = scripted("panels", [{"train": {"step_s": 0.01}}])
        made = client.post("/experiments", {"document": document})
        client.wait(made["id"], timeout_s=100)
        return int(made["only_trial_id"])


def test_a_chart_is_pinned_and_its_axis_set(page: Page, stack: Stack, trial: int) -> None:
    page.goto(f"{stack.url}/trials/{trial}?tab=metrics")
    chart = page.get_by_test_id("chart-train/loss")
    expect(page.get_by_role("radio", name="0.9", exact=True)).to_be_checked()
    page.get_by_text("Raw", exact=True).click()
    chart.get_by_role("button", name="Options and export").click()
    page.get_by_role("menuitem", name="Set y axis range").click()
    page.get_by_label("Max", exact=True).fill("0.5")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("yr=train"))
    expect(chart).to_contain_text("outside the axis")
    chart.get_by_role("button", name="Options and export").click()
    page.get_by_role("menuitem", name="Pin to top").click()
    expect(page.get_by_role("button", name=re.compile("Pinned"))).to_be_visible()
    page.goto(f"{stack.url}/trials/{trial}?tab=metrics")
    expect(page.get_by_role("button", name=re.compile("Pinned"))).to_be_visible()
    expect(page.get_by_role("radio", name="Raw", exact=True)).to_be_checked()


def test_a_mark_stands_at_its_step_in_every_chart(page: Page, stack: Stack, trial: int) -> None:
    page.goto(f"{stack.url}/trials/{trial}?tab=metrics")
    chart = page.get_by_test_id("chart-train/loss")
    expect(chart).to_have_attribute("data-notes", "")
    page.get_by_test_id("add-panel").click()
    form = page.get_by_test_id("panel-form")
    form.get_by_role("combobox", name="Kind").click()
    page.get_by_role("option", name="Mark at a step").click()
    form.get_by_label("Step").fill("soon")
    form.get_by_label("Title").fill("New data")
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    form.get_by_label("Step").fill("4")
    form.get_by_role("button", name="Save").click()
    marks = page.get_by_test_id("marks")
    expect(marks).to_contain_text("New data")
    expect(chart).to_have_attribute("data-notes", "4")
    marks.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(marks).to_have_count(0)
    expect(chart).to_have_attribute("data-notes", "")


def test_a_panel_of_an_expression_is_shared_by_its_link(
    page: Page, stack: Stack, trial: int
) -> None:
    page.goto(f"{stack.url}/trials/{trial}?tab=metrics")
    page.get_by_test_id("add-panel").click()
    form = page.get_by_test_id("panel-form")
    lines = form.get_by_label("Metrics and expressions")
    lines.fill("train/loss +")
    expect(form).to_contain_text("incomplete")
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    lines.fill("train/loss\ntrain/loss * 2")
    form.get_by_label("Title").fill("Twice")
    form.get_by_role("button", name="Save").click()
    panel = page.get_by_test_id("panels").get_by_role("figure").first
    expect(panel).to_have_attribute("data-num-series", "2")
    # A line is hidden by a press on its key, and comes back by another one.
    key = panel.get_by_role("button", name="train/loss * 2", pressed=True)
    key.click()
    expect(panel).to_have_attribute("data-num-series", "1")
    panel.get_by_role("button", name="train/loss * 2", pressed=False).click()
    expect(panel).to_have_attribute("data-num-series", "2")

    panel.get_by_role("button", name="Options and export").click()
    page.get_by_role("menuitem", name="Full screen").click()
    expect(page).to_have_url(re.compile("full=panel"))
    page.reload()
    full = page.get_by_role("dialog").get_by_role("figure")
    expect(full).to_have_attribute("data-num-series", "2")
    page.keyboard.press("Escape")
    expect(full).to_have_count(0)

    with page.expect_download() as download:
        page.get_by_test_id("export-page").click()
    text = download.value.path().read_text(encoding="utf-8")
    assert download.value.suggested_filename == "panels.html"
    assert text.count("<svg") >= 2
    assert "train/loss * 2" in text
    assert "<script" not in text

    panel.get_by_role("button", name="Options and export").click()
    page.get_by_test_id("delete-panel").click()
    page.get_by_test_id("confirm").click()
    expect(page.get_by_test_id("panels").get_by_role("figure")).to_have_count(0)
