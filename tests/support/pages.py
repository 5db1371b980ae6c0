"""Going from page to page of the dashboard, by keys as well, and what axe-core holds against a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from support.stack import wait_for

AXE = Path(__file__).resolve().parents[2] / "frontend/node_modules/axe-core/axe.min.js"
# What axe found in order is neither put together nor sent here, which took a third of its time.
RUN = """async (rules) => {
  const options = { resultTypes: ["violations"], reporter: "no-passes" };
  const { violations } = await axe.run(document, rules ? { ...options, runOnly: rules } : options);
  return violations.map(({ id, impact, help, nodes }) => {
    const where = nodes.slice(0, 3).map((node) => node.html.slice(0, 160));
    return `${id} (${impact}): ${help}: ${JSON.stringify(where)}`;
  });
}"""


def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """What axe holds against the page, WCAG 2.2 A and AA and its best practices; of some rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = page.evaluate(RUN, rules)
    return found


def go(window: Page, url: str, path: str) -> None:
    """Open a page: the first anew, the others as a link does, which costs a third."""
    if not window.url.startswith(url):
        window.goto(url + path)
        return
    window.evaluate("(path) => window.__TSR_ROUTER__.navigate({ href: path })", path)
    window.wait_for_function(
        "() => { const { isLoading, location, resolvedLocation } = window.__TSR_ROUTER__.state;"
        " return !isLoading && location.href === resolvedLocation?.href; }"
    )
    assert window.evaluate("location.pathname") == path.partition("?")[0]


HIDDEN_FOCUS = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || at === document.body) return "nothing has the focus";
  if (at.matches("main, [role=dialog], [role=menu] > [role=presentation]")) return "";
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
