"""Two trials side by side, and a chart as a file."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, scripted

pytestmark = pytest.mark.browser


def test_ticked_experiments_are_compared(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        trials = []
        for kind in ("first", "second"):
            document = scripted(
                f"compared-{kind}", [{"train": {"step_s": 0.01}}], labels={"kind": kind}
            )
            made = client.post("/experiments", {"document": document})
            client.wait(made["id"], timeout_s=100)
            trials.append(made["only_trial_id"])
    page.goto(f"{stack.url}/experiments?q=compared-")
    page.get_by_test_id("select-all").click()
    page.get_by_test_id("bulk-bar").get_by_test_id("compare").click()
    expect(page).to_have_url(re.compile("/compare"))
    chosen = parse_qs(urlparse(page.url).query)["trials"][0].strip('"')
    assert sorted(map(int, chosen.split(","))) == sorted(trials)

    chart = page.get_by_test_id("chart-train/loss")
    expect(chart).to_have_attribute("data-num-series", "2")
    with page.expect_download() as download:
        chart.get_by_role("button", name="Export").click()
        page.get_by_test_id("export-csv").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("line,metric,rank,step,time_ms,mean")
    assert {line.split(",")[0] for line in lines[1:]} == {"compared-first", "compared-second"}

    # The keyboard changes what is in the address, and the address is all there is.
    chart.focus()
    page.keyboard.press("l")
    page.keyboard.press("f")
    expect(page).to_have_url(re.compile("log=true.*full=|full=.*log=true"))
    page.reload()
    full = page.get_by_test_id("chart-train/loss-full")
    expect(full).to_have_attribute("data-num-series", "2")
    page.keyboard.press("Escape")
    expect(full).to_have_count(0)

    page.get_by_test_id("tab-config").click()
    difference = page.get_by_test_id("config-diff")
    expect(difference.get_by_role("rowheader", name="labels.kind")).to_be_visible()
    expect(difference.get_by_role("rowheader", name="resources.slots")).to_have_count(0)
    page.get_by_test_id("tab-summary").click()
    row = page.get_by_test_id("summary").get_by_role("row", name=re.compile("train.loss"))
    expect(row.get_by_role("cell")).to_have_count(2)
