"""Keys that work anywhere, a list that is narrowed by label, and a whole visit without a mouse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from support.stack import Stack, scripted, wait_for

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


HIDDEN_FOCUS = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || at === document.body) return "nothing has the focus";
  if (at.matches("main, [role=dialog]")) return "";
  const what = `${at.tagName} ${at.getAttribute("aria-label") ?? at.textContent.trim().slice(0, 40)}`;
  const { top, bottom, left, right } = at.getBoundingClientRect();
  if (bottom < 0 || top > innerHeight || right < 0 || left > innerWidth) return `out of sight: ${what}`;
  // A field shows the place of its cursor; a segment is drawn by the label after its input.
  if (at.matches("input:not([type=checkbox], [type=radio]), textarea, [contenteditable=true]")) return "";
  const isRinged = [at, at.nextElementSibling].some((one) => {
    const { outlineStyle, outlineWidth, boxShadow } = one ? getComputedStyle(one) : {};
    return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || (boxShadow ?? "none") !== "none";
  });
  return isRinged ? "" : `no ring around: ${what}`;
}"""
"""What is wrong with where the keyboard is; empty if somebody sees it."""
MAX_TABS = 80


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other. After each, a person sees where the focus is."""
    for key in keys:
        page.keyboard.press(key)
        # A page that is left hands the focus on when the code of the next one has come, and a dialog
        # that closes after a moment.
        wait_for("the focus is to be seen", lambda: page.evaluate(HIDDEN_FOCUS) == "", 20)


def walk_to(page: Page, target: Locator, key: str = "Tab") -> None:
    """Press Tab until the target has the focus; every stop on the way must be visible, too."""
    expect(target).to_be_visible()
    for _ in range(MAX_TABS):
        press(page, key)
        if target.evaluate("(element) => element === element.getRootNode().activeElement"):
            return
    pytest.fail(f"not within {MAX_TABS} presses of {key}: {target}")


def open_by_palette(page: Page, name: str) -> None:
    page.keyboard.press("Control+K")
    # Before the field has the focus, keys go nowhere, and the newest experiments are listed anyway.
    search = page.get_by_role("dialog").get_by_role("textbox")
    expect(search).to_be_focused()
    page.keyboard.type(name)
    expect(search).to_have_value(name)
    expect(page.get_by_role("dialog").get_by_text(name).first).to_be_visible()
    page.keyboard.press("Enter")


def test_sign_in_submit_find_compare_and_stop_without_a_mouse(
    signed_in: BrowserContext, browser: Browser, stack: Stack, password: str
) -> None:
    with stack.client() as client:
        for kind in ("first", "second"):
            document = scripted(f"walked-{kind}", [{"train": {"step_s": 0.01}}])
            client.wait(client.post("/experiments", {"document": document})["id"], timeout_s=100)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.goto(f"{stack.url}/sign-in")
    expect(page.get_by_test_id("sign-in-form").locator("input[name=username]")).to_be_focused()
    page.keyboard.type("ada")
    press(page, "Tab")
    page.keyboard.type(password)
    press(page, "Enter")
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)

    # Submit the example that the page opens with.
    walk_to(page, page.get_by_test_id("nav-submit"))
    press(page, "Enter")
    expect(page).to_have_url(re.compile("/submit"))
    # The planner may be busy with others.
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true", timeout=60_000)
    walk_to(page, page.get_by_test_id("submit"))
    press(page, "Enter")
    expect(page).to_have_url(re.compile(r"/trials/\d+"))
    submitted = page.url

    # Compare two runs: tick their rows, and look at the values of a chart.
    page.keyboard.press("g")  # the second key counts for little more than a second
    press(page, "e")
    expect(page).to_have_url(re.compile("/experiments"))
    # Its code comes after the address; until then there is nothing to go to.
    field = page.get_by_test_id("experiment-filter")
    expect(field).to_be_visible()
    press(page, "/")
    expect(field).to_be_focused()
    page.keyboard.type("walked-")
    table = page.get_by_test_id("experiments")
    expect(table).to_have_attribute("data-rows", "2")
    walk_to(page, table.locator("tr[data-index='0']"))
    first, second = (table.locator(f"tr[data-index='{index}']") for index in range(2))
    press(page, "x")
    expect(first).to_have_attribute("data-selected", "true")
    press(page, "j", "x")  # the second is for the next row, though the focus is on its way
    expect(second).to_have_attribute("data-selected", "true")
    walk_to(page, page.get_by_test_id("bulk-bar").get_by_test_id("compare"), "Shift+Tab")
    press(page, "Enter")
    expect(page).to_have_url(re.compile("/compare"))
    chart = page.get_by_test_id("chart-train/loss")
    expect(chart).to_have_attribute("data-num-series", "2")
    expect(chart).to_have_accessible_name(
        re.compile(r"train/loss: \d+ points, from .+ at step \d+")
    )
    walk_to(page, chart)
    press(page, "ArrowLeft", "ArrowLeft", "d")
    values = chart.get_by_role("table")
    expect(values.get_by_role("caption")).to_contain_text("walked-first")
    expect(values.get_by_role("columnheader", name="walked-second")).to_be_visible()

    # Find the run again, and stop it.
    open_by_palette(page, "digits-ddp")
    expect(page).to_have_url(submitted)
    stop = page.get_by_test_id("stop")
    expect(stop).to_be_enabled()
    walk_to(page, stop)
    press(page, "Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    press(page, "Tab")
    press(page, "Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("Canceled").first).to_be_visible(timeout=60_000)
    context.close()
