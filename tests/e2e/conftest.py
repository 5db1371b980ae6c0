"""A real browser on a real `muster up`. Every page is watched for errors."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    expect,
    sync_playwright,
)
from xdist.scheduler import LoadFileScheduling, Scheduling

from support.browser import find_browser
from support.console import no_errors
from support.stack import Stack, started

FLAGS = [
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class ByFileAndWindow(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """A file to a worker, but each size of window of its own: the pages of one file in all sizes
    take as long as everything else together."""

    def _split_scope(self, nodeid: str) -> str:
        size = re.search(r"\[(wide|phone)\b", nodeid)
        return nodeid.partition("::")[0] + (size[0] if size else "")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return ByFileAndWindow(config, log)


PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)  # ms; two cores draw a page and train at the same time


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with started(Stack) as stack:
        yield stack


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.fail("the browser tests need Chromium: apt-get install chromium, or set CHROME")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Signed in once it has been to the sign-in link; shared by the tests."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="dark", locale="en-US"
    )
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture(scope="session")
def password() -> str:
    """Of the first administrator."""
    return "correct horse battery staple"


@pytest.fixture(scope="session")
def signed_in(stack: Stack, context: BrowserContext, password: str) -> BrowserContext:
    """Through the set-up link that `muster up` printed, pasted into a tab that asks for a token."""
    page = context.new_page()
    page.goto(stack.url)
    form = page.get_by_test_id("setup-form")
    expect(form.locator("input[name=token]")).to_be_visible()
    command = page.get_by_test_id("setup-command").inner_text()
    shell = {"PATH": os.environ["PATH"]}
    rescue = subprocess.run(
        ["sh", "-c", command], cwd="/", env=shell, capture_output=True, text=True, check=True
    )
    assert rescue.stdout.startswith("mst_once_")
    page.goto(stack.sign_in_url)
    expect(form.locator("input[name=token]")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("mst_once"))  # it does not stay in the address bar
    form.locator("input[name=username]").fill("ada")
    form.locator("input[name=new-password]").fill(password)
    form.locator("input[name=again]").fill(password)
    form.locator("button[type=submit]").click()
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    page.close()
    return context


@pytest.fixture
def page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Fails the test when the page wrote an error to the console or threw one. The browser writes one
    for each answer that refuses a request: `pytest.mark.refused(422)` expects those of a status."""
    page = context.new_page()
    refused = [status for marker in request.node.iter_markers("refused") for status in marker.args]
    with no_errors(page, refused):
        yield page
        page.close()
