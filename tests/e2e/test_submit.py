"""The submit page: completion, the form beside the text, templates, and code from a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack

pytestmark = pytest.mark.browser


def write(page: Page, text: str) -> None:
    page.get_by_test_id("submit-editor").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_the_editor_completes_and_the_form_is_in_step_with_it(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/submit")
    editor = page.get_by_test_id("submit-editor")
    # While letters are still to be looked up, the older list is pale, and a click on it does nothing.
    options = page.locator(".cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li")
    write(page, "name: typed\n")
    # Nothing is offered before the schema has come.
    expect(page.get_by_test_id("field-strategy.kind").locator("option[value=fsdp]")).to_have_count(
        1
    )
    page.keyboard.type("stratgey", delay=30)
    expect(options).to_have_text(["strategy"])
    options.first.click()
    expect(editor).to_contain_text("strategy:")
    page.keyboard.type("kin", delay=30)
    expect(options.first).to_contain_text("kind")
    options.first.click()
    expect(editor).to_contain_text("kind:")
    page.keyboard.type("fsd", delay=30)
    expect(options.first).to_have_text("fsdp")
    options.first.click()
    expect(editor).to_contain_text("strategy:  kind: fsdp")
    expect(page.get_by_test_id("field-strategy.kind")).to_have_value("fsdp")
    page.get_by_test_id("field-strategy.kind").select_option("ddp")
    expect(editor).to_contain_text("kind: ddp")
    page.get_by_test_id("field-resources.slots").fill("2")
    expect(editor).to_contain_text("resources:  slots: 2")
    editor.get_by_text("strategy", exact=True).hover()
    expect(page.locator(".muster-help")).to_contain_text("How workers share the work.")


def test_a_template_brings_its_code_and_a_folder_is_sent_after_it_was_looked_at(
    signed_in: BrowserContext, stack: Stack, page: Page, tmp_path: Path
) -> None:
    page.goto(f"{stack.url}/submit")
    page.get_by_test_id("templates").click()
    page.get_by_test_id("template-plain-torchrun").click()
    contents = page.get_by_test_id("code-contents")
    expect(contents).to_have_attribute("data-sent", "true")
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true")

    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "main.py").write_text("print('from the folder')\n")
    (folder / ".gitignore").write_text("data/\n")
    (folder / "data" / "big.bin").write_bytes(bytes(4096))
    write(page, "name: dropped\nentrypoint: main.py\nresources: {slots: 1}\n")
    page.get_by_test_id("code-folder").set_input_files(folder)
    expect(contents).to_contain_text("2 files")
    expect(contents).to_contain_text("data/ (4 KiB)")
    expect(contents).to_have_attribute("data-sent", "false")
    page.get_by_test_id("code-upload").click()
    expect(contents).to_have_attribute("data-sent", "true")
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true")
    page.get_by_test_id("submit").click()
    expect(page).to_have_url(re.compile(r"/trials/\d+"))
    page.goto(f"{page.url}?tab=logs")
    expect(page.get_by_test_id("log")).to_contain_text("from the folder", timeout=60_000)


@pytest.mark.refused(422)
def test_what_is_submitted_each_night_is_paused_started_and_deleted(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/submit")
    write(page, "name: nightly\nentrypoint: [sleep, '1']\nlauncher: plain\n")
    page.get_by_test_id("schedule").click()
    form = page.get_by_test_id("schedule-form")
    form.get_by_label("Cron expression").fill("61 * * * *")
    form.get_by_role("button", name="Save").click()
    expect(form).to_contain_text("cannot be read: bad minute")
    form.get_by_label("Cron expression").fill("30 2 * * 1-5")
    form.get_by_role("button", name="Save").click()
    row = page.get_by_test_id("schedules").get_by_role("row").filter(has_text="nightly")
    expect(row).to_contain_text("30 2 * * 1-5")
    expect(row).to_contain_text("Not yet")
    row.get_by_test_id("schedule-menu").click()
    page.get_by_role("menuitem", name="Start now").click()
    expect(row).to_contain_text("beside its times")
    row.get_by_test_id("schedule-menu").click()
    page.get_by_role("menuitem", name="Pause").click()
    expect(row).to_contain_text("Paused")
    row.get_by_test_id("schedule-menu").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No schedules")).to_be_visible()
