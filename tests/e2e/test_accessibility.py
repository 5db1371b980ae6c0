"""axe finds nothing on any page, light or dark, wide or narrow."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError, expect

from support.console import no_errors
from support.pages import go, violations
from support.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.browser

PAGES = [
    "/",
    "/experiments",
    "/experiments?q=nothing-is-called-that",
    "/experiments/{search}",
    "/experiments/{search}?tab=trials",
    "/experiments/{search}?tab=search",
    "/experiments/{search}?tab=config",
    "/experiments/{search}?tab=events",
    "/experiments/{search}/scaling",
    "/experiments/{ended}/scaling",
    "/trials/{trial}",
    "/trials/{trial}?tab=performance",
    "/trials/{trial}?tab=goodput",
    "/trials/{trial}?tab=system",
    "/trials/{trial}?tab=ranks",
    "/trials/{trial}?tab=logs",
    "/trials/{trial}?tab=outputs",
    "/trials/{trial}?tab=checkpoints",
    "/trials/{trial}?tab=evaluation",
    "/trials/{trial}?tab=config",
    "/trials/{trial}?tab=details",
    "/trials/{trial}?tab=events",
    "/trials/{trial}/diagnosis",
    "/trials/{failed}",
    "/compare",
    "/compare?trials={trial},{failed}",
    "/compare?trials={trial},{failed}&tab=config&all=true",
    "/compare?trials={trial},{failed}&tab=summary",
    "/compare?trials={trial},{failed}&tab=performance",
    "/trials/{trial}?full=train%2Floss",
    "/logs",
    "/checkpoints",
    "/models",
    "/models?tab=leaderboards",
    "/models/{model}",
    "/models/{model}?tab=history",
    "/models/{model}/versions/1",
    "/models/{model}/versions/1?tab=uses",
    "/deployments",
    "/deployments/{model}",
    "/queue",
    "/goodput",
    "/reports",
    "/reports/{page}",
    "/schedules",
    "/sessions",
    "/nodes",
    "/nodes/{node}",
    "/nodes/add",
    "/preflights/{preflight}",
    "/submit",
    "/device",
    "/settings",
    "/settings?tab=notifications",
    "/settings?tab=tokens",
    "/settings?tab=secrets",
    "/settings?tab=password",
    "/settings?tab=projects&project=default",
    "/settings?tab=pools",
    "/settings?tab=users",
    "/settings?tab=groups&group=axe-team",
    "/settings?tab=join",
    "/settings?tab=retention",
    "/settings?tab=audit",
    "/settings?tab=audit&q=nothing-is-called-that",
    "/settings?tab=system",
    "/docs/contents",
    "/docs/contents?q=storage",
    "/docs/guides/agents",
    "/docs/nowhere",
    "/experiments/999999",
    "/nowhere",
]


@pytest.fixture(scope="module")
def ids(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Something to see on every page."""
    model, config = "axe-model", tmp_path_factory.mktemp("model") / "config.json"
    config.write_text('{"format": "muster-model", "format_version": 1}')
    with stack.client() as client:

        def submit(name: str, script: list[dict[str, Any]], **more: Any) -> Any:
            return client.post("/experiments", {"document": scripted(name, script, **more)})

        training = [{"group": "all", "members": [0]}, {"train": {"step_s": 0.01}}]
        judged = {"evaluate": "test", "metrics": {"test/accuracy": 0.8}} | {
            "classes": ["cat", "dog", "bird"],
            "confusion": [[8, 1, 1], [0, 6, 4], [0, 0, 10]],
        }
        search = submit(
            "searches",
            training,
            hyperparameters={"lr": {"log": [1e-4, 1e-1]}},
            search={
                "method": "asha", "metric": "val/loss", "goal": "min", "trials": 3,
                "max_length": {"epochs": 3}, "divisor": 3, "concurrent": 2,
            },
        )  # fmt: skip
        ended = submit("trains", [*training, judged])
        failed = submit("fails", [{"raise": "bad batch"}])
        waits = submit("waits", [{"sleep": 1}], slots=64)
        for experiment in (search, ended, failed):
            client.wait(experiment["id"], timeout_s=100)
        node = client.get("/nodes")["items"][0]
        names = [found["name"] for found in client.get("/nodes")["items"]]
        preflight = client.post("/preflights", {"nodes": names})
        report = client.post(
            f"/experiments/{ended['id']}/scaling-reports", {"slots": [1], "repeats": 1, "steps": 10}
        )
        client.post(f"/scaling-reports/{report['id']}:cancel")
        runs = {"experiments": [search["id"]]}
        blocks = [
            {"kind": "markdown", "text": "# Seeds\n\nLower is **better**."},
            {"kind": "table", "title": "Loss", "runs": runs, "columns": ["hparam.lr", "metric.last.train/loss"]},
            {"kind": "table", "runs": runs, "group_by": ["state"], "columns": ["metric.last.train/loss"]},
            {"kind": "chart", "title": "Loss", "runs": runs, "metrics": ["train/loss"]},
            {"kind": "media", "runs": runs, "names": ["none"]},
            {"kind": "media", "runs": {"labels": ["none"]}, "names": ["none"]},
        ]  # fmt: skip
        page = client.post("/reports", {"project": "default", "title": "axe", "blocks": blocks})
        client.post(f"/reports/{page['id']}/comments", {"text": "Why?"})
        client.call("PUT", "/groups/axe-team")
        client.call("PUT", f"/groups/axe-team/members/{client.get('/auth/me')['username']}")
        client.upload_model(model, config, notes="for axe")
        client.set_model_alias(model, "production", 1)
        client.deploy(f"{model}@production", slots=64, reason="it waits for slots")
        yield {
            "model": model,
            "preflight": preflight["id"],
            "search": search["id"],
            "ended": ended["id"],
            "trial": ended["only_trial_id"],
            "failed": failed["only_trial_id"],
            "node": node["id"],
            "waits": waits["id"],
            "page": page["id"],
        }
        client.delete(f"/reports/{page['id']}")
        client.stop(waits["id"])
        # Other files begin with a server that has no models.
        client.stop_deployment(model)
        wait_for("it is stopped", lambda: client.deployment(model)["state"] == "stopped")
        client.delete_deployment(model)
        client.delete_model(model, force=True)


IS_SETTLED = """(isSubmit) => {
  const heading = document.querySelector("main h1");
  if (!heading?.checkVisibility() || document.querySelector("main [role=status][aria-label]")) return false;
  if (isSubmit && !document.querySelector("[data-testid=preview]")?.dataset.valid) return false;
  return !document.querySelector("[aria-busy=true]");
}"""
POLL_MS = 50


def settle(page: Page) -> None:
    """Wait until the page is all there: what is still fetched is a skeleton, or pale.

    Before that there is neither heading nor skeleton. A preview may take its time: a node lists the layers of
    the model, and the server has others' plans to make."""
    is_submit = "/submit" in page.url
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(IS_SETTLED, arg=is_submit, polling=POLL_MS, timeout=60_000)
        return
    # It did not say what was not there.
    expect(page.locator("main h1").first).to_be_visible()
    expect(page.locator("main [role=status][aria-label]")).to_have_count(0)
    if is_submit:
        expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", re.compile("."))
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


COLOUR_RULES = ["color-contrast", "link-in-text-block"]


@pytest.fixture(scope="module", params=[1440, 390], ids=["wide", "phone"])
def window(
    request: pytest.FixtureRequest, signed_in: BrowserContext, browser: Browser
) -> Iterator[Page]:
    """English on a wide screen, Chinese on a phone."""
    context = browser.new_context(
        viewport={"width": request.param, "height": 900},
        locale="en-US" if request.param > 1000 else "zh-CN",
        storage_state=signed_in.storage_state(),
        reduced_motion="reduce",
    )
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def scheme_of(window: Page) -> str | None:
    return window.locator("html").get_attribute("data-mantine-color-scheme")


def show(window: Page, scheme: Literal["light", "dark"]) -> None:
    window.emulate_media(color_scheme=scheme)
    window.wait_for_selector(f"html[data-mantine-color-scheme={scheme}]")


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_and_nothing_sticks_out(
    path: str, window: Page, stack: Stack, ids: dict[str, Any]
) -> None:
    go(window, stack.url, path.format(**ids))
    expect(window.get_by_test_id("live-state")).to_have_attribute("data-state", "live")
    settle(window)
    assert "\n".join(violations(window)) == ""
    # The scheme changes colours alone. The next page begins with the one that this page ends with.
    other: Literal["light", "dark"] = "light" if scheme_of(window) == "dark" else "dark"
    show(window, other)
    assert "\n".join(violations(window, COLOUR_RULES)) == ""
    assert window.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


# Neighbours are of different pages, so that going to the next one closes a dialog.
DIALOGS = {
    "delete": ("/experiments/{search}", ["more-actions", "delete"]),
    "stop": ("/experiments/{waits}", ["stop"]),
    "bulk": ("/experiments", ["select-all", "bulk-actions", "bulk-delete"]),
    "drain": ("/nodes/{node}", ["node-draining"]),
    "columns": ("/experiments", ["columns"]),
    "continue": ("/experiments/{search}", ["continue"]),
    "conditions": ("/experiments", ["add-condition"]),
    "price": ("/settings?tab=pools", ["edit-pool"]),
    "views": ("/experiments", ["views"]),
    "budget": ("/experiments/{waits}?tab=details", ["edit-budget"]),
    "fork": ("/submit?from={search}&start=latest", []),
    "preflight": ("/nodes/{node}", ["preflight"]),
    "rule": ("/settings?tab=notifications", ["new-rule"]),
    "scaling": ("/experiments/{search}/scaling", ["scaling-start"]),
    "share": ("/settings?tab=projects&project=default", ["project-share", "add-quota"]),
    "provider": ("/settings?tab=pools", ["add-provider"]),
    "target": ("/settings?tab=notifications", ["new-target"]),
    "inbox": ("/nodes", ["inbox-bell"]),
}


@pytest.mark.parametrize("name", DIALOGS)
@pytest.mark.parametrize("window", [1440], ids=["wide"], indirect=True)
def test_axe_finds_nothing_in_a_dialog(
    name: str, window: Page, stack: Stack, ids: dict[str, Any]
) -> None:
    path, steps = DIALOGS[name]
    with no_errors(window):
        go(window, stack.url, path.format(**ids))
        if window.get_by_role("dialog").count():  # of the same page, or of the frame
            window.reload()
        show(window, "dark")
        settle(window)
        for step in steps:
            window.get_by_test_id(step).first.click()
        if steps:
            # It comes in by a short transition, during which colours are mixed, and a menu goes by one.
            expect(window.get_by_role("menu")).to_have_count(0)
            expect(window.get_by_role("dialog")).to_have_css("opacity", "1")
        expect(window.locator("[role=status][aria-label]")).to_have_count(0)  # no skeleton left
        assert "\n".join(violations(window)) == ""


@pytest.mark.parametrize("words", ["", "trains", "nothing-is-called-that"])
def test_axe_finds_nothing_in_the_command_menu(
    words: str, window: Page, stack: Stack, ids: dict[str, Any]
) -> None:
    go(window, stack.url, "/nodes")
    settle(window)
    expect(window.get_by_test_id("keyboard-ready")).to_have_count(1)
    window.keyboard.press("Control+k")
    menu = window.locator("[role=dialog][aria-modal=true]")  # not a popover of another test
    expect(menu.get_by_role("textbox")).to_be_focused()
    window.keyboard.type(words)
    if words == "nothing-is-called-that":
        expect(menu.locator("[data-action]")).to_have_count(0)
    else:
        expect(menu.locator("[data-action]").first).to_contain_text(words)
    expect(menu).to_have_css("opacity", "1")
    for scheme in ("light", "dark"):
        show(window, scheme)
        assert "\n".join(violations(window)) == "", scheme
    window.keyboard.press("Escape")
    expect(menu).to_have_count(0)
