"""What a script logs beside numbers: drawn by step on the page of its trial, and side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from support.pages import violations
from support.stack import Stack

pytestmark = pytest.mark.browser

SCRIPT = """
import muster, numpy, pathlib

class Plotly:
    def to_plotly_json(self): return {}
    def to_json(self): return '{"data": [{"type": "scatter", "name": "loss", "y": [3, 2, 1]}, {"type": "pie"}]}'

muster.init()
random = numpy.random.default_rng(0)
pathlib.Path("a.svg").write_text(
    '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60" onload="parent.document.title=1">'
    '<script>parent.document.title = "taken over"</script><circle cx="30" cy="30" r="20"/></svg>')
pathlib.Path("a.gif").write_bytes(b"no picture")
for step in (0, 10, 20):
    muster.log_image("samples", random.random((200, 300, 3)), step=step, caption=f"after {step}")
    muster.log_image("drawing", "a.svg", step=step)
    muster.log_text("answers", f"<script>document.title = 'taken over'</script> {step}", step=step)
    muster.log_histogram("weights", random.normal(size=5000), step=step)
    muster.log_table("worst", [{"file": "a.png", "loss": step / 4}], step=step)
    muster.log_confusion_matrix("confusion", [[8, 2], [1, 9]], classes=["cat", "dog"], step=step)
    labels = numpy.arange(100) % 2
    muster.log_pr_curve("pr", labels, labels + random.normal(size=100), step=step)
    muster.log_audio("voice", numpy.sin(numpy.arange(4000) / 9), sample_rate=8000, step=step)
    muster.log_video("clip", (random.random((6, 24, 32, 3)) * 255).astype("uint8"), step=step)
    muster.log_figure("figure", Plotly(), step=step)
muster.log_image("late", numpy.eye(16), step=20)
muster.log_image("late", "a.gif", step=20)
"""
DOCUMENT = "name: logs-media-{}\nentrypoint: train.py\n"


def look(page: Page) -> None:
    """Nothing is hard to read or reach in either scheme, and nothing sticks out on a phone."""
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": 1440, "height": 5000})  # cards are filled when they are seen
    expect(page.locator("[role=status][aria-label]")).to_have_count(0)  # no skeleton left
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
        assert "\n".join(violations(page)) == ""
    page.set_viewport_size({"width": 390, "height": 5000})
    page.reload()  # a chart follows a new width only after a moment
    expect(page.locator("main h1").first).to_be_visible()
    expect(page.locator("[role=status][aria-label]")).to_have_count(0)
    assert "\n".join(violations(page)) == ""
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size(size)


def test_media_are_shown_by_step_and_side_by_side(
    signed_in: BrowserContext, stack: Stack, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    trials = []
    for name in ("first", "second"):
        (tmp_path / "experiment.yaml").write_text(DOCUMENT.format(name))
        made = stack.cli("submit", str(tmp_path / "experiment.yaml"), "--follow")
        assert made.returncode == 0, made.stderr
        with stack.client() as client:
            (newest,) = client.pages("/experiments", limit=1)
            trials.append(newest["only_trial_id"])

    page.goto(f"{stack.url}/trials/{trials[0]}")
    expect(page.get_by_test_id("tab-media")).to_have_text("Media 11")
    page.get_by_test_id("tab-media").click()
    expect(page.get_by_test_id("media-left-out")).to_contain_text("1: not what their kind needs")
    cards = page.get_by_test_id("media-card")
    expect(cards).to_have_count(11)

    def card(name: str) -> Locator:
        found = cards.filter(has=page.get_by_role("heading", name=name, exact=True))
        found.scroll_into_view_if_needed()
        return found

    # Large content comes from the node that wrote it.
    sample = card("samples").get_by_role("img", name="after 20")
    expect(sample).to_have_js_property("naturalWidth", 300)
    expect(card("drawing").get_by_role("img")).to_have_js_property("naturalWidth", 90)
    expect(card("clip").get_by_role("img")).to_have_js_property("naturalWidth", 32)
    expect(card("voice").locator("audio")).to_have_js_property("duration", 0.5)
    expect(card("weights").locator("svg[role=img]")).to_have_accessible_name(
        re.compile("5,000 values")
    )
    expect(card("pr").locator("svg[role=img]")).to_have_accessible_name(re.compile("area 0"))
    expect(card("worst").get_by_role("cell")).to_have_text(["a.png", "5"])
    expect(card("confusion").get_by_role("cell")).to_have_text(["8", "2", "1", "9"])
    expect(card("figure").get_by_test_id("plotly-canvas")).to_have_attribute(
        "data-painted", re.compile(r"\d+")
    )
    expect(card("figure")).to_contain_text("Not drawn here: pie.")
    text = card("answers").get_by_test_id("media-text")
    expect(text).to_have_text("<script>document.title = 'taken over'</script> 20")
    with page.expect_download() as download:
        card("samples").get_by_role("link").click()
    assert download.value.suggested_filename == "samples-step-20-rank-0.png"

    # The slider is moved by keyboard, and the address says where it stands.
    page.get_by_role("slider").press("ArrowLeft")
    expect(page).to_have_url(re.compile("step=10"))
    expect(text).to_contain_text("</script> 10")
    expect(card("late").get_by_test_id("media-card-step")).to_have_text("from step 20")
    page.reload()
    expect(card("worst").get_by_role("cell")).to_have_text(["a.png", "2.5"])
    assert "taken over" not in page.title()
    look(page)

    page.goto(f"{stack.url}/compare?trials={trials[0]},{trials[1]}&tab=media&step=15")
    row = page.get_by_test_id("media-row").filter(has=page.get_by_role("heading", name="samples"))
    row.scroll_into_view_if_needed()
    expect(row.get_by_test_id("media-card-step")).to_have_text(["Step 10", "Step 10"])
    expect(row.get_by_role("img", name="after 10")).to_have_count(2)
    expect(row.get_by_role("heading", level=3)).to_have_text(
        ["logs-media-first", "logs-media-second"]
    )
    look(page)
    page.get_by_test_id("media-find").fill("nothing")
    expect(page.get_by_text("No matching names")).to_be_visible()
