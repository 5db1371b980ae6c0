"""Ten tasks without a mouse: sign in, submit, compare, find, stop, read a log, fork, start a session, narrow a table
and change a run in place, reserve a node."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.pages import open_by_palette, press, walk_to
from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


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
    # The page that comes has the focus; the menu is before it.
    walk_to(page, page.get_by_test_id("nav-submit"), "Shift+Tab")
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


@pytest.fixture
def keyed(signed_in: BrowserContext, stack: Stack, page: Page) -> Page:
    """A page whose keys are listened to."""
    page.goto(stack.url)
    expect(page.get_by_test_id("keyboard-ready")).to_have_count(1)
    return page


def finished(stack: Stack, name: str, *, text: str = "one line") -> int:
    """Return the number of an experiment that has printed a text and ended."""
    with stack.client() as client:
        document = scripted(name, [{"log": text}, {"train": {"step_s": 0.01}}])
        return int(
            client.wait(client.post("/experiments", {"document": document})["id"], timeout_s=100)[
                "id"
            ]
        )


def test_a_log_is_opened_and_searched(keyed: Page, stack: Stack) -> None:
    finished(stack, "keyed-log", text="a needle in the log")
    open_by_palette(keyed, "keyed-log")
    walk_to(keyed, keyed.get_by_test_id("tab-logs"))
    press(keyed, "Enter")
    field = keyed.get_by_test_id("log-filter")
    expect(field).to_be_visible()
    press(keyed, "/")
    expect(field).to_be_focused()
    keyed.keyboard.type("needle")
    expect(keyed.get_by_test_id("log-hits")).to_contain_text("1")
    walk_to(keyed, keyed.get_by_test_id("log"))
    press(keyed, "ArrowDown", "Escape")


def test_a_run_is_forked(keyed: Page, stack: Stack) -> None:
    number = finished(stack, "keyed-fork")
    open_by_palette(keyed, "keyed-fork")
    more = keyed.get_by_test_id("more-actions")
    walk_to(keyed, more)
    press(keyed, "Enter", "ArrowDown")
    keyed.keyboard.press("Escape")
    expect(more).to_be_focused()
    press(keyed, "Enter")
    walk_to(keyed, keyed.get_by_test_id("fork"), "ArrowDown")
    press(keyed, "Enter")
    expect(keyed).to_have_url(re.compile(rf"/submit\?from={number}"))
    expect(keyed.get_by_test_id("preview")).to_have_attribute("data-valid", "true", timeout=60_000)
    walk_to(keyed, keyed.get_by_test_id("submit"))
    press(keyed, "Enter")
    expect(keyed).to_have_url(re.compile(r"/trials/\d+"))


def test_a_session_is_started(keyed: Page, stack: Stack) -> None:
    open_by_palette(keyed, "Sessions")
    button = keyed.get_by_test_id("start-session")
    walk_to(keyed, button)
    press(keyed, "Enter")
    form = keyed.get_by_test_id("session-form")
    kind = form.get_by_role("combobox", name="Kind")
    expect(kind).to_be_focused()
    press(keyed, "Escape")
    expect(form).to_have_count(0)
    expect(button).to_be_focused()
    press(keyed, "Enter")
    expect(kind).to_be_focused()
    # Shell is the first of the kinds.
    press(keyed, "ArrowDown")
    expect(keyed.get_by_role("option", name="Shell")).to_be_visible()
    press(keyed, "ArrowUp", "ArrowUp", "Enter")
    expect(kind).to_have_value("Shell")
    # Tab goes around in the dialog and does not leave it.
    walk_to(keyed, form.get_by_role("button", name="Start"), "Shift+Tab")
    press(keyed, "Enter")
    expect(form).to_have_count(0)
    result = keyed.get_by_test_id("session-started")
    expect(result).to_have_attribute("data-state", "RUNNING")
    with stack.client() as client:
        client.stop(int(result.locator("pre").inner_text().rpartition(" ")[2]))


def test_a_table_is_narrowed_and_a_run_is_renamed_beside_it(keyed: Page, stack: Stack) -> None:
    finished(stack, "keyed-table")
    keyed.keyboard.press("g")
    press(keyed, "e")
    field = keyed.get_by_test_id("experiment-filter")
    expect(field).to_be_visible()
    # A condition: its form has the focus, and gives it back.
    condition = keyed.get_by_test_id("add-condition")
    walk_to(keyed, condition)
    press(keyed, "Enter")
    asked = keyed.get_by_test_id("condition-form")
    expect(asked.locator(":focus")).to_have_count(1)
    press(keyed, "Escape")
    expect(asked).to_have_count(0)
    expect(condition).to_be_focused()
    press(keyed, "/")
    expect(field).to_be_focused()
    keyed.keyboard.type("keyed-table")
    table = keyed.get_by_test_id("experiments")
    expect(table).to_have_attribute("data-rows", "1")
    row = table.locator("tr[data-index='0']")
    walk_to(keyed, row)
    press(keyed, "Space")
    edit = keyed.get_by_test_id("peek-edit")
    walk_to(keyed, edit)
    press(keyed, "Enter")
    form = keyed.get_by_test_id("peek-form")
    expect(form.get_by_role("textbox", name="Experiment")).to_be_focused()
    press(keyed, "Control+A")
    keyed.keyboard.type("keyed-table-renamed")
    press(keyed, "Enter")
    expect(form).to_have_count(0)
    expect(edit).to_be_focused()
    expect(row).to_contain_text("keyed-table-renamed")
    press(keyed, "Escape")
    expect(keyed.get_by_test_id("peek")).to_have_count(0)
    walk_to(keyed, row)
    press(keyed, "Enter")
    expect(keyed).to_have_url(re.compile(r"/trials/\d+"))


def test_notes_are_written_in_place(keyed: Page, stack: Stack) -> None:
    finished(stack, "keyed-notes")
    open_by_palette(keyed, "keyed-notes")
    walk_to(keyed, keyed.get_by_test_id("tab-details"))
    press(keyed, "Enter")
    details = keyed.get_by_test_id("details")
    edit = details.get_by_role("button", name="Edit").first
    walk_to(keyed, edit)
    press(keyed, "Enter")
    expect(details.get_by_role("textbox", name="Notes")).to_be_focused()
    keyed.keyboard.type("by keys alone")
    walk_to(keyed, details.get_by_role("button", name="Save"))
    press(keyed, "Enter")
    expect(details.get_by_role("textbox", name="Notes")).to_have_count(0)
    expect(details.get_by_text("by keys alone")).to_be_visible()
    expect(edit).to_be_focused()


@pytest.mark.refused(422)
def test_a_node_is_reserved_and_given_back(keyed: Page, stack: Stack) -> None:
    with stack.client() as client:
        client.post("/projects", {"name": "keyed"})
    keyed.keyboard.press("g")
    press(keyed, "n")
    reserve = keyed.get_by_test_id("reserve")
    expect(reserve).to_be_visible()
    walk_to(keyed, reserve)
    press(keyed, "Enter")
    form = keyed.get_by_test_id("reservation-form")
    expect(form.get_by_role("textbox", name="Project", exact=True)).to_be_focused()
    keyed.keyboard.type("keyd")
    walk_to(keyed, form.get_by_role("checkbox").first)
    press(keyed, "Space")
    send = form.get_by_role("button", name="Reserve")
    walk_to(keyed, send)
    press(keyed, "Enter")
    expect(form.get_by_role("alert")).to_contain_text("did you mean 'keyed'?")
    expect(send).to_be_focused()
    walk_to(keyed, form.get_by_role("textbox", name="Project", exact=True), "Shift+Tab")
    press(keyed, "Control+A")
    keyed.keyboard.type("keyed")
    press(keyed, "Enter")
    expect(form).to_have_count(0)
    table = keyed.get_by_test_id("reservations")
    expect(table).to_contain_text("active")
    walk_to(keyed, keyed.get_by_test_id("reservations-end"))
    press(keyed, "Enter")
    dialog = keyed.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    press(keyed, "Escape")
    expect(keyed.get_by_test_id("reservations-end")).to_be_focused()
    press(keyed, "Enter", "Tab", "Enter")
    expect(table).to_have_count(0)
    press(keyed, "Tab")
