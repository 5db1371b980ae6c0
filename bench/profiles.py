"""Pages over the two loads that users of other dashboards have published as too much for them.

    python bench/profiles.py [--only runs,trials] [--experiments N] [--runs N] [--trials N] [--repeat N]
                             [--chrome PATH]

runs: N experiments of N runs each, every run with 1,500 metrics of 20 to 150 steps, 150
hyperparameters and 50 labels (G-Research/fasttrackml, issue 860, where it is 50 × 1,500 runs). trials:
one random search of N trials with 100 values each (microsoft/nni, issue 590: 6,000). The data are made
beforehand; times are from the navigation until the page shows what is named, as in dashboard.py.
"""

from __future__ import annotations

import argparse
import os
import platform
import time

import dashboard
import numpy as np
from browsing import add_user, chromium, sign_in
from search_rows import fill_search
from timing import of

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import ExperimentRow
from muster_server.services.metrics import compaction, ingest
from support.data import add_attempt, add_experiment, add_trial, metrics_record
from support.processes import control_plane

NUM_METRICS, NUM_PARAMS, NUM_LABELS = 1_500, 150, 50
STEPS_MIN, STEPS_MAX = 20, 150
VALUES_PER_TRIAL = 100
COMPARED = 10
WARM_UP = 3

dashboard.READY |= {
    "trials tab": """() => document.querySelectorAll('table tbody tr a[href^="/trials/"]').length >= 1""",
    "compare": """() => [...document.querySelectorAll('.uplot canvas')].filter((c) => c.width > 0).length >= 4""",
    "search tab": """() => ['history', 'parallel', 'slice', 'timeline'].every((name) =>
        document.querySelector(`[data-testid=search-${name}-canvas][data-painted]`))
        && document.querySelector('[data-testid=importance-canvas][data-painted]') !== null""",
}
dashboard.HEIGHTS_PX["search tab"] = dashboard.HEIGHTS_PX["search"]


def fill_runs(database: Database, num_experiments: int, num_runs: int) -> dict[str, str]:
    """The addresses of pages, by what they show."""
    chance = np.random.default_rng(1)
    names = [f"group{no // 50}/metric_{no}" for no in range(NUM_METRICS)]
    trials: list[int] = []
    num_values = 0
    for no in range(num_experiments):
        with database.transaction() as session:
            experiment = add_experiment(session, metric_name=names[0])
            experiment.name = f"resnet-{no}"
            experiment.labels = {f"tag-{at}": str(no % (at + 2)) for at in range(NUM_LABELS)}
            experiment_id = experiment.id
        for run in range(num_runs):
            steps = range(1, int(chance.integers(STEPS_MIN, STEPS_MAX + 1)) + 1)
            values = chance.normal(1, 0.1, (NUM_METRICS, len(steps))).tolist()
            record = metrics_record(
                {
                    name: list(zip(steps, some, strict=True))
                    for name, some in zip(names, values, strict=True)
                }
            )
            with database.transaction() as session:
                experiment = session.get_one(ExperimentRow, experiment_id)
                trial = add_trial(session, experiment, no=run + 1)
                trial.hparams = {f"param_{at}": chance.random() for at in range(NUM_PARAMS)}
                (allocation,) = add_attempt(session, trial)
                ingest.ingest(session, allocation=allocation, seq=1, record=record, at=clock.now())
                trials.append(trial.id)
            compaction.compact_trial(database, trials[-1], clock.now())
            num_values += NUM_METRICS * len(steps)
    print(f"runs: {len(trials)} runs, {num_values:,} values")
    columns = "name%2Cstate%2Cbest%2Cmetric.last.group0%2Fmetric_1%2Cowner"
    return {
        "table": f"/experiments?cols={columns}",
        "trials tab": f"/experiments/{experiment_id}?tab=trials",
        "metrics": f"/trials/{trials[-1]}",
        "compare": f"/compare?trials={'%2C'.join(map(str, trials[-COMPARED:]))}",
    }


def fill_trials(database: Database, num: int) -> dict[str, str]:
    id_ = fill_search(database, num, num, method="random", length=VALUES_PER_TRIAL)
    print(f"trials: {num:,} trials, {num * VALUES_PER_TRIAL:,} values")
    return {
        "search tab": f"/experiments/{id_}?tab=search",
        "trials tab": f"/experiments/{id_}?tab=trials",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="runs,trials")
    parser.add_argument("--experiments", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1, help="of each experiment")
    parser.add_argument("--trials", type=int, default=6_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--chrome", help="path of Chromium")
    given = parser.parse_args()
    if unknown := set(given.only.split(",")) - {"runs", "trials"}:
        parser.error(f"--only: {', '.join(sorted(unknown))}; there are runs and trials")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{platform.machine()}, Python {platform.python_version()}, SQLite, {load}")
    with control_plane("sqlite", controllers=0) as plane:
        pages: dict[tuple[str, str], str] = {}
        for load_name in given.only.split(","):
            start = time.perf_counter()
            made = (
                fill_runs(plane.database, given.experiments, given.runs)
                if load_name == "runs"
                else fill_trials(plane.database, given.trials)
            )
            print(f"  made in {time.perf_counter() - start:.0f} s")
            pages |= {(load_name, name): path for name, path in made.items()}
        add_user(plane.database)
        (url,) = plane.urls.values()
        with chromium(given.chrome) as context:
            sign_in(context, url)
            for (load_name, name), path in pages.items():
                seconds = [
                    dashboard.opened(context, url + path, name)
                    for _ in range(WARM_UP + given.repeat)
                ][WARM_UP:]
                median, p95 = of(seconds)
                print(
                    f"{load_name:6} {name:10} {median:6.0f} ms (median), {p95:.0f} ms (95th),"
                    f" n {len(seconds)}"
                )
    print(f"at the end: load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
