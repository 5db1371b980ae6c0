"""Keys that work anywhere, and a list that is narrowed by label."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from muster.testing.stack import Stack, scripted

pytestmark = pytest.mark.browser


def test_keys_go_to_pages_and_labels_narrow_the_list(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        for name, team in (("labelled", "sight"), ("otherwise", "hearing")):
            document = scripted(f"{name}-by-keys", [{"sleep": 0.1}], labels={"team": team})
            client.post("/experiments", {"document": document})
    page.goto(stack.url)
    command = page.get_by_role("button", name="Search (Ctrl K)")
    expect(command).to_be_visible()
    command.focus()
    # Its code comes after the page's; until then nobody listens.
    shown = page.get_by_test_id("keyboard-map")
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)
    page.keyboard.press("?")
    expect(shown).to_contain_text("Go to Experiments")
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/experiments$"))
    field = page.get_by_test_id("experiment-filter")
    expect(field).to_be_visible()
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.keyboard.type("by-keys")

    table = page.get_by_test_id("experiments")
    expect(table.get_by_role("row")).to_have_count(3)
    table.get_by_role("button", name="team=sight").click()
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("label="))
    page.get_by_test_id("columns").click()
    page.get_by_role("button", name="Leave out Owner").click()
    expect(table.get_by_role("columnheader", name="Owner")).to_have_count(0)
    page.reload()
    expect(table.get_by_role("row")).to_have_count(2)
    expect(table.get_by_role("columnheader", name="Owner")).to_have_count(0)
