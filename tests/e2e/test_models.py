"""From the outputs of a trial to a version with an alias, on the pages of models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.torch]

SCRIPT = """
from pathlib import Path

Path("out/model").mkdir(parents=True)
Path("out/model/weights.pt").write_bytes(bytes(5000))
Path("out/model/config.json").write_text("{}")
"""
DOCUMENT = "name: saves-a-model\nentrypoint: train.py\n"


@pytest.mark.refused(409, 422)
def test_outputs_are_registered_named_and_found_again(
    signed_in: BrowserContext, stack: Stack, page: Page, tmp_path: Path
) -> None:
    page.goto(f"{stack.url}/models")
    expect(page.get_by_test_id("empty")).to_contain_text("No models yet")
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
    page.get_by_test_id("register").click()
    page.get_by_test_id("register-name").fill("nets")
    page.get_by_test_id("register-paths").fill("out/nothing")
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.get_by_test_id("field-errors")).to_contain_text("names no output")
    page.get_by_test_id("register-paths").fill("out/model/")
    page.get_by_role("button", name="Register", exact=True).click()
    page.get_by_test_id("open-version").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("nets, version 1")
    expect(page.get_by_test_id("version-state")).to_contain_text("Ready")
    expect(page.get_by_text("Some files can run code when they are loaded")).to_be_visible()
    files = page.get_by_test_id("version-files").locator("tbody tr")
    expect(files).to_have_count(2)
    lineage = page.get_by_test_id("lineage")
    expect(lineage).to_contain_text("saves-a-model")
    expect(lineage.get_by_role("link", name=f"{newest['id']}.1")).to_be_visible()
    page.get_by_test_id("set-alias").click()
    page.get_by_test_id("alias-name").fill("production")
    page.get_by_test_id("alias-reason").fill("passed the tests")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_test_id("alias-production")).to_be_visible()

    expect(page.get_by_test_id("model-card").get_by_role("heading", name="Files")).to_be_visible()
    page.get_by_test_id("tab-uses").click()
    expect(page.get_by_test_id("version-uses")).to_contain_text("No job uses this version")

    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_test_id("tab-leaderboards").click()
    expect(page.get_by_test_id("empty")).to_contain_text("muster model evaluate")
    page.get_by_test_id("tab-models").click()
    rows = page.get_by_test_id("models").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("production → 1")
    page.get_by_test_id("models-search").fill("nothing like it")
    expect(page.get_by_test_id("empty")).to_contain_text("No model matches")
    page.get_by_test_id("models-search").blur()  # a field keeps its keys
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("textbox").fill("net")
    page.get_by_role("dialog").locator("[data-action]").filter(has_text="nets").click()
    expect(page).to_have_url(re.compile(r"/models/nets$"))
    page.get_by_test_id("tab-history").click()
    expect(page.get_by_test_id("alias-history")).to_contain_text("passed the tests")
    page.get_by_test_id("tab-promotions").click()
    expect(page.get_by_test_id("empty")).to_contain_text("muster model promote nets")

    # What an alias names is not deleted; the page says why.
    page.get_by_test_id("model-delete").click()
    page.get_by_test_id("typed").fill("nets")
    page.get_by_test_id("confirm").click()
    expect(page.get_by_role("alert")).to_contain_text("production")
