"""How soon pages of the dashboard can be used, in a headless browser on a real server and database.

    python bench/dashboard.py [--only empty,table,metrics,charts,logs,search,scroll,entry] [--experiments N] [--points N]
                              [--lines N] [--trials N] [--repeat N] [--chrome PATH]

Each time is from the navigation to the moment the page shows what is named, seen by the browser in
a frame of its own: table, the first rows of N experiments that a click then selects, and the same
reached by a click on another page; empty, a page of the dashboard without data, which is the least that any can take
here; metrics, a trial with 2,000 metrics whose first chart is drawn and whose filter takes text; charts, 12 charts
of N points each, painted on one screen; logs, the last lines of a log of N lines; search, what a
screen shows of a search of N trials, and all its charts on one high screen. scroll moves through the experiments, the trials
of the search and the log by a screen in each frame, with more rows as they come, and says how long
the longest frame was. Code of the page is in the browser's cache, as it is for everybody who has
been there before; entry says how much that is. The data are put into the database beforehand and
are not part of a time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from browsing import add_user, chromium, sign_in
from playwright.sync_api import BrowserContext, Page
from search_rows import fill_search
from sqlalchemy import insert
from timing import of

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, ExperimentRow, TrialRow
from muster_server.services.logs import storage
from muster_server.services.metrics import compaction, ingest
from support.data import add_attempt, add_experiment, add_trial, metrics_record
from support.processes import ControlPlane, control_plane

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "server" / "muster_server" / "static"
NUM_METRICS = 2_000
NUM_CHARTS = 12
NUM_CURVES = 2_000
HEIGHTS_PX = {"charts": 2200, "all charts": 4400}
"""All their charts are on the screen at once; the other pages are as high as a laptop's."""
GOALS_MS = {
    "table": 300,
    "metrics": 1000,
    "charts": 1000,
    "logs": 500,
    "search": 1500,
    "all charts": 1500,
}


# ---------------------------------------------------------------- data


def fill_table(database: Database, num: int) -> str:
    """Experiments with a trial each, ten metrics and a hyperparameter; the page's address."""
    chance = np.random.default_rng(1)
    with database.transaction() as session:
        first = add_experiment(session, metric_name="val/loss")
        shared = {
            column.key: getattr(first, column.key)
            for column in ExperimentRow.__table__.columns
            if column.key not in ("id", "name", "labels", "state", "best_metric", "best_trial_id")
        }
        config = first.config
        base = first.id
    states = ["COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "CANCELED", "RUNNING", "QUEUED"]
    experiments, trials = [], []
    for no in range(1, num):
        loss = float(np.round(chance.lognormal(), 4))
        summary = {
            f"{group}/{name}": {
                "last": loss,
                "min": loss / 2,
                "max": 2 * loss,
                "count": 9,
                "step": 9,
            }
            for group in ("train", "val")
            for name in ("loss", "accuracy", "f1", "recall", "precision")
        }
        state = states[no % len(states)]
        experiments.append(
            shared
            | {
                "id": base + no,
                "name": f"resnet-{no % 97}-sweep-over-learning-rates-{no}",
                "labels": {"team": f"vision-{no % 7}", "phase": str(no % 3), "urgent": ""},
                "state": state,
                "best_metric": loss,
                "config": replace(config, name=f"e{no}"),
            }
        )
        trials.append(
            {
                "experiment_id": base + no,
                "no": 1,
                "hparams": {"lr": float(np.round(chance.random(), 5))},
                "seed": no,
                "state": state,
                "queued_at": clock.now(),
                "created_at": clock.now(),
                "summary": summary,
            }
        )
    for at in range(0, num, 1_000):
        with database.transaction() as session:
            session.execute(insert(ExperimentRow), experiments[at : at + 1_000])
            session.execute(insert(TrialRow), trials[at : at + 1_000])
    return "/experiments?cols=name%2Cstate%2Cbest%2Chparam.lr%2Cmetric.last.train%2Floss%2Cowner"


def _trial(database: Database) -> tuple[int, str]:
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        return trial.id, allocation.id


def _report(database: Database, allocation_id: str, seq: int, points: dict[str, list]) -> None:  # type: ignore[type-arg]
    with database.transaction() as session:
        ingest.ingest(
            session,
            allocation=session.get_one(AllocationRow, allocation_id),
            seq=seq,
            record=metrics_record(points),
            at=clock.now(),
        )


def fill_metrics(database: Database) -> str:
    """A trial with NUM_METRICS metrics of 50 points in 40 groups."""
    trial_id, allocation_id = _trial(database)
    for at in range(0, NUM_METRICS, 100):
        names = [f"group{no // 50}/metric_{no}" for no in range(at, at + 100)]
        points = {name: [(step, 1.0 / step) for step in range(1, 51)] for name in names}
        _report(database, allocation_id, at // 100 + 1, points)
    return f"/trials/{trial_id}"


def fill_charts(database: Database, num_points: int) -> str:
    """A trial with NUM_CHARTS metrics of num_points points each."""
    trial_id, allocation_id = _trial(database)
    chance = np.random.default_rng(1)
    size = 5_000
    for seq, at in enumerate(range(0, num_points, size), start=1):
        steps = range(at + 1, min(at + size, num_points) + 1)
        points = {
            f"layers/norm_{no}": list(
                zip(steps, chance.normal(no, 1, len(steps)).tolist(), strict=True)
            )
            for no in range(NUM_CHARTS)
        }
        _report(database, allocation_id, seq, points)
        if seq % 20 == 0:
            compaction.compact_trial(database, trial_id, clock.now())
    compaction.compact_trial(database, trial_id, clock.now())
    return f"/trials/{trial_id}"


def fill_logs(database: Database, num_lines: int) -> str:
    trial_id, allocation_id = _trial(database)
    text = "".join(
        f"step {no:>8} loss {1 / (no + 1):.4f} tokens/s 1234.5\n" for no in range(num_lines)
    )
    raw = text.encode()
    for at in range(0, len(raw), 65_536):
        with database.transaction() as session:
            storage.append(
                session,
                allocation=session.get_one(AllocationRow, allocation_id),
                local_rank=0,
                stream="stdout",
                offset=at,
                data=raw[at : at + 65_536],
                now=clock.now(),
            )
    return f"/trials/{trial_id}?tab=logs"


def search_page(database: Database, num: int) -> str:
    id_ = fill_search(database, num, min(num, NUM_CURVES))
    return f"/experiments/{id_}?tab=search"


# ---------------------------------------------------------------- scrolling

SETTLE_S = 70
SLOW_FRAME_MS = 50
SCROLLED = {
    # Part of the page, pixels by frame, what says how many rows there are.
    "table": ("[data-testid=experiments]", 600, "dataset.rows"),
    "trials": ("[data-testid=trials]", 600, "dataset.rows"),
    "logs": ("[data-testid=log]", -600, "dataset.numRows"),
}
SCROLL = """([part, px, rows, maxFrames]) => new Promise((done) => {
    const found = document.querySelector(part);
    const scrolls = (one) => one.scrollHeight > one.clientHeight + 1
        && /auto|scroll/.test(getComputedStyle(one).overflowY);
    let box = found;
    while (box && !scrolls(box)) box = box.parentElement;
    box ??= document.scrollingElement;
    const times = [];
    let last = null;
    let idle = 0;
    const frame = (now) => {
        if (last !== null) times.push(now - last);
        last = now;
        const before = box.scrollTop;
        box.scrollTop += px;
        idle = box.scrollTop === before ? idle + 1 : 0;
        // At the end of what is there more comes by itself, or when it is asked for.
        const more = document.querySelector("[data-testid=load-more]:not([data-loading])");
        if (idle > 0 && more) more.click();
        if (idle > 300 || times.length >= maxFrames) {
            const num = rows.split(".").reduce((at, key) => at?.[key], document.querySelector(part));
            done({ times, rows: Number(num) });
        } else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
})"""
MAX_FRAMES = 6_000


def scroll(context: BrowserContext, name: str, url: str) -> None:
    """Print the longest frame while a page is scrolled to its end, or for MAX_FRAMES frames."""
    part, pixels, rows = SCROLLED[name]
    page = context.new_page()
    page.goto(url)
    page.wait_for_function(READY[name], timeout=120_000)
    page.wait_for_load_state("networkidle")
    found = page.evaluate(SCROLL, [part, pixels, rows, MAX_FRAMES])
    page.close()
    times = found["times"]
    slow = sum(time > SLOW_FRAME_MS for time in times)
    print(
        f"scroll {name:8} {max(times):5.0f} ms (longest frame), {slow} of {len(times):,} over "
        f"{SLOW_FRAME_MS} ms, {found['rows']:,} rows, goal none over {SLOW_FRAME_MS} ms"
    )


# ---------------------------------------------------------------- pages

READY: dict[str, str] = {
    "empty": "() => /no-such-page/.test(document.querySelector('main')?.textContent ?? '')",
    # Rows that hold values, and a table that answers: a click has selected one.
    "table": """() => {
        const box = document.querySelector('[data-testid=experiments] tbody input[type=checkbox]');
        if (!box) return false;
        if (!box.checked) box.click();
        return document.querySelector('[data-testid=bulk-bar]') !== null;
    }""",
    "metrics": "() => document.querySelector('canvas[data-painted], .uplot canvas') !== null",
    "charts": """() => {
        const drawn = [...document.querySelectorAll('.uplot canvas')].filter((c) => c.width > 0);
        return drawn.length >= 12;
    }""",
    "search": """() => document.querySelectorAll('[data-testid=rung-view] circle').length > 0
        && document.querySelector('[data-testid=search-history-canvas]') !== null""",
    # Painted to the last line: what is drawn over several frames has its last one.
    "all charts": """() => document.querySelectorAll('[data-testid=rung-view] circle').length > 0
        && ['history', 'parallel', 'slice', 'contour', 'timeline'].every((name) =>
            document.querySelector(`[data-testid=search-${name}-canvas][data-painted]`))
        && document.querySelector('[data-testid=importance-canvas][data-painted]') !== null""",
    "trials": "() => document.querySelector('[data-testid=trials] tbody tr') !== null",
    "logs": "() => /step/.test(document.querySelector('[data-testid=log]')?.textContent ?? '')",
}


WATCH = """(() => {
    const look = () => {
        let done = false;
        try { done = eval(READY)(); } catch { /* the page is not there yet */ }
        if (done) requestAnimationFrame(() => { window.__readyAt = performance.now(); });
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""


def opened(context: BrowserContext, url: str, name: str) -> float:
    """Seconds from the navigation until the page is ready in a frame, and that frame is painted."""
    page = context.new_page()
    page.set_viewport_size({"width": 1440, "height": HEIGHTS_PX.get(name, 900)})
    page.add_init_script(WATCH.replace("READY", json.dumps(f"({READY[name]})")))
    page.goto(url, wait_until="commit")
    page.wait_for_function("window.__readyAt !== undefined", timeout=120_000)
    seconds = float(page.evaluate("window.__readyAt")) / 1e3
    page.close()
    return seconds


def clicked(context: BrowserContext, url: str, link: str, name: str) -> float:
    """Seconds from a click on a link of another page until the page is ready, and painted."""
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    watch = WATCH.replace("READY", json.dumps(f"({READY[name]})"))
    page.evaluate(
        "([link, watch]) => { window.__clickAt = performance.now();"
        " document.querySelector(link).click(); eval(watch); }",
        [link, watch],
    )
    page.wait_for_function("window.__readyAt !== undefined", timeout=120_000)
    seconds = float(page.evaluate("window.__readyAt - window.__clickAt")) / 1e3
    page.close()
    return seconds


def measure(context: BrowserContext, name: str, url: str, repeat: int) -> None:
    for _ in range(3):  # brings the code into the cache, and compiled code after the second use
        opened(context, url, name)
    say(name, name, [opened(context, url, name) for _ in range(repeat)])
    if name == "search":
        high = "all charts"
        say(high, high, [opened(context, url, high) for _ in range(repeat)])
    if name == "table":
        home = url[: url.index("/experiments")] + "/nodes"
        link = "nav a[href='/experiments']"
        within = [clicked(context, home, link, name) for _ in range(repeat)]
        say("clicked", name, within)


def say(label: str, name: str, seconds: list[float]) -> None:
    median, p95 = of(seconds)
    goal = f", goal {GOALS_MS[name]} ms" if name in GOALS_MS else ""
    print(f"{label:10} {median:7.0f} ms (median), {p95:.0f} ms (95th), n {len(seconds)}{goal}")


def entry() -> None:
    """What a first visit fetches before any page is drawn: all that the first answer names."""
    page = (STATIC / "index.html").read_text()
    names = re.findall(r'(?:src|href)="/([^"]+\.(?:js|css))"', page)
    size = sum(len(gzip.compress((STATIC / name).read_bytes())) for name in names)
    print(f"entry    {size / 1024:7.1f} KB gzip in {len(names)} files, goal 250 KB")


def browse(
    plane: ControlPlane, chrome: str | None, visit: Callable[[BrowserContext, str], None]
) -> None:
    add_user(plane.database)
    (url,) = plane.urls.values()
    with chromium(chrome) as context:
        sign_in(context, url)
        visit(context, url)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="empty,table,metrics,charts,logs,search,scroll,entry")
    arguments.add_argument("--experiments", type=int, default=10_000)
    arguments.add_argument("--points", type=int, default=1_000_000)
    arguments.add_argument("--lines", type=int, default=1_000_000)
    arguments.add_argument("--trials", type=int, default=10_000)
    arguments.add_argument("--repeat", type=int, default=10)
    arguments.add_argument("--chrome", help="path of Chromium")
    arguments.add_argument("--shots", type=Path, help="keep a picture of each page in this folder")
    given = arguments.parse_args()
    wanted = given.only.split(",")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{platform.machine()}, Python {platform.python_version()}, SQLite, {load}")
    if "entry" in wanted:
        entry()
    fillers: dict[str, Callable[[Database], str]] = {
        "empty": lambda _: "/no-such-page",
        "table": lambda database: fill_table(database, given.experiments),
        "metrics": fill_metrics,
        "charts": lambda database: fill_charts(database, given.points),
        "logs": lambda database: fill_logs(database, given.lines),
        "search": lambda database: search_page(database, given.trials),
    }
    with control_plane("sqlite", controllers=0) as plane:
        scrolled = {"table", "logs", "search"} if "scroll" in wanted else set()
        paths = {
            name: fill(plane.database)
            for name, fill in fillers.items()
            if name in wanted or name in scrolled
        }

        def visit(context: BrowserContext, url: str) -> None:
            # What was written just before a page opens is asked for twice.
            time.sleep(SETTLE_S)
            for name in [name for name in paths if name in wanted]:
                measure(context, name, url + paths[name], given.repeat)
                if given.shots:
                    keep(context.new_page(), url + paths[name], given.shots / f"{name}.png")
            if scrolled:
                scroll(context, "table", url + paths["table"])
                scroll(context, "trials", url + paths["search"].replace("=search", "=trials"))
                scroll(context, "logs", url + paths["logs"])

        browse(plane, given.chrome, visit)
    print(f"at the end: load {os.getloadavg()[0]:.1f}")


def keep(page: Page, url: str, path: Path) -> None:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    page.close()


if __name__ == "__main__":
    main()
