"""Take docs/images/scaling-fast.png and scaling-slow.png anew: one training over 1, 2 and 4 workers.

Four agents in network namespaces are joined by a fast and then by a slow link; Muster's own scaling
report of each is drawn by its dashboard, and the figure is what is saved. Needs root, tc and
Chromium; takes about ten minutes and wants a machine with nothing else to do.

    .venv/bin/python scripts/take_scaling_pictures.py [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from support.browser import find_browser
from support.stack import wait_for

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from shaped_cluster import ShapedCluster  # noqa: E402

LINKS_MBIT = {"fast": 10_000, "slow": 200}
PASSWORD = "only for these pictures"
DOCUMENT = {
    "name": "digits",
    "trainer": {
        "model": "mlp", "data": "digits", "width": 512, "depth": 4, "batch_size": 64, "steps": 30,
    },
    "checkpoints": {"every": None},
}  # fmt: skip

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "images")
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--slots", type=int, nargs="*", default=[1, 2, 4])
args = parser.parse_args()


def signed_in(chromium: Browser, url: str) -> BrowserContext:
    context = chromium.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-US", reduced_motion="reduce",
        color_scheme="light", device_scale_factor=2,
    )  # fmt: skip
    page = context.new_page()
    page.goto(url)
    form = page.get_by_test_id("setup-form")
    form.locator("input[name=username]").fill("ada")
    form.locator("input[name=new-password]").fill(PASSWORD)
    form.locator("input[name=again]").fill(PASSWORD)
    form.locator("button[type=submit]").click()
    expect(page.get_by_test_id("user-menu").first).to_be_visible()
    page.close()
    return context


def measure(cluster: ShapedCluster, link: str) -> int:
    """The id of the experiment that has the report."""
    cluster.set_mbit_per_s(LINKS_MBIT[link])
    document = {**DOCUMENT, "name": f"digits, {link} link", "resources": {"slots": max(args.slots)}}
    trial = cluster.train(json.dumps(document))
    experiment_id = int(cluster.client.get(f"/trials/{trial}")["experiment_id"])
    body = {"slots": args.slots, "repeats": args.repeats, "steps": args.steps}
    made = cluster.client.post(f"/experiments/{experiment_id}/scaling-reports", body)

    def is_over() -> bool:
        return bool(cluster.client.get(f"/scaling-reports/{made['id']}")["state"] != "running")

    wait_for(f"the report of the {link} link", is_over, timeout_s=1800)
    return experiment_id


def main() -> None:
    args.folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=30_000)
    chrome = find_browser()
    with ShapedCluster(num_nodes=max(args.slots)) as cluster, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=chrome, args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        )
        context = signed_in(chromium, cluster.sign_in_url)
        for link in LINKS_MBIT:
            experiment_id = measure(cluster, link)
            page = context.new_page()
            page.goto(f"{cluster.url}/experiments/{experiment_id}/scaling")
            figure = page.get_by_test_id("scaling-parts")
            expect(figure).to_be_visible()
            target = args.folder / f"scaling-{link}.png"
            figure.screenshot(path=target)
            print(f"{target}  {target.stat().st_size / 1000:.0f} kB", flush=True)
            page.close()
        chromium.close()


if __name__ == "__main__":
    main()
