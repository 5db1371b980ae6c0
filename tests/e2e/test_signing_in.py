"""Signing in with a browser: at a certified OpenID provider, and for `muster login` in a terminal."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.pages import violations
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
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as provider:
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
                os.killpg(provider.pid, signal.SIGTERM)  # the command starts Node as its child


@pytest.fixture
def window(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    yield context.new_page()
    context.close()


def sign_in(window: Page, lab: Lab, subject: str, path: str = "/") -> None:
    """Go to a page, and sign in at the provider on the way."""
    window.goto(lab.url + path)
    window.get_by_test_id("provider").click()
    window.locator("input[name=login]").fill(subject)
    window.locator("input[name=password]").fill("any")
    window.get_by_role("button", name="Sign-in").click()
    window.get_by_role("button", name="Continue").click()
    window.wait_for_url(f"{lab.url}{path}")


def test_people_come_in_follow_their_groups_and_leave(lab: Lab, window: Page) -> None:
    with lab.stack.client() as client:
        client.call("PUT", "/groups/vision", body={"provider_group": "lab-vision"})

        def members() -> list[str]:
            return [row["username"] for row in client.pages("/groups/vision/members")]

        lab.say(
            ada={"preferred_username": "ada", "email": "ada@lab.example", "groups": ["lab-vision"]}
        )
        sign_in(window, lab, "ada", "/experiments")
        assert members() == ["ada"]
        window.goto(f"{lab.url}/settings")
        expect(window.get_by_text("ada@lab.example (Lab account)")).to_be_visible()
        window.goto(f"{lab.url}/settings?tab=groups")
        window.get_by_test_id("groups").get_by_role("link", name="vision").click()
        group = window.get_by_test_id("group")
        expect(group).to_contain_text("Its members are those of lab-vision at the OpenID provider")
        expect(group.get_by_test_id("group-members")).to_contain_text("ada")
        expect(group.get_by_role("button")).to_have_count(0)

        # Groups change while the page is open.
        lab.say(ada={"preferred_username": "ada", "groups": []})
        wait_for("the group has lost her", lambda: members() == [], 75)

        window.get_by_role("button", name="ada").click()
        window.get_by_role("menuitem", name="Sign out").click()
        window.get_by_role("button", name="Yes, sign me out").click()
        window.wait_for_url(f"{lab.url}/sign-in")
        # The provider has forgotten her, too: it asks who she is.
        window.get_by_test_id("provider").click()
        expect(window.locator("input[name=login]")).to_be_visible()


def test_who_says_no_at_the_provider_is_told_that_they_are_not_signed_in(
    lab: Lab, window: Page
) -> None:
    window.goto(lab.url)
    window.get_by_test_id("provider").click()
    window.get_by_role("link", name="Cancel").click()
    window.wait_for_url("**/sign-in?problem=canceled*")
    expect(window.get_by_text("You canceled the sign-in.")).to_be_visible()
    # A password works on beside it.
    expect(window.get_by_role("button", name="Sign in with a password")).to_be_visible()


@contextmanager
def login(stack: Stack, home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a terminal, which waits, and the page that it names."""
    fd, theirs = pty.openpty()
    command = [sys.executable, "-m", "muster.cli", "login", stack.client().target.url]
    process = subprocess.Popen(
        command,
        env={**Stack.environment(home), "DISPLAY": ""},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    assert process.stderr is not None
    line = process.stderr.readline()
    said = re.search(r"Open (\S+) in .* the code ([A-Z]{4}-[A-Z]{4})", line)
    assert said is not None, line
    assert said[1].endswith(said[2])
    try:
        yield process, said[1]
    finally:
        os.close(fd)


def test_a_command_line_is_signed_in_by_who_confirms_its_code(
    stack: Stack, signed_in: BrowserContext, page: Page, tmp_path: Path
) -> None:
    with login(stack, tmp_path) as (process, url):
        page.goto(url)
        expect(page.get_by_text(re.compile("^muster on "))).to_be_visible()
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_text("The command line is signed in.")).to_be_visible()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads((tmp_path / "cli.json").read_text())["url"] in err + out
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli", "node", "list", "--json"],
        env=Stack.environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_command_line_that_nobody_here_began_is_refused(
    stack: Stack, signed_in: BrowserContext, page: Page, tmp_path: Path
) -> None:
    with login(stack, tmp_path) as (process, url):
        page.goto(url)
        page.get_by_role("button", name="Deny").click()
        expect(page.get_by_text("The sign-in was denied.")).to_be_visible()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Somebody has refused this login" in err
    assert not (tmp_path / "cli.json").exists()


def test_a_code_of_the_app_is_asked_for_once_two_step_sign_in_is_on(
    stack: Stack, signed_in: BrowserContext, browser: Browser
) -> None:
    password = "a tolerable passphrase"
    with stack.client() as client:
        client.post("/users", {"username": "grace", "password": password, "role": "member"})
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page = context.new_page()

    def enter(code: str = "") -> None:
        page.goto(f"{stack.url}/sign-in?to=/settings?tab=password")
        page.locator("input[name=username]").fill("grace")
        page.locator("input[name=password]").fill(password)
        page.get_by_test_id("sign-in-form").locator("button[type=submit]").click()
        if code:
            page.locator("input[name=code]").fill(code)
            page.get_by_test_id("sign-in-form").locator("button[type=submit]").click()

    enter()
    panel = page.get_by_test_id("two-step")
    panel.get_by_label("Your password").fill(password)
    panel.get_by_role("button", name="Set up").click()
    expect(panel.get_by_role("img", name="QR code of the secret")).to_be_visible()
    secret = base64.b32decode(panel.get_by_test_id("second-factor-secret").inner_text().strip())
    panel.get_by_label("Code", exact=True).fill(shown_by_the_app(secret))
    panel.get_by_role("button", name="Switch on").click()
    code = panel.get_by_test_id("recovery-codes").inner_text().split()[0]
    page.context.clear_cookies()
    enter(code)
    expect(panel.get_by_role("button", name="Switch off")).to_be_visible()
    context.close()


def test_who_is_invited_chooses_a_password(
    stack: Stack, signed_in: BrowserContext, page: Page, browser: Browser
) -> None:
    page.goto(f"{stack.url}/settings?tab=users")
    form = page.get_by_test_id("user-form")
    form.get_by_label("Username").fill("frida")
    form.get_by_role("button", name="Create invitation link").click()
    link = page.get_by_test_id("invitation-link").locator("pre").inner_text().strip()
    row = page.get_by_test_id("users").get_by_role("row", name=re.compile("frida"))
    expect(row).to_contain_text("Invited until")

    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    theirs = context.new_page()
    theirs.goto(link)
    expect(theirs.locator("input[name=username]")).to_have_value("frida")
    assert "mst_once" not in theirs.url
    assert "\n".join(violations(theirs)) == ""
    theirs.locator("input[name=new-password]").fill("a tolerable passphrase")
    theirs.locator("input[name=again]").fill("a tolerable passphrase")
    theirs.get_by_role("button", name="Create account").click()
    expect(theirs.get_by_role("heading", level=1)).to_have_text("Cluster")
    theirs.goto(link)
    expect(theirs.get_by_text("This invitation is not valid")).to_be_visible()
    context.close()
    page.reload()
    expect(row).not_to_contain_text("Invited until")


def shown_by_the_app(secret: bytes) -> str:
    return TOTP(secret, 6, SHA1(), 30).generate(int(time.time())).decode()
