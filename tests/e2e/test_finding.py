"""Documentation, the command menu, notes, keys of the page and the demo, on a real stack."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from support.stack import Stack, scripted

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.browser


def test_the_documentation_is_linked_searched_and_read(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/queue")
    page.get_by_role("link", name="Documentation: Queue").click()
    expect(page).to_have_url(re.compile("/docs/concepts/scheduling$"))
    expect(page.get_by_role("heading", level=1, name="Scheduling")).to_be_visible()
    expect(page.get_by_role("navigation", name="Breadcrumbs")).to_contain_text("Scheduling")
    # A link between pages, and to a section, without loading the dashboard anew.
    page.evaluate("window.isSameDocument = true")
    contents = page.get_by_role("navigation", name="On this page")
    contents.get_by_role("link", name="Estimated start").click()
    heading = page.get_by_role("heading", name="Estimated start")
    expect(heading).to_be_in_viewport()

    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.type("shared storage")
    found = page.get_by_test_id("docs-results")
    expect(found.get_by_role("link").first).to_have_text(re.compile("› Shared storage$"))
    found.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile("/docs/guides/agents#shared-storage$"))
    expect(page.get_by_role("heading", name="Shared storage")).to_be_in_viewport()
    page.get_by_test_id("doc").get_by_role("link").filter(
        has_text=re.compile("checkpoints", re.I)
    ).first.click()
    expect(page).to_have_url(re.compile("/docs/"))
    assert page.evaluate("window.isSameDocument") is True

    # An address that was sent to somebody, with pictures.
    page.goto(f"{stack.url}/docs/guides/dashboard#queue-why-does-it-wait")
    expect(page.get_by_role("heading", name="Queue: why does it wait?")).to_be_in_viewport()
    picture = page.get_by_test_id("doc").locator("img").last
    picture.scroll_into_view_if_needed()
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("image => image.naturalWidth") > 100
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
    expect(page.get_by_test_id("docs-search")).to_be_hidden()


def test_the_command_menu_finds_everything_by_keyboard(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        document = scripted("palette-run", [{"train": {}}], slots=1)
        run = client.post("/experiments", {"document": document})
        client.wait(run["id"], timeout_s=60)
    page.goto(f"{stack.url}/trials/{run['only_trial_id']}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("palette-run")
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)

    def find(words: str, entry: str) -> None:
        page.keyboard.press("Control+k")
        menu = page.get_by_role("dialog")
        expect(menu.get_by_role("textbox")).to_be_focused()
        page.keyboard.type(words)
        expect(menu.locator("[data-action]").first).to_have_text(re.compile(f"^{entry}"))
        page.keyboard.press("Enter")
        expect(menu).to_have_count(0)

    find("train/los", "train/loss")
    expect(page).to_have_url(re.compile(r"/trials/\d+\?find=train%2Floss"))
    find("api tok", "API tokens")
    expect(page).to_have_url(re.compile(r"/settings\?tab=tokens"))
    find("pipeline bubble", "What the numbers mean › The bubble of a pipeline")
    expect(page).to_have_url(re.compile(r"/docs/concepts/measuring#the-bubble-of-a-pipeline"))
    find(f"{run['id']}.1", "palette-run")
    page.get_by_role("heading", level=1, name=re.compile("palette-run")).wait_for()
    page.goto(f"{stack.url}/experiments")
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)
    page.get_by_role("main").get_by_role("textbox").first.focus()
    page.keyboard.press("Control+k")
    # Where one has been is there before a letter is typed.
    menu = page.get_by_role("dialog")
    expect(menu.locator("[data-action]").first).to_contain_text("palette-run")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/trials/\d+$"))


def test_a_command_menu_that_was_opened_before_its_code_was_there_finds_experiments(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        client.post("/experiments", {"document": scripted("early-menu", [{"sleep": 0.1}])})
    held: list[Route] = []
    code = re.compile(r"/assets/CommandMenu.*\.js")

    def hold(route: Route) -> None:
        held.append(route)

    page.route(code, hold)
    with page.expect_request(code):
        page.goto(f"{stack.url}/nodes", wait_until="commit")
    page.get_by_role("button", name="Search (Ctrl K)").click()
    assert page.get_by_role("dialog").count() == 0
    page.unroute(code)  # what is held goes on
    menu = page.get_by_role("dialog")
    menu.get_by_role("textbox").fill("early-menu")
    expect(menu.locator("[data-action]").first).to_contain_text("early-menu")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/(trials|experiments)/\d+$"))


def test_notes_are_markdown_and_show_what_they_will_look_like(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        client.post("/experiments", {"document": scripted("with-notes", [{"sleep": 0.1}])})
    page.goto(f"{stack.url}/experiments?q=with-notes")
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)
    row = page.get_by_test_id("experiments").locator("tbody tr").first
    row.focus()
    page.keyboard.press("?")
    keys = page.get_by_test_id("keyboard-map")
    expect(keys).to_contain_text("Show details beside the table")
    expect(keys).not_to_contain_text("Next match")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    row.focus()
    page.keyboard.press("Space")
    beside = page.get_by_test_id("peek")
    beside.get_by_test_id("peek-edit").click()
    beside.get_by_label("Notes").fill("# Why\n\n**wide** <img src=x onerror=alert(1)>")
    preview = beside.get_by_test_id("notes-preview")
    expect(preview.locator("strong")).to_have_text("wide")
    beside.get_by_role("button", name="Save").click()
    expect(beside.locator("h3", has_text="Why")).to_be_visible()
    expect(beside).to_contain_text("<img src=x onerror=alert(1)>")


def test_removing_the_demo_takes_away_exactly_its_experiments(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        ids = {
            name: client.post(
                "/experiments",
                {"document": scripted(name, [{"sleep": 30}], stop_grace_s=1.0, labels=labels)},
            )["id"]
            for name, labels in (
                ("of-the-demo", {"demo": "dashboard"}),
                ("of-somebody", {"demo": "mine"}),
            )
        }
        page.goto(stack.url)
        page.get_by_test_id("remove-demo").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("of-the-demo")
        expect(dialog).not_to_contain_text("of-somebody")
        dialog.get_by_test_id("confirm").click()
        expect(page.get_by_test_id("remove-demo")).to_have_count(0, timeout=90_000)
        left = {item["id"] for item in client.pages("/experiments", archived="include")}
        assert ids["of-somebody"] in left
        assert ids["of-the-demo"] not in left
        client.stop(ids["of-somebody"])


def test_the_sign_in_page_shows_a_command_whose_token_signs_in(
    signed_in: BrowserContext, browser: Browser, stack: Stack
) -> None:
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{stack.url}/sign-in")
    rescue = page.get_by_test_id("rescue")
    rescue.locator("summary").click()
    command = rescue.get_by_test_id("sign-in-command").inner_text()
    shell = {"PATH": os.environ["PATH"]}
    printed = subprocess.run(
        ["sh", "-c", command], cwd="/", env=shell, capture_output=True, text=True, check=True
    )
    rescue.get_by_label("One-time token").fill(printed.stdout)
    rescue.get_by_role("button", name="Sign in with the token").click()
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    context.close()


def test_a_breadcrumb_leads_back_to_the_list_as_it_was_left(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        client.post("/experiments", {"document": scripted("crumb-back", [{"sleep": 0.1}])})
    page.goto(f"{stack.url}/experiments?q=crumb-back&sort=name")
    page.get_by_test_id("experiments").get_by_role("link", name="crumb-back").click()
    expect(page).to_have_url(re.compile(r"/(trials|experiments)/\d+"))
    crumbs = page.get_by_role("navigation", name="Breadcrumbs")
    crumbs.get_by_role("link", name="Experiments").click()
    expect(page).to_have_url(re.compile(r"/experiments\?q=crumb-back&sort=name$"))
    # A page that was scrolled down is left for one that begins at its top, and is found again as it was.
    page.goto(f"{stack.url}/docs/reference/cli")
    expect(page.get_by_test_id("doc")).to_be_visible()
    page.evaluate("document.getElementById('main').scrollTo(0, 3000)")
    page.get_by_role("navigation", name="Pages of the documentation").get_by_role(
        "link", name="Settings"
    ).click()
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_in_viewport()
    assert page.evaluate("document.getElementById('main').scrollTop") == 0
    page.go_back()
    page.wait_for_function("document.getElementById('main').scrollTop === 3000")


def test_programs_find_every_page_as_markdown(stack: Stack) -> None:
    with httpx.Client(base_url=stack.url) as http:
        listed = http.get("/llms.txt")
        assert listed.headers["content-type"] == "text/plain; charset=utf-8"
        pages = re.findall(r"^- \[.+\]\((docs/.+\.md)\): .+$", listed.text, re.MULTILINE)
        assert len(pages) > 50
        for page in pages:
            reply = http.get(f"/{page}")
            assert reply.headers["content-type"] == "text/markdown; charset=utf-8", page
            assert reply.text == (ROOT / page).read_text()
