"""The experiments table: columns, order, the panel beside it, and views, on a real stack."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


def test_columns_order_panel_and_views_work_by_keyboard(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        ids = [
            client.post(
                "/experiments",
                {"document": scripted(f"columns-{slots}", [{"sleep": 1}], slots=slots)},
            )["id"]
            for slots in (65, 66)
        ]
        page.goto(f"{stack.url}/experiments?q=columns-")
        table = page.get_by_test_id("experiments")
        expect(table).to_have_attribute("data-rows", "2")
        page.get_by_test_id("columns").click()
        page.keyboard.type("resources.slots")
        page.get_by_test_id("columns-offered").get_by_text("resources.slots ·").click()
        page.keyboard.press("Escape")
        head = page.get_by_test_id("head-config.resources.slots")
        # Numbers begin with the greatest, also when the click was before the column's values were there.
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "descending")
        expect(head).to_have_class(re.compile("right"))
        rows = table.locator("tbody tr")
        expect(rows.first).to_contain_text("columns-66")
        head.get_by_role("button").click()
        expect(rows.first).to_contain_text("columns-65")

        rows.first.focus()
        page.keyboard.press("ArrowDown")
        expect(rows.nth(1)).to_be_focused()
        page.keyboard.press("Space")
        beside = page.get_by_test_id("peek")
        expect(beside).to_contain_text("columns-66")
        beside.get_by_test_id("peek-edit").click()
        beside.get_by_label("Notes").fill("widest")
        beside.get_by_role("button", name="Save").click()
        expect(beside).to_contain_text("widest")

        page.get_by_test_id("views").click()
        page.get_by_test_id("save-view").click()
        page.get_by_test_id("view-form").get_by_label("Name").fill("By slots")
        page.get_by_test_id("view-form").get_by_role("button", name="Save").click()
        expect(page.get_by_test_id("views")).to_contain_text("By slots")
        page.goto(f"{stack.url}/nodes")
        expect(page.locator("main h1")).to_be_visible()
        page.get_by_role("button", name="Search (Ctrl K)").click()
        search = page.get_by_role("dialog").get_by_role("textbox")
        expect(search).to_be_focused()
        search.fill("By slots")
        expect(page.get_by_role("dialog").get_by_text("By slots")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"sort=config\.resources\.slots"))
        expect(rows.first).to_contain_text("columns-65")

        # Groups of any key, and from a group to its experiments.
        page.goto(f"{stack.url}/experiments?q=columns-")
        page.get_by_test_id("group-by").click()
        page.keyboard.type("resources.slots")
        page.get_by_test_id("group-picker").get_by_text("resources.slots ·").click()
        groups = page.get_by_test_id("groups")
        expect(groups.locator("tbody tr")).to_have_count(2)
        expect(groups).to_contain_text("1 Queued")
        groups.get_by_role("button", name="66").click()
        expect(page.get_by_test_id("condition")).to_contain_text("config.resources.slots = 66")
        expect(table).to_have_attribute("data-rows", "1")
        expect(rows.first).to_contain_text("columns-66")
        page.go_back()
        expect(groups.locator("tbody tr")).to_have_count(2)
        for id_ in ids:
            client.stop(id_)
