"""Take the pictures in docs/images anew: a real `muster up --demo`, seen by a headless Chromium.

Takes about five minutes and two free cores. Look at each picture before you commit it.

    .venv/bin/python scripts/take_pictures.py [FOLDER]
"""

from __future__ import annotations

import os
import shutil
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
from muster.testing.stack import Stack, wait_for

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images"
WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
PASSWORD = "only for these pictures"
DEMO_TIMEOUT_S = 900.0
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
    ) -> None:
        """One file for each scheme, as soon as `ready` is satisfied with the page."""
        for scheme in schemes:
            page = (self.narrow if narrow else self.wide).new_page()
            page.emulate_media(color_scheme=scheme)
            page.add_init_script(f"localStorage.setItem('muster.language', '{language}')")
            if not narrow:
                page.set_viewport_size({"width": WIDE["width"], "height": height})
            page.goto(self.stack.url + path)
            expect(page.get_by_test_id("live-state").first).to_have_attribute("data-state", "live")
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


def take_ended(studio: Studio) -> None:
    client = studio.client
    asha = f"/experiments/{experiment(client, 'digits-asha')}"
    ddp = f"/trials/{first_trial(client, experiment(client, 'digits-ddp'))}"
    studio.take(
        "performance", f"{ddp}?tab=performance", chart("step-breakdown"), schemes=("light",)
    )
    studio.take("logs", f"{ddp}?tab=logs", shown("log-line"), schemes=("dark",), height=640)
    studio.take("search", f"{asha}?tab=search", shown("rung-view"), schemes=("light",))
    trials = client.trials(experiment(client, "digits-asha"), limit=3)
    several = ",".join(str(trial["id"]) for trial in trials)
    studio.take("compare", f"/compare?trials={several}", chart("train/loss"), schemes=("light",))
    studio.take("bulk", "/experiments", is_asked_about, schemes=("dark",))
    studio.take("submit", "/submit?template=asha", is_previewed, schemes=("dark",))
    document = ROOT / "examples" / "sdk-script" / "experiment.yaml"
    done = studio.stack.cli("submit", str(document), "--follow")
    assert done.returncode == 0, done.stderr
    two = f"/trials/{first_trial(client, experiment(client, 'sdk-script'))}"
    studio.take("ranks", f"{two}?tab=ranks", shown("topology"), schemes=("dark",), height=860)
    # Needs a font with Chinese characters (Debian: fonts-noto-cjk).
    studio.take("overview-zh", "/", slots, schemes=("light",), height=620, language="zh-CN")


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
    path = os.environ.get("CHROME") or shutil.which("chromium") or shutil.which("google-chrome")
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
