"""A newcomer's first minute: from the link that `muster up` prints to a loss that moves."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from support.stack import Stack, started, wait_for

pytestmark = pytest.mark.browser

FIRST_MINUTE_S = 60.0
"""From the link until the curve has moved. A person adds what it takes to think of a password."""


@pytest.fixture
def untouched() -> Iterator[Stack]:
    """A Muster to which nobody has signed in yet."""
    with started(Stack) as stack:
        yield stack


def test_from_the_printed_link_to_a_moving_loss_within_a_minute(
    untouched: Stack, browser: Browser
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    context.set_default_timeout(FIRST_MINUTE_S * 1e3)
    page = context.new_page()
    began = time.monotonic()
    page.goto(untouched.sign_in_url)
    form = page.get_by_test_id("setup-form")
    form.locator("input[name=new-password]").fill("correct horse battery staple")
    form.locator("input[name=again]").fill("correct horse battery staple")
    form.locator("button[type=submit]").click()

    # Nothing but what there is to do, and what there is to do it on.
    steps = page.get_by_test_id("first-run")
    expect(steps.get_by_role("listitem").nth(0).get_by_label("done")).to_be_visible()
    expect(page.get_by_test_id("slot-strip")).to_contain_text("0/2")
    expect(page.get_by_test_id("utilization")).to_have_count(0)
    page.get_by_test_id("run-example").click()
    expect(page).to_have_url(re.compile(r"/experiments/1$"))
    chart = page.get_by_test_id("chart-train/loss")
    expect(chart.locator("canvas").first).to_be_visible(timeout=FIRST_MINUTE_S * 1e3)

    def num_points() -> int:
        return int(chart.get_attribute("data-num-points") or 0)

    before = wait_for("the loss has points", lambda: num_points() or None, FIRST_MINUTE_S)
    wait_for("the loss moves", lambda: num_points() > before, FIRST_MINUTE_S)
    took_s = time.monotonic() - began
    context.close()
    assert took_s < FIRST_MINUTE_S
