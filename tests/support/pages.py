"""Going from page to page of the dashboard."""

from __future__ import annotations

from playwright.sync_api import Page


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
