"""The worker of a job of `muster.Estimator`: `python -m muster.launch.estimator_job train.py`.

The script gets its hyperparameters as arguments (`--epochs 3`) and finds the variables of SageMaker's
training toolkit: SM_CHANNEL_TRAIN, SM_MODEL_DIR, SM_HPS and so on. Needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import muster

DEFINITIONS_VARIABLE = "ESTIMATOR_METRIC_DEFINITIONS"
"""JSON of the metrics that are read from what the script prints: [[name, pattern], …]."""
LINE_LIMIT = 10_000
"""Characters of a line in which metrics are looked for."""


def arguments_of(hparams: Mapping[str, Any]) -> list[str]:
    """Return hyperparameters as arguments: text as it is, lists and mappings as JSON."""
    words = []
    for name, value in hparams.items():
        words += [f"--{name}", json.dumps(value) if isinstance(value, dict | list) else str(value)]
    return words


def variables_of(
    hparams: Mapping[str, Any], environ: Mapping[str, str], *, num_nodes: int, num_cpus: int
) -> dict[str, str]:
    """Return the variables of SageMaker's training toolkit for a worker with this environment."""
    outputs = Path(environ.get("MUSTER_OUTPUT_DIR", "muster-outputs"))
    channels = {
        name.removeprefix("MUSTER_DATA_").lower(): place
        for name, place in environ.items()
        if name.startswith("MUSTER_DATA_")
    }
    devices = [d for d in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d]
    return {
        "SM_MODEL_DIR": str(outputs / "model"),
        "SM_OUTPUT_DIR": str(outputs),
        "SM_OUTPUT_DATA_DIR": str(outputs / "data"),
        "SM_CHANNELS": json.dumps(sorted(channels)),
        **{f"SM_CHANNEL_{name.upper()}": place for name, place in channels.items()},
        "SM_HPS": json.dumps(hparams),
        **{f"SM_HP_{name.upper()}": str(value) for name, value in hparams.items()},
        "SM_USER_ARGS": json.dumps(arguments_of(hparams)),
        "SM_NUM_GPUS": str(len(devices)),
        "SM_NUM_CPUS": str(num_cpus),
        "SM_HOSTS": json.dumps([f"algo-{i + 1}" for i in range(num_nodes)]),
        "SM_CURRENT_HOST": f"algo-{int(environ.get('MUSTER_NODE_RANK', '0')) + 1}",
    }


class MetricReader:
    """A text stream that reports values found in the lines written to it, and passes them on."""

    def __init__(self, inner: TextIO, definitions: Sequence[Sequence[str]]) -> None:
        self._inner = inner
        self._patterns = [(name, re.compile(pattern)) for name, pattern in definitions]
        self._steps = dict.fromkeys((name for name, _ in self._patterns), 0)
        self._line = ""

    def write(self, text: str) -> int:
        written = self._inner.write(text)
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._read(line[:LINE_LIMIT])
        self._line = self._line[:LINE_LIMIT]
        return written

    def _read(self, line: str) -> None:
        for name, pattern in self._patterns:
            found = pattern.search(line)
            with contextlib.suppress(ValueError, IndexError, TypeError):
                if found is not None:
                    value = float(found[1])
                    self._steps[name] += 1
                    muster.log({name: value}, step=self._steps[name])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def main() -> None:
    script, *words = sys.argv[1:]
    run = muster.init()
    resources = run.get_config().get("resources") or {}
    variables = variables_of(
        run.get_hparams(),
        os.environ,
        num_nodes=int(resources.get("nodes") or 1),
        num_cpus=os.cpu_count() or 1,
    )
    for name in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR"):
        Path(variables[name]).mkdir(parents=True, exist_ok=True)
    os.environ.update({k: v for k, v in variables.items() if k not in os.environ})
    definitions = json.loads(os.environ.get(DEFINITIONS_VARIABLE, "[]"))
    is_first = run.info.rank == 0 and os.environ.get("MUSTER_NODE_RANK", "0") == "0"
    if definitions and is_first:
        sys.stdout = MetricReader(sys.stdout, definitions)
    sys.argv = [script, *words, *arguments_of(run.get_hparams())]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
