"""Ray Tune's own loop on the objective of `search.py`, in an environment that has it.

    PYTHON-WITH-RAY bench/search_ray.py TRIALS RUNGS...

Prints JSON: trials, seconds of wall clock without starting Ray, and Ray's version.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import tempfile
import time

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler

WORKERS = 2


def main() -> None:
    trials, rungs = int(sys.argv[1]), [int(text) for text in sys.argv[2:]]

    def objective(config: dict[str, float]) -> None:
        value = random.Random(config["lr"]).random()
        for units in rungs:
            tune.report({"value": value, "units": units})

    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    with tempfile.TemporaryDirectory() as folder:
        scheduler = AsyncHyperBandScheduler(
            time_attr="units", max_t=rungs[-1], grace_period=rungs[0], reduction_factor=4
        )
        tuner = tune.Tuner(
            tune.with_resources(objective, {"cpu": 1}),
            param_space={"lr": tune.loguniform(1e-4, 1e-1), "width": tune.randint(1, 9)},
            tune_config=tune.TuneConfig(
                num_samples=trials,
                metric="value",
                mode="min",
                scheduler=scheduler,
                max_concurrent_trials=WORKERS,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        begun = time.perf_counter()
        found = tuner.fit()
        seconds = time.perf_counter() - begun
    assert len(found) == trials
    print(json.dumps({"trials": trials, "seconds": seconds, "version": ray.__version__}))


if __name__ == "__main__":
    main()
