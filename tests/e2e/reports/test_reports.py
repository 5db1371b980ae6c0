"""A report over the seeds of an experiment: written with the keyboard, compared with the database, frozen,
exported and shared."""

from __future__ import annotations

import json
import re
import sqlite3
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from support.console import no_errors
from support.stack import Stack, started

pytestmark = pytest.mark.browser

SEEDS = """\
name: seeds
labels: {paper: demo}
launcher: plain
hyperparameters:
  lr: {choice: [0.1, 0.01]}
  seed: {choice: [1, 2, 3]}
search: {method: grid, metric: val/acc, goal: max}
entrypoint:
  - python
  - -c
  - |
    import muster
    run = muster.init()
    chosen = run.get_hparams()
    for step in range(1, 6):
        noise = chosen["seed"] ** 2 / 1000
        run.log({"val/acc": 0.9 - chosen["lr"] - 0.3 / step + noise}, step=step)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Stack]:
    """A stack that shows reports by links, with six trials that have ended."""
    environment = {"server": {"MUSTER_REPORT_LINKS": "true"}}
    with started(lambda home: Stack(home, environment=environment)) as stack:
        with stack.client() as client:
            made = client.post("/experiments", {"document": SEEDS})
            client.wait(made["id"], timeout_s=200)
        yield stack


@pytest.fixture(scope="module")
def window(lab: Stack, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-US", color_scheme="dark"
    )
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(lab.sign_in_url)
    form = page.get_by_test_id("setup-form")
    form.locator("input[name=username]").fill("ada")
    for name in ("new-password", "again"):
        form.locator(f"input[name={name}]").fill("correct horse battery staple")
    form.locator("button[type=submit]").click()
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    with no_errors(page, []):
        yield page
    context.close()


def last_values(lab: Stack) -> dict[float, list[float]]:
    """Learning rate → last values of its seeds, as the database has them."""
    found: dict[float, list[float]] = {}
    with sqlite3.connect(f"file:{lab.home / 'muster.db'}?mode=ro", uri=True) as database:
        for hparams, summary in database.execute("SELECT hparams, summary FROM trials"):
            values = found.setdefault(json.loads(hparams)["lr"], [])
            values.append(json.loads(summary)["val/acc"]["last"])
    return found


def enter(block: Locator, label: str, text: str) -> None:
    """Type one value of a field that takes several."""
    field = block.get_by_role("combobox", name=label, exact=True)
    field.focus()
    field.press_sequentially(text)
    field.press("Enter")
    field.press("Escape")


def test_a_table_over_seeds_is_written_frozen_exported_and_shared(
    window: Page, lab: Stack, browser: Browser
) -> None:
    values = last_values(lab)
    assert {lr: len(of) for lr, of in values.items()} == {0.1: 3, 0.01: 3}
    shown = {
        lr: f"{statistics.fmean(of):.4f} ± {statistics.stdev(of):.4f}" for lr, of in values.items()
    }
    window.goto(f"{lab.url}/reports")
    window.get_by_role("button", name="New report").click()
    form = window.get_by_test_id("new-report")
    expect(form.get_by_role("combobox", name="Project")).to_have_value("default")
    form.get_by_label("Title").fill("Accuracy over seeds")
    window.keyboard.press("Enter")
    expect(window.get_by_text("This report is empty")).to_be_visible()
    window.get_by_role("button", name="Edit", exact=True).click()
    window.get_by_test_id("add-markdown").press("Enter")
    window.get_by_test_id("block-0").get_by_label("Text", exact=True).fill(
        "Lower is **better**. <script>alert(1)</script>"
    )
    window.get_by_test_id("add-table").press("Enter")
    table = window.get_by_test_id("block-1")
    enter(table, "Labels", "paper=demo")
    enter(table, "Group by", "hparam.lr")
    enter(table, "Columns", "metric.last.val/acc")
    table.get_by_label("Header of metric.last.val/acc").fill("Accuracy")
    window.get_by_test_id("add-chart").press("Enter")
    enter(window.get_by_test_id("block-2"), "Metrics", "val/acc")
    window.get_by_role("button", name="Move up: Chart 3").press("Enter")
    window.get_by_role("link", name="Overview", exact=True).press("Enter")
    question = window.get_by_role("dialog", name="Leave without saving?")
    question.get_by_role("button", name="Keep editing").press("Enter")
    expect(question).to_have_count(0)
    window.get_by_test_id("block-0").get_by_label("Text", exact=True).press("Control+Enter")

    rows = window.get_by_test_id("report-table").locator("tbody tr")
    expect(rows).to_have_count(2)
    for row, lr in zip(rows.all(), (0.01, 0.1), strict=True):
        expect(row.locator("th")).to_have_text(str(lr))
        expect(row.locator("td").first).to_have_text(shown[lr])
        expect(row.locator("td").last).to_have_text("3")
    expect(window.get_by_test_id("chart-report-1")).to_have_attribute("data-num-series", "6")
    content = window.get_by_test_id("report-content")
    expect(content).to_contain_text("<script>alert(1)</script>")
    expect(content.locator("strong")).to_have_text("better")
    rows.first.locator("td a").first.click()
    expect(window).to_have_url(re.compile("/compare.*trials="))
    window.go_back()

    window.get_by_role("button", name="Freeze", exact=True).click()
    expect(window.get_by_test_id("report-values")).to_have_text("Frozen")
    expect(window.get_by_role("button", name="Edit", exact=True)).to_be_disabled()
    window.get_by_role("button", name="Export", exact=True).click()
    with window.expect_download() as download:
        window.get_by_role("menuitem", name="Tables as LaTeX").click()
    latex = Path(download.value.path()).read_text()
    for lr, text in shown.items():
        assert f"{lr} & ${text.replace('±', chr(92) + 'pm')}$ & 3" in latex, latex

    scheme = "document.documentElement.dataset.mantineColorScheme"
    window.evaluate(
        "window.print = () => { window.dispatchEvent(new Event('beforeprint'));"
        f" window.printedIn = {scheme}; window.dispatchEvent(new Event('afterprint')); }}"
    )
    window.get_by_role("button", name="Export", exact=True).click()
    window.get_by_role("menuitem", name="Print or save as PDF").click()
    window.wait_for_function(f"window.printedIn === 'light' && {scheme} === 'dark'")

    comments = window.get_by_test_id("comments")
    comments.get_by_label("Comment, in Markdown").fill("Why *three* seeds?")
    comments.get_by_role("button", name="Add comment").click()
    expect(comments.locator("li em")).to_have_text("three")

    window.get_by_test_id("report-menu").click()
    window.get_by_role("menuitem", name="Share by link").click()
    window.get_by_role("button", name="Create link").click()
    link = window.get_by_test_id("report-url").inner_text()
    stranger = browser.new_context(viewport={"width": 390, "height": 844}, locale="en-US")
    page = stranger.new_page()
    page.goto(link)
    for text in shown.values():
        expect(page.get_by_test_id("report-table")).to_contain_text(text)
    expect(page.locator("main a")).to_have_count(0)
    assert "mst_once" not in page.url
    page.goto(f"{lab.url}/reports")
    expect(page).to_have_url(re.compile("/sign-in"))
    stranger.close()
