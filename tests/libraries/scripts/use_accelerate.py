"""Accelerate's tracking, without a tracker and with one that hands the values on."""

import json
import sys
from pathlib import Path

from accelerate import Accelerator

trackers = ["tensorboard"]
if "own" in sys.argv:
    from muster.integrations.accelerate import MusterTracker

    trackers.append(MusterTracker())
accelerator = Accelerator(cpu=True, log_with=trackers, project_dir="board")
accelerator.init_trackers("run", config={"lr": 0.1})
expected: dict[str, dict[str, float]] = {"loss": {}, "accuracy": {}}
for step in range(0, 20, 4):
    values = {"loss": 1 / (step + 1), "accuracy": step / 20}
    accelerator.log(values, step=step)
    for name, value in values.items():
        expected[name][str(step)] = value
accelerator.end_training()
Path("expected.json").write_text(json.dumps(expected))
