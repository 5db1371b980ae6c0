"""How soon a logged value is a pixel, and what a page that is watched for long takes.

    python bench/live.py [--values N] [--minutes M] [--metrics K] [--chrome PATH] [--shot PATH]

A real `muster up`, an agent and a training that logs K metrics at random moments, on average twice
a second; headless Chromium with the trial's page open, signed in by cookie, so that the live
channel is the one that people have.

Value to pixel: from the time at which the training called log() until the frame after the one in
which a chart was drawn that reaches this step, both by the clock of this machine. Each logged step
counts, also those that are drawn together.

Memory, then, for M minutes while updates come: the tab's JavaScript heap after a garbage
collection, its DOM nodes and listeners, and the API server's own memory, every few seconds; the
slope is a straight line's through the second half, with the 95 % interval of its errors.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
from browsing import chromium, set_up
from playwright.sync_api import CDPSession, Page
from timing import of

from support.stack import Stack, wait_for

GOAL_P95_MS = 1_000
GOAL_HEAP_MB_PER_HOUR = 30
NUM_SAMPLES = 40
"""Of memory, over all minutes."""
TRAINING = """
import math, random, sys, time
import muster

num_metrics, seconds = int(sys.argv[1]), float(sys.argv[2])
muster.init()
chance, end, step = random.Random(1), time.monotonic() + seconds, 0
while time.monotonic() < end and not muster.should_stop():
    step += 1
    muster.log({f"train/m{no}": math.exp(-step / 500) + chance.random() / 50 for no in range(num_metrics)}, step=step)
    time.sleep(min(3.0, chance.expovariate(2.0)))
"""
WATCH = """() => {
    const chart = document.querySelector("[data-testid='chart-train/m0']");
    window.__drawn = [];
    const look = () => {
        const step = Number(chart.dataset.lastStep);
        // Two frames: the first is the one in which the canvas is drawn, the second follows its paint.
        requestAnimationFrame(() => requestAnimationFrame(() => window.__drawn.push([step, Date.now()])));
    };
    new MutationObserver(look).observe(chart, { attributes: true, attributeFilter: ["data-last-step"] });
}"""
PICTURE = """() => {
    const canvas = document.querySelector("[data-testid='chart-train/m0'] canvas");
    return canvas ? canvas.toDataURL() : "";
}"""


def submit(stack: Stack, num_metrics: int, seconds: float) -> int:
    """The trial's number."""
    folder = stack.home.parent / "code"
    folder.mkdir()
    (folder / "noisy.py").write_text(TRAINING)
    (folder / "muster.yaml").write_text(
        json.dumps(
            {
                "name": "live",
                "entrypoint": ["noisy.py", str(num_metrics), str(seconds)],
                "launcher": "direct",
                "code": {"path": "."},
            }
        )
    )
    done = stack.cli("submit", str(folder / "muster.yaml"), "--json")
    if done.returncode != 0:
        raise SystemExit(f"submit failed:\n{done.stdout}{done.stderr}")
    with stack.client() as client:
        (experiment,) = client.pages("/experiments")
        trials = wait_for(
            "a trial", lambda: list(client.pages(f"/experiments/{experiment['id']}/trials"))
        )
    return int(trials[0]["id"])


def logged(stack: Stack, trial_id: int, first: int, last: int) -> dict[int, int]:
    """Step → when the training logged it, ms since 1970; as stored, so only what is stored counts."""
    times: dict[int, int] = {}
    with stack.client() as client:
        for at in range(first, last + 1, 500):
            answer = client.get(
                f"/trials/{trial_id}/series",
                name="train/m0", from_step=at, to_step=min(last, at + 499), max_points=1000,
            )  # fmt: skip
            (series,) = answer["series"]
            times |= dict(zip(series["step"], map(int, series["time_ms"]), strict=True))
    return times


def delays(drawn: list[list[float]], times: dict[int, int]) -> list[float]:
    """Seconds from log() to the first frame that shows each step."""
    out = []
    for step, at in sorted(times.items()):
        shown = next((when for reached, when in drawn if reached >= step), None)
        if shown is not None:
            out.append((shown - at) / 1e3)
    return out


def to_pixel(stack: Stack, page: Page, trial_id: int, num: int) -> None:
    page.evaluate(WATCH)
    start = page.evaluate(
        "document.querySelector(\"[data-testid='chart-train/m0']\").dataset.lastStep"
    )
    first, before = int(start) + 1, page.evaluate(PICTURE)
    wait_for(
        "enough steps are drawn",
        lambda: (page.evaluate("window.__drawn.at(-1)?.[0] ?? 0") >= first + num) or None,
        timeout_s=30 + 2 * num,
    )
    drawn = page.evaluate("window.__drawn")
    if page.evaluate(PICTURE) == before:
        raise SystemExit("the chart says that it was drawn, but its picture is the same")
    took = delays(drawn, logged(stack, trial_id, first, int(drawn[-1][0])))
    median, p95 = of(took)
    print(
        f"value to pixel: median {median:.0f} ms, p95 {p95:.0f} ms, largest {1e3 * max(took):.0f} ms,"
        f" n {len(took)} steps in {len(drawn)} draws, goal p95 {GOAL_P95_MS} ms"
    )


def slope(at_s: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """(per minute, half of its 95 % interval) of a straight line; at least 3 values."""
    x, y = np.asarray(at_s) / 60, np.asarray(values, float)
    x = x - x.mean()
    rise = float((x * (y - y.mean())).sum() / (x * x).sum())
    rest = y - y.mean() - rise * x
    error = math.sqrt(float((rest * rest).sum()) / (len(x) - 2) / float((x * x).sum()))
    return rise, 1.96 * error


def tab_memory(devtools: CDPSession) -> dict[str, float]:
    for _ in range(2):  # what finalisers let go goes with the second
        devtools.send("HeapProfiler.collectGarbage")
    heap = devtools.send("Runtime.getHeapUsage")
    counted = devtools.send("Memory.getDOMCounters")
    return {
        "tab's heap, MB": heap["usedSize"] / 1e6,
        "DOM nodes": counted["nodes"],
        "DOM listeners": counted["jsEventListeners"],
    }


def memory(stack: Stack, page: Page, minutes: float) -> None:
    devtools = page.context.new_cdp_session(page)
    server = psutil.Process(stack.part_pid("server"))
    samples: list[tuple[float, dict[str, float]]] = []
    start = time.monotonic()
    for no in range(NUM_SAMPLES + 1):
        due = start + no * minutes * 60 / NUM_SAMPLES
        page.wait_for_timeout(max(0.0, due - time.monotonic()) * 1e3)
        own = {"API server's own memory, MB": server.memory_full_info().uss / 1e6}
        samples.append((time.monotonic() - start, tab_memory(devtools) | own))
    half = samples[len(samples) // 2 :]
    print(
        f"memory while updates come, {minutes:g} min, {len(samples)} samples, {len(half)} in the second half:"
    )
    for name in samples[0][1]:
        rise, error = slope([at for at, _ in half], [found[name] for _, found in half])
        grows = "stable" if abs(rise) <= error else ("growing" if rise > 0 else "falling")
        first, last = samples[0][1][name], samples[-1][1][name]
        print(
            f"  {name:28} {first:9.2f} at the beginning, {last:9.2f} at the end,"
            f" {rise:+.3f} ± {error:.3f} a minute in the second half: {grows}"
        )
    print(f"  goal: the heap grows by at most {GOAL_HEAP_MB_PER_HOUR} MB in an hour")


def watched(stack: Stack, given: argparse.Namespace) -> None:
    seconds = 180 + 2 * given.values + 60 * given.minutes
    with chromium(given.chrome) as context:
        set_up(context, stack.sign_in_url)
        trial_id = submit(stack, given.metrics, seconds)
        page = context.new_page()
        page.goto(f"{stack.url}/trials/{trial_id}")
        page.locator("[data-testid='chart-train/m0'] canvas").first.wait_for(timeout=120_000)
        state = page.get_by_test_id("live-state").inner_text()
        if not re.search("live", state, re.I):
            raise SystemExit(f"the page has no live channel: it says {state!r}")
        page.wait_for_timeout(5_000)  # the page's own start is another figure
        to_pixel(stack, page, trial_id, given.values)
        if given.minutes:
            memory(stack, page, given.minutes)
            print("and after that:")
            to_pixel(stack, page, trial_id, min(given.values, 30))
        if given.shot:
            page.screenshot(path=given.shot)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--values", type=int, default=100, help="logged steps, at least 30")
    arguments.add_argument("--minutes", type=float, default=5, help="of watching memory; 0: none")
    arguments.add_argument("--metrics", type=int, default=12, help="logged in each step, 1 to 100")
    arguments.add_argument("--chrome", help="path of Chromium")
    arguments.add_argument("--shot", type=Path, help="keep a picture of the page here")
    given = arguments.parse_args()
    if given.values < 30 or given.minutes < 0 or not 1 <= given.metrics <= 100:
        arguments.error("--values from 30, --minutes from 0, --metrics 1 to 100")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{platform.machine()}, Python {platform.python_version()}, SQLite, {load}")
    with TemporaryDirectory(prefix="muster-live-", ignore_cleanup_errors=True) as folder:
        stack = Stack(Path(folder) / "home", agents=1, slots=1)
        try:
            stack.start()
            watched(stack, given)
        finally:
            stack.close()
    print(f"at the end: load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
