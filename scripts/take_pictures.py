"""Take the pictures in docs/images anew: a real `muster up --demo`, seen by a headless Chromium.

Takes about five minutes and two free cores. Look at each picture before you commit it.

    .venv/bin/python scripts/take_pictures.py [FOLDER]
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from muster.client import Client
from support.browser import find_browser
from support.stack import Stack, wait_for

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images"
WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
PASSWORD = "only for these pictures"
DEMO_TIMEOUT_S = 900.0
PIPELINE = {
    "name": "gpt-pipeline",
    "trainer": {
        "model": "gpt", "data": "shakespeare", "batch_size": 4, "epochs": 1000,
        "width": 64, "depth": 4, "heads": 4, "context": 32,
    },
    "resources": {"slots": 2},
    "strategy": {"kind": "pp", "schedule": "1f1b", "accumulate": 3},
}  # fmt: skip
WAITING = """\
name: nightly-evaluation
entrypoint: [-m, support.nodes.scripted, '[{"log": "evaluated"}]']
launcher: direct
resources: {slots: 4}
"""
Scheme = Literal["light", "dark"]


class Studio:
    """A stack, and a browser that is signed in to it with a wide and a narrow window."""

    def __init__(self, stack: Stack, chromium: Browser, client: Client, folder: Path) -> None:
        self.stack, self.client, self.folder = stack, client, folder
        self.wide = chromium.new_context(viewport=WIDE, locale="en-US", reduced_motion="reduce")
        self._sign_in(self.wide)
        self.narrow = chromium.new_context(
            viewport=NARROW,
            device_scale_factor=2,
            locale="en-US",
            reduced_motion="reduce",
            storage_state=self.wide.storage_state(),
        )

    def _sign_in(self, context: BrowserContext) -> None:
        page = context.new_page()
        page.goto(self.stack.sign_in_url)
        form = page.get_by_test_id("setup-form")
        form.locator("input[name=username]").fill("ada")
        form.locator("input[name=new-password]").fill(PASSWORD)
        form.locator("input[name=again]").fill(PASSWORD)
        form.locator("button[type=submit]").click()
        expect(page.get_by_test_id("user-menu").first).to_be_visible()
        page.close()

    def take(
        self,
        name: str,
        path: str,
        ready: Callable[[Page], None],
        *,
        schemes: tuple[Scheme, ...],
        height: int = 900,
        narrow: bool = False,
        language: str = "en",
        is_ours: bool = True,
    ) -> None:
        """One file for each scheme, as soon as `ready` is satisfied with the page.

        is_ours: a page of the dashboard, which says whether it is live.
        """
        for scheme in schemes:
            page = (self.narrow if narrow else self.wide).new_page()
            page.emulate_media(color_scheme=scheme)
            page.add_init_script(f"localStorage.setItem('muster.language', '{language}')")
            if not narrow:
                page.set_viewport_size({"width": WIDE["width"], "height": height})
            page.goto(self.stack.url + path)
            if is_ours:
                state = page.get_by_test_id("live-state").first
                expect(state).to_have_attribute("data-state", "live")
            ready(page)
            target = self.folder / f"{name}-{scheme}.png"
            page.screenshot(path=target)
            print(f"{target}  {target.stat().st_size / 1000:.0f} kB", flush=True)
            page.close()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=30_000)
    with demo() as stack, browser() as chromium, stack.client() as client:
        studio = Studio(stack, chromium, client, folder)
        take_live(studio)
        wait_for("the demo has ended", lambda: have_ended(client), DEMO_TIMEOUT_S)
        take_ended(studio)
        take_pipeline(studio)


def take_live(studio: Studio) -> None:
    """What is worth seeing while it moves; the trainings do not wait for us."""
    client = studio.client
    ddp = experiment(client, "digits-ddp")
    trial = wait_for("the classifier has a trial", lambda: first_trial(client, ddp))
    path = f"/trials/{trial}"
    wait_for("it trains", lambda: client.get(path)["step"] > 200, DEMO_TIMEOUT_S)
    studio.take("overview", "/", is_running, schemes=("dark", "light"), height=620)
    studio.take("trial", path, chart("train/loss"), schemes=("dark", "light"))
    studio.take("overview-phone", "/", is_running, schemes=("dark",), narrow=True)
    studio.take("trial-phone", path, chart("train/loss"), schemes=("light",), narrow=True)
    client.submit(WAITING)
    studio.take("queue", "/queue", shown("pending-reason"), schemes=("light",), height=560)
    studio.take("nodes", "/nodes", shown("nodes"), schemes=("dark",), height=560)
    first = next(iter(client.pages("/nodes")))["id"]
    studio.take("node", f"/nodes/{first}", shown("slots"), schemes=("light",))


def take_ended(studio: Studio) -> None:
    client = studio.client
    asha = f"/experiments/{experiment(client, 'digits-asha')}"
    ddp = f"/trials/{first_trial(client, experiment(client, 'digits-ddp'))}"
    studio.take(
        "performance", f"{ddp}?tab=performance", chart("step-breakdown"), schemes=("light",)
    )
    studio.take("logs", f"{ddp}?tab=logs", shown("log-line"), schemes=("dark",), height=640)
    studio.take("search", f"{asha}?tab=search", shown("rung-view"), schemes=("light",))
    for part in ("parallel", "contour", "timeline"):
        here = at(f"search-{part}")
        studio.take(f"search-{part}", f"{asha}?tab=search", here, schemes=("dark",), height=620)
    studio.take(
        "search-phone", f"{asha}?tab=search", shown("rung-view"), schemes=("dark",), narrow=True
    )
    studio.take("experiments", "/experiments", shown("experiments"), schemes=("light",), height=560)
    studio.take(
        "checkpoints", "/checkpoints", shown("all-checkpoints"), schemes=("light",), height=640
    )
    studio.take("logs-phone", f"{ddp}?tab=logs", shown("log-line"), schemes=("light",), narrow=True)
    studio.take("config", f"{ddp}?tab=config", nothing, schemes=("dark",), height=640)
    trials = client.trials(experiment(client, "digits-asha"), limit=3)
    several = ",".join(str(trial["id"]) for trial in trials)
    studio.take("compare", f"/compare?trials={several}", chart("train/loss"), schemes=("light",))
    studio.take("bulk", "/experiments", is_asked_about, schemes=("dark",))
    studio.take("submit", "/submit?template=digits-asha", is_previewed, schemes=("dark",))
    document = ROOT / "examples" / "sdk-script" / "experiment.yaml"
    done = studio.stack.cli("submit", str(document), "--follow")
    assert done.returncode == 0, done.stderr
    two = f"/trials/{first_trial(client, experiment(client, 'sdk-script'))}"
    studio.take("ranks", f"{two}?tab=ranks", shown("topology"), schemes=("dark",), height=860)
    # Needs a font with Chinese characters (Debian: fonts-noto-cjk).
    studio.take("overview-zh", "/", slots, schemes=("light",), height=620, language="zh-CN")


def take_pipeline(studio: Studio) -> None:
    """The schedule of a pipeline, and a trace of its steps."""
    client = studio.client
    made = client.submit(json.dumps(PIPELINE))["id"]
    trial = wait_for("the pipeline has a trial", lambda: first_trial(client, made))
    wait_for("it trains", lambda: client.get(f"/trials/{trial}")["step"] > 60, DEMO_TIMEOUT_S)
    page = f"/trials/{trial}?tab=performance"
    studio.take("pipeline", page, at("pipeline-schedule"), schemes=("light",), height=620)
    client.post(f"/trials/{trial}/profiles", {"ranks": [0], "steps": 3})
    traced = f"/trials/{trial}/profiles"
    wait_for("a trace", lambda: client.get(traced)["items"][0]["ranks"][0]["state"] == "ready")
    trace = f"/api/v1{traced}/1/ranks/0/trace"
    address = f"/viewer/open.html?trace={trace}&title=gpt-pipeline"
    studio.take("trace", address, is_drawn, schemes=("dark",), height=560, is_ours=False)
    client.stop(made)


# ---------------------------------------------------------------- helpers


@contextmanager
def demo() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="muster-pictures-") as folder:
        stack = Stack(Path(folder) / "home")
        stack.command.append("--demo")
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


@contextmanager
def browser() -> Iterator[Browser]:
    path = find_browser()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        )
        yield chromium
        chromium.close()


def is_running(page: Page) -> None:
    expect(page.get_by_test_id("running")).to_contain_text("digits-ddp")
    slots(page)


def slots(page: Page) -> None:
    expect(page.get_by_test_id("slot-strip").first).to_be_visible()


def is_previewed(page: Page) -> None:
    expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true")
    expect(page.get_by_test_id("submit-editor")).to_contain_text("asha")


def is_asked_about(page: Page) -> None:
    page.get_by_test_id("select-all").check()
    page.get_by_test_id("bulk-actions").click()
    page.get_by_test_id("bulk-delete").click()
    expect(page.get_by_test_id("freed")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_css("opacity", "1")


def chart(name: str) -> Callable[[Page], None]:
    def is_drawn(page: Page) -> None:
        canvas = page.get_by_test_id(f"chart-{name}").locator("canvas").first
        expect(canvas).to_be_visible()
        page.wait_for_timeout(1500)  # the other charts of the page follow

    return is_drawn


def shown(test_id: str) -> Callable[[Page], None]:
    def is_shown(page: Page) -> None:
        expect(page.get_by_test_id(test_id).first).to_be_visible()
        page.wait_for_timeout(1500)

    return is_shown


def at(test_id: str) -> Callable[[Page], None]:
    """With this part of the page in view."""

    def is_there(page: Page) -> None:
        part = page.get_by_test_id(test_id).first
        expect(part).to_be_visible()
        part.evaluate("element => element.scrollIntoView({block: 'center'})")
        page.wait_for_timeout(1500)

    return is_there


def is_drawn(page: Page) -> None:
    expect(page).to_have_title(re.compile("speedscope"))
    expect(page.locator("canvas").first).to_be_visible()
    page.wait_for_timeout(1500)


def nothing(page: Page) -> None:
    page.wait_for_timeout(1500)


def experiment(client: Client, name: str) -> int:
    def found() -> int | None:
        return next((int(e["id"]) for e in client.pages("/experiments") if e["name"] == name), None)

    return wait_for(f"{name} is submitted", found)


def first_trial(client: Client, experiment_id: int) -> int | None:
    trials: list[dict[str, Any]] = client.trials(experiment_id, limit=1)
    return int(trials[0]["id"]) if trials else None


def have_ended(client: Client) -> bool:
    return all(e["state"] == "COMPLETED" for e in client.pages("/experiments"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
