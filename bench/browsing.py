"""How benchmarks use the dashboard: Chromium with a profile on disk, signed in as people are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from playwright.sync_api import BrowserContext, sync_playwright

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.security.passwords import hash_password
from muster_server.services.core.accounts import users
from muster_server.services.core.audit import Author

USER, PASSWORD = "grace", "a benchmark is not a secret"


@contextmanager
def chromium(path: str | None = None) -> Iterator[BrowserContext]:
    """A window of a laptop's size, until the end of the block; exits when there is no Chromium."""
    chrome = path or shutil.which("chromium") or shutil.which("google-chrome")
    if not chrome:
        sys.exit("this needs Chromium: apt-get install chromium, or --chrome PATH")
    # A profile on disk, as everybody's: a private window would compile all code anew each time.
    with sync_playwright() as playwright, TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=chrome,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            viewport={"width": 1440, "height": 900},
            bypass_csp=True,
        )
        yield context
        context.close()


def add_user(database: Database) -> None:
    """An administrator with PASSWORD, where there is only a database to write to."""
    with database.transaction() as session:
        users.create_user(
            session, username=USER, password_hash=hash_password(PASSWORD), role="admin",
            by=Author("bench", clock.now()),
        )  # fmt: skip


def sign_in(context: BrowserContext, url: str) -> None:
    """With name and password, so that the session is a cookie's: a page that is let in by a header
    has no live channel, because browsers send no headers with a WebSocket."""
    reply = context.request.post(
        f"{url}/api/v1/auth/login",
        data={"username": USER, "password": PASSWORD},
        headers={"Origin": url},
    )
    if not reply.ok:
        raise SystemExit(f"signing in failed: {reply.status} {reply.text()[:300]}")


def set_up(context: BrowserContext, link: str) -> None:
    """Make the first administrator through the link that `muster up` prints."""
    page = context.new_page()
    page.goto(link)
    form = page.get_by_test_id("setup-form")
    form.locator("input[name=username]").fill(USER)
    form.locator("input[name=new-password]").fill(PASSWORD)
    form.locator("input[name=again]").fill(PASSWORD)
    form.locator("button[type=submit]").click()
    page.get_by_test_id("user-menu").first.wait_for()
    page.close()
