"""What a job wrote, on the page of its trial: listed, shown without being run, downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.torch]

SCRIPT = """
from pathlib import Path

Path("runs").mkdir()
Path("runs/loss.csv").write_text("step,loss\\n1,0.5\\n")
Path("page.html").write_text("<script>document.title = 'taken over'</script><b>bold</b>")
Path("big.bin").write_bytes(bytes(3_000_000))
"""
DOCUMENT = """
name: writes-files
entrypoint: train.py
outputs: {max_size: 1MB, keep: {days: 30, max_size: 5GiB}}
"""


def test_files_are_listed_shown_and_downloaded(
    signed_in: BrowserContext, stack: Stack, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "experiment.yaml").write_text(DOCUMENT)
    made = stack.cli("submit", str(tmp_path / "experiment.yaml"), "--follow")
    assert made.returncode == 0, made.stderr
    with stack.client() as client:
        (newest,) = client.pages("/experiments", limit=1)
        trial_id = newest["only_trial_id"]
        wait_for(
            "its files are collected",
            lambda: client.get(f"/trials/{trial_id}/outputs/summary")["state"] == "complete",
        )
    page.goto(f"{stack.url}/trials/{trial_id}?tab=outputs")
    rows = page.get_by_test_id("outputs").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(page.get_by_text("1 file was not kept")).to_be_visible()
    retention = page.get_by_test_id("outputs-retention")
    expect(retention).to_contain_text("deletes outputs 30 d after their last change.")
    expect(retention).to_contain_text("Deletion by age: in 29 d")
    page.get_by_test_id("outputs-left-out").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("big.bin")
    expect(rows).to_contain_text("Not kept")
    page.get_by_test_id("outputs-left-out").click()

    page.get_by_role("button", name="runs/loss.csv", exact=True).click()
    preview = page.get_by_test_id("output-preview")
    expect(preview.get_by_role("columnheader")).to_have_text(["step", "loss"])
    page.keyboard.press("Escape")
    page.get_by_role("button", name="page.html", exact=True).click()
    expect(preview).to_contain_text("<b>bold</b>")
    assert page.title() != "taken over"
    page.keyboard.press("Escape")

    with page.expect_download() as one:
        page.get_by_role("button", name="Download: runs/loss.csv").click()
    assert Path(one.value.path()).read_text() == "step,loss\n1,0.5\n"
    with page.expect_download() as whole:
        page.get_by_test_id("outputs-download-all").click()
    assert whole.value.suggested_filename.endswith("-outputs.tar")
    page.get_by_test_id("outputs-search").fill("loss")
    expect(rows).to_have_count(1)
