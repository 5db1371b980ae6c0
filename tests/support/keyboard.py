"""A visit to the dashboard with keys alone: after each key a person must see where the focus is."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from support.stack import wait_for

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
