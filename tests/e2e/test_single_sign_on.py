"""Signing in at a certified OpenID provider, in a browser: who is there, what changes there, and out again."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.ports import free_ports
from support.stack import Stack, wait_for

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/support/accounts/certified_provider.mjs"


@dataclass
class Lab:
    stack: Stack
    url: str
    accounts: Path

    def say(self, **accounts: dict[str, object]) -> None:
        """What the provider says of people from now on."""
        self.accounts.write_text(json.dumps(accounts))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A Muster whose people sign in at the provider."""
    with tempfile.TemporaryDirectory(prefix="muster-sso-", ignore_cleanup_errors=True) as folder:
        port = free_ports(2)
        url, accounts = f"http://localhost:{port}", Path(folder) / "accounts.json"
        accounts.write_text("{}")
        command = [
            Path(sys.executable).with_name("node"),
            SCRIPT,
            ROOT / "frontend",
            str(port + 1),
            url,
            accounts,
        ]
        server = {
            "MUSTER_PUBLIC_URL": url,
            "MUSTER_OIDC_ISSUER": f"http://localhost:{port + 1}",
            "MUSTER_OIDC_CLIENT_ID": "muster",
            "MUSTER_OIDC_CLIENT_SECRET": "s3cret",
            "MUSTER_OIDC_NAME": "Lab account",
            "MUSTER_OIDC_ADMIN_GROUPS": '["chiefs"]',
        }
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as provider:
            assert provider.stdout is not None
            stack = Stack(
                Path(folder) / "home", agents=0, port=port, environment={"server": server}
            )
            try:
                assert "ready" in iter(provider.stdout.readline, "").__next__()
                stack.start()
                with stack.client() as client:  # set up, as a lab is
                    chief = {"username": "chief", "password": "a tolerable passphrase"}
                    client.post("/users", {**chief, "role": "admin"})
                yield Lab(stack, url, accounts)
            finally:
                stack.close()
                provider.terminate()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    yield context.new_page()
    context.close()


def sign_in(page: Page, lab: Lab, subject: str, path: str = "/") -> None:
    """Go to a page, and sign in at the provider on the way."""
    page.goto(lab.url + path)
    page.get_by_test_id("provider").click()
    page.locator("input[name=login]").fill(subject)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{lab.url}{path}")


def test_people_come_in_follow_their_groups_and_leave(lab: Lab, page: Page) -> None:
    with lab.stack.client() as client:
        client.call("PUT", "/groups/vision", body={"provider_group": "lab-vision"})

        def members() -> list[str]:
            return [row["username"] for row in client.pages("/groups/vision/members")]

        lab.say(
            ada={"preferred_username": "ada", "email": "ada@lab.example", "groups": ["lab-vision"]}
        )
        sign_in(page, lab, "ada", "/experiments")
        assert members() == ["ada"]
        page.goto(f"{lab.url}/settings")
        expect(page.get_by_text("ada@lab.example (Lab account)")).to_be_visible()

        # Groups change while the page is open.
        lab.say(ada={"preferred_username": "ada", "groups": []})
        wait_for("the group has lost her", lambda: members() == [], 75)

        page.get_by_role("button", name="ada").click()
        page.get_by_role("menuitem", name="Sign out").click()
        page.get_by_role("button", name="Yes, sign me out").click()
        page.wait_for_url(f"{lab.url}/sign-in")
        # The provider has forgotten her, too: it asks who she is.
        page.get_by_test_id("provider").click()
        expect(page.locator("input[name=login]")).to_be_visible()


def test_who_says_no_at_the_provider_is_told_that_they_are_not_signed_in(
    lab: Lab, page: Page
) -> None:
    page.goto(lab.url)
    page.get_by_test_id("provider").click()
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url("**/sign-in?problem=canceled*")
    expect(page.get_by_text("You canceled the sign-in.")).to_be_visible()
    # A password works on beside it.
    expect(page.get_by_role("button", name="Sign in with a password")).to_be_visible()
