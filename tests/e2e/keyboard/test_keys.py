"""Keys that work anywhere, a list that is narrowed by label, and a document that is typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.stack import Stack, scripted

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
    page.goto(f"{stack.url}/experiments?q=by-keys&cols=name,labels")
    table.get_by_role("button", name="team=sight").click()
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("label="))
    page.get_by_test_id("columns").click()
    page.get_by_role("button", name="Remove Labels").click()
    expect(table.get_by_role("columnheader", name="Labels")).to_have_count(0)
    page.reload()
    expect(table.get_by_role("row")).to_have_count(2)
    expect(table.get_by_role("columnheader", name="Labels")).to_have_count(0)


TYPED = """\
# Do images of a single stage log enough? See the logs: #why?
name: typed-by-hand
labels: {stage: logs, image: single}
entrypoint: [-m, support.nodes.scripted, '[{"sleep": 0.1}]']
launcher: direct
hyperparameters:
  lr: {log: [0.001, 0.1]}
search:
  method: random
  metric: val/loss
  goal: min
  trials: 1
resources:
  slots: 1
"""


def test_a_search_is_typed_key_by_key_and_submitted(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/submit")
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)

    def text() -> str:
        # Lines that a person sees; the editor marks an empty one with a break.
        return "\n".join(page.locator(".cm-content .cm-line").all_inner_texts())

    page.get_by_test_id("submit-editor").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    lines = TYPED.splitlines()
    page.keyboard.type(lines[0])
    for _, line in pairwise(lines):
        page.keyboard.press("Enter")
        indent = len(text().rpartition("\n")[2])  # what the editor has put there
        wanted = len(line) - len(line.lstrip())
        for _ in range((indent - wanted) // 2):
            page.keyboard.press("Backspace")
        page.keyboard.type(line[min(indent, wanted) :])
    assert text() == TYPED.rstrip("\n")
    expect(page).to_have_url(re.compile("/submit$"))
    expect(page.get_by_test_id("keyboard-map")).to_have_count(0)
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile(r"/trials/\d+$"))
    with stack.client() as client:
        trial = client.get(f"/trials/{page.url.rpartition('/')[2]}")
        sent = client.get(f"/experiments/{trial['experiment_id']}")["document"]
    assert sent == TYPED.rstrip("\n")


def test_a_sign_in_link_pasted_into_an_open_tab_is_followed(
    signed_in: BrowserContext, browser: Browser, stack: Stack
) -> None:
    database = f"sqlite:///{stack.home / 'muster.db'}"
    token = subprocess.run(
        [sys.executable, "-m", "muster_server.cli", "sign-in-token", "--quiet"],
        env={**os.environ, "MUSTER_DATABASE_URL": database},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{stack.url}/sign-in")
    expect(page.get_by_test_id("sign-in-form")).to_be_visible()
    page.goto(f"{stack.url}/sign-in#once={token}")
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    context.close()
