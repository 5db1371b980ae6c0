"""Going from page to page of the dashboard, and what axe-core holds against a page."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

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
