"""The search tab: charts by keyboard, brushes that every chart and the table follow."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from muster.ask_tell import Drive
from support.stack import Stack

pytestmark = pytest.mark.browser

NUM = 24


@pytest.fixture(scope="module")
def search(stack: Stack) -> int:
    """Points of a conditional space, run by this test; its id."""
    document: dict[str, Any] = {
        "name": "conditional",
        "hyperparameters": {
            "lr": {"log": [1e-4, 1e-1]},
            "optimizer": {"choice": ["sgd", "adam"]},
            "momentum": {"uniform": [0, 0.9], "when": {"optimizer": "sgd"}},
        },
        "search": {
            "runner": "external", "method": "asha", "metric": "val/loss", "goal": "min",
            "trials": NUM, "max_length": {"epochs": 9}, "divisor": 3, "concurrent": 4,
        },
    }  # fmt: skip
    with stack.client() as client:
        drive = Drive.submit(client, json.dumps(document))
        for trial in drive.trials():
            for epoch in range(int(trial.units) + 1, trial.max_units + 1):
                if not trial.tell({"val/loss": 1 / epoch + trial.hparams["lr"]}, epoch):
                    break
            else:
                trial.complete()
        return drive.experiment_id


def drawn(page: Page, name: str) -> Any:
    figure = page.get_by_test_id(name)
    figure.scroll_into_view_if_needed()
    expect(page.get_by_test_id(f"{name}-canvas")).to_have_attribute(
        "data-painted", re.compile(r"\d+")
    )
    return figure


def test_charts_of_a_search_by_keyboard(
    page: Page, stack: Stack, signed_in: BrowserContext, search: int
) -> None:
    page.goto(f"{stack.url}/experiments/{search}")
    # What was told at rungs is drawn, with the rungs.
    expect(page.get_by_test_id("chart-learning-curves")).to_have_attribute(
        "data-num-series", str(NUM)
    )
    expect(page.get_by_test_id("curves-key")).to_contain_text("1 epoch, 3 epochs, 9 epochs")
    top = page.get_by_test_id("top-trials")
    expect(top.get_by_role("row")).to_have_count(6)
    expect(top.get_by_role("row").nth(1)).to_contain_text("★")

    page.get_by_test_id("tab-search").click()
    drawn(page, "search-parallel")
    controls = page.get_by_test_id("axis-controls")
    controls.get_by_role("combobox").click()
    page.get_by_role("option", name="momentum").click()
    # At its lower end stand those that have no momentum.
    expect(controls.get_by_role("slider").first).to_have_attribute("aria-valuetext", "–")
    controls.get_by_role("combobox").click()
    page.get_by_role("option", name="optimizer").click()
    controls.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowRight")
    brushes = page.get_by_test_id("brushes")
    expect(brushes).to_have_text("optimizer: adam – adam")
    clear = page.get_by_role("button", name="selected · Clear")
    kept = int(re.findall(r"\d+", clear.inner_text())[0])
    assert 0 < kept < NUM

    history = drawn(page, "search-history")
    expect(history).to_contain_text("outside the selection")
    history.focus()
    page.keyboard.press("ArrowRight")
    expect(history).to_contain_text(f"1 of {kept}: Trial")
    expect(history).to_contain_text("optimizer adam")
    page.keyboard.press("End")
    expect(history).to_contain_text(f"{kept} of {kept}: Trial")

    history.get_by_test_id("search-history-table").click()
    expect(history.get_by_role("row")).to_have_count(kept + 1)
    history.get_by_test_id("search-history-table").click()
    clear.click()
    expect(brushes).to_have_count(0)
    drawn(page, "search-history")
    history.focus()
    page.keyboard.press("ArrowRight")
    expect(history).to_contain_text(f"1 of {NUM}: Trial 1 ")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/trials/\d+"))


def test_a_drag_along_an_axis_brushes_and_pictures_are_kept(
    page: Page, stack: Stack, signed_in: BrowserContext, search: int
) -> None:
    page.goto(f"{stack.url}/experiments/{search}?tab=search")
    parallel = drawn(page, "search-parallel")
    box = page.get_by_test_id("search-parallel-canvas").bounding_box()
    assert box
    x = box["x"] + 54  # of the first axis
    page.mouse.move(x, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(x, box["y"] + 100, steps=4)
    page.mouse.move(x, box["y"] + 160, steps=4)
    page.mouse.up()
    expect(page.get_by_test_id("brushes")).to_contain_text("lr: ")
    for kind, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("csv", b"Trial,")):
        parallel.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_test_id(f"export-{kind}").click()
        assert download.value.path().read_bytes().startswith(begins)


def test_trials_are_filtered_and_sorted_by_any_column(
    page: Page, stack: Stack, signed_in: BrowserContext, search: int
) -> None:
    page.goto(f"{stack.url}/experiments/{search}?tab=trials")
    table = page.get_by_test_id("trials")
    expect(table.get_by_role("row")).to_have_count(NUM + 1)
    page.get_by_test_id("trial-filter").click()
    form = page.get_by_test_id("trial-filter-form")
    form.get_by_role("combobox").fill("lr")
    page.get_by_role("option", name="lr", exact=True).click()
    form.get_by_label("To", exact=True).fill("0.01")
    form.get_by_role("button", name="Add condition").click()
    expect(page).to_have_url(re.compile("where=hparam.lr"))
    expect(table.get_by_role("row")).not_to_have_count(NUM + 1)
    head = table.get_by_role("columnheader", name="lr")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    with stack.client() as client:
        path = f"/experiments/{search}/trials"
        wanted = client.get(path, where="hparam.lr <= 0.01", sort="-hparam.lr", limit=50)["items"]
    assert 0 < len(wanted) < NUM
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(wanted))
    expect(rows.first).to_contain_text(f"Trial {wanted[0]['no']}")
    expect(rows.last).to_contain_text(f"Trial {wanted[-1]['no']}")


def test_limits_are_changed_and_a_waiting_trial_is_sent_on(
    page: Page, stack: Stack, signed_in: BrowserContext
) -> None:
    document = {
        "name": "promoted",
        "hyperparameters": {"lr": {"log": [1e-4, 1e-1]}},
        "search": {
            "runner": "external", "method": "asha", "variant": "promotion", "metric": "val/loss",
            "goal": "min", "trials": 6, "max_length": {"epochs": 9}, "divisor": 3, "concurrent": 3,
        },
    }  # fmt: skip
    with stack.client() as client:
        drive = Drive.submit(client, json.dumps(document))
        asked = drive.ask(2)
        for trial, loss in zip(asked, (0.5, 0.9), strict=True):
            trial.tell({"val/loss": loss}, 3)

        page.goto(f"{stack.url}/experiments/{drive.experiment_id}?tab=search")
        shown = page.get_by_test_id("search-limits")
        expect(shown).to_contain_text("3 in parallel")
        page.get_by_test_id("edit-limits").click()
        form = page.get_by_test_id("limits-form")
        form.get_by_label("Total trials").fill("8")
        form.get_by_label("Parallel trials").fill("4")
        form.get_by_role("button", name="Save").click()
        expect(shown).to_contain_text("of 8 trials created · 4 in parallel")

        trials = client.trials(drive.experiment_id)
        waiting = [trial["id"] for trial in trials if trial["state"] == "PAUSED"][-1]
        page.goto(f"{stack.url}/trials/{waiting}")
        page.get_by_test_id("send-on").click()
        page.get_by_test_id("confirm").click()
        expect(page.get_by_role("main")).to_contain_text("goes on when the search has a place")
        client.stop(drive.experiment_id)
