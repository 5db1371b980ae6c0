"""The resources of a document beside it, and what a trial has measured beside what was expected."""

from __future__ import annotations

import json
import re

from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, wait_for

WAIT_MS = 90_000
DEMO = {
    "name": "planned",
    "trainer": {
        "model": "cnn",
        "data": "digits",
        "options": {"width": 64, "depth": 3},
        "steps": 30,
    },
    "resources": {"slots": 2},
}
"""The model of examples/digits-ddp, for a few steps."""


def test_a_document_is_planned_with_its_options_and_its_trial_measures_as_much(
    stack: Stack, signed_in: BrowserContext, page: Page
) -> None:
    page.goto(f"{stack.url}/submit")
    editor = page.get_by_test_id("submit-editor")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(json.dumps(DEMO))
    # Polled until the node has listed the layers.
    planner = page.get_by_test_id("planner")
    expect(planner).to_contain_text(re.compile(r"2 slots, 510 ?k parameters"), timeout=WAIT_MS)
    expect(page.get_by_test_id("planner-traffic")).to_contain_text("1.95 MiB")
    with stack.client() as client:
        made = client.submit(json.dumps(DEMO))["id"]
        trial = client.get(f"/experiments/{made}/trials")["items"][0]["id"]
        wait_for(
            "the training",
            lambda: client.get(f"/trials/{trial}")["state"] == "COMPLETED",
            timeout_s=180,
        )
    page.goto(f"{stack.url}/trials/{trial}?tab=performance")
    table = page.get_by_test_id("foreseen")
    expect(table).to_contain_text("1.95 MiB", timeout=WAIT_MS)
    expect(page.get_by_test_id("foreseen-remark-bytes")).to_have_count(0)
