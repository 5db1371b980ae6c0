"""The first hour of a new user: set up, submit, watch the loss move, read a log, stop."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, wait_for

pytestmark = pytest.mark.browser

DOCUMENT = """\
name: in-the-browser
entrypoint:
  - -m
  - support.nodes.scripted
  - '[{"log": "hello from rank"}, {"train": {"epochs": 100, "steps_per_epoch": 50, "step_s": 0.05}}]'
launcher: direct
resources: {slots: 2}
"""


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("MUSTER_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_the_overview_shows_the_nodes(signed_in: BrowserContext, stack: Stack, page: Page) -> None:
    page.goto(stack.url)
    expect(page.get_by_test_id("stat-slots")).to_contain_text("4")
    expect(page.get_by_test_id("slot-strip").first).to_be_visible()
    expect(page.get_by_test_id("live-state")).to_contain_text("Live")
    page.goto(f"{stack.url}/nodes")
    expect(page.get_by_test_id("nodes")).to_contain_text("local-1")
    picture(page, "nodes-dark")


def test_submit_watch_read_a_log_and_stop(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/submit")
    editor = page.get_by_test_id("submit-editor")
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(DOCUMENT)
    preview = page.get_by_test_id("preview")
    expect(preview).to_have_attribute("data-valid", "true")
    picture(page, "submit-dark")
    page.get_by_test_id("submit").first.click()
    expect(page).to_have_url(re.compile(r"/trials/\d+"))

    # The loss moves without a reload.
    chart = page.get_by_test_id("chart-train/loss")
    expect(chart.locator("canvas").first).to_be_visible(timeout=60_000)
    page.evaluate("window.__not_reloaded = true")
    step = page.get_by_test_id("stat-step")

    def shown_step() -> int:
        digits = re.findall(r"\d[\d,]*", step.inner_text())
        return int(digits[0].replace(",", "")) if digits else 0

    wait_for("steps are shown", lambda: shown_step() > 0)
    first_step, first_picture = shown_step(), chart.screenshot()
    wait_for("the step moves", lambda: shown_step() > first_step + 10)
    wait_for("the chart moves", lambda: chart.screenshot() != first_picture)
    assert page.evaluate("window.__not_reloaded")
    picture(page, "trial-metrics-dark")

    # The same line of both ranks is one, says so, and opens.
    page.goto(page.url.split("?")[0] + "?tab=logs")
    lines = page.get_by_test_id("log-line")
    both = lines.filter(has_text="hello from rank")
    expect(both).to_have_count(1)
    expect(page.get_by_test_id("log-merged")).to_contain_text("1 duplicate line collapsed")
    both.get_by_text("×2 ranks").click()
    expect(both).to_have_count(2)
    expect(page.get_by_test_id("log-merged")).to_have_count(0)
    picture(page, "trial-logs-opened-dark")

    # A line of rank 1.
    page.goto(page.url.split("?")[0] + "?tab=logs&rank=1")
    expect(lines.filter(has_text="hello from rank").first).to_be_visible()
    expect(lines.first).to_contain_text("r1")
    picture(page, "trial-logs-dark")

    # Stop it.
    page.get_by_test_id("stop").click()
    expect(page.get_by_role("dialog")).to_contain_text("in-the-browser")
    page.get_by_test_id("confirm").click()
    expect(page.get_by_text("Canceled").first).to_be_visible(timeout=60_000)
    with stack.client() as client:
        (experiment,) = client.pages("/experiments", q="in-the-browser")
        assert client.wait(experiment["id"], timeout_s=60)["state"] == "CANCELED"
    picture(page, "trial-canceled-dark")


def test_steps_are_traced_and_drawn_by_the_viewer_that_comes_along(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        document = {
            "name": "to-be-traced",
            "trainer": {"model": "mlp", "data": "digits", "epochs": 1000},
            "resources": {"slots": 1},
        }
        made = client.submit(json.dumps(document))
        wait_for("a row", lambda: client.trials(made["id"])[0]["step"], timeout_s=120)
        (trial,) = client.trials(made["id"])
        page.goto(f"{stack.url}/trials/{trial['id']}?tab=performance")
        page.get_by_test_id("profile").click()
        row = page.get_by_test_id("profiles").get_by_role("link", name="Open")
        expect(row).to_be_visible(timeout=180_000)
        with signed_in.expect_page() as opened:
            row.click()
        viewer = opened.value
        expect(viewer).to_have_title(re.compile("to-be-traced"), timeout=180_000)
        expect(viewer.locator("canvas").first).to_be_visible()
        picture(viewer, "trace-dark")
        viewer.close()

        # Its model, as a file.
        client.stop(made["id"])
        client.wait(made["id"], timeout_s=180)
        page.goto(f"{stack.url}/trials/{trial['id']}?tab=checkpoints")
        page.get_by_test_id("export-model").first.click()
        link = page.get_by_test_id("export-file")
        expect(link).to_be_visible(timeout=180_000)
        with page.expect_download() as download:
            link.click()
        assert download.value.suggested_filename.endswith(".safetensors")
        tensors = safetensors.numpy.load_file(download.value.path())
        assert tensors
        assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def test_a_wrong_document_is_explained_before_it_is_sent(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/submit")
    page.get_by_test_id("submit-editor").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(
        "name: x\ntrainer: {model: mlp, data: digits}\nresources: {slotz: 2}\n"
    )
    errors = page.get_by_test_id("errors")
    expect(errors).to_contain_text("resources.slotz")
    expect(errors).to_contain_text("slots")
    expect(page.get_by_test_id("submit").first).to_be_disabled()


def test_signing_out_and_in_again_with_the_password(
    signed_in: BrowserContext, stack: Stack, page: Page, password: str
) -> None:
    page.goto(stack.url)
    page.get_by_test_id("user-menu").first.click()
    page.get_by_test_id("sign-out").click()
    form = page.get_by_test_id("sign-in-form")
    form.locator("input[name=username]").fill("ada")
    form.locator("input[name=password]").fill(password)
    form.locator("button[type=submit]").click()
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    expect(page.get_by_test_id("slot-strip").first).to_be_visible()
    picture(page, "overview-dark")
