"""Learning curves whose ends are known, for `compare.py`: a trial is a curve that is drawn.

Read from the packages scan-bench and mf-prior-bench in a folder, and from the source archive of lcdb;
nothing is downloaded here.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))
import regret_problems

Array = NDArray[np.float64]
LENGTH = 27
"""Units of a full training where the source does not say it."""
OPENCLIP_LENGTHS = (6, 7, 8, 9, 10)
LCDB_DATASETS, LCDB_LEARNERS, LCDB_SPLITS, LCDB_ANCHORS = 10, 18, 20, 14
"""How many of the largest data sets, and what each must have at least."""
DRAWS = 600
"""Configurations of a synthetic problem."""


@dataclass(frozen=True)
class CurveSet:
    """Curves of one problem; less is better."""

    name: str
    true: Array
    """Per configuration and unit, the value without noise; may be infinite."""
    observed: Callable[[Array, Any, int], Array] = lambda true, rows, seed: true[rows]
    """(true values, rows, seed) → what is reported."""

    @property
    def length(self) -> int:
        return int(self.true.shape[1])

    def draw(self, count: int, seed: int) -> tuple[Array, Array]:
        """Return (reported values, regrets) of `count` trials: 0 is the best end, 1 the median one."""
        rows = np.random.default_rng(seed).integers(len(self.true), size=count)
        best = float(np.min(self.true[:, -1]))
        scale = float(np.median(self.true[:, -1])) - best
        regrets = (np.minimum(self.true[rows], 1e30) - best) / scale
        return self.observed(self.true, rows, seed), regrets


def curve_sets(folder: Path, lcdb: Path | None) -> Iterator[CurveSet]:
    """Yield all problems: recorded ones, MF-Hartmann, and power laws."""
    yield from openclip(folder)
    yield language_models(folder)
    if lcdb is not None:
        yield from sample_sizes(lcdb)
    for dims, quality in ((3, "moderate"), (6, "moderate"), (3, "terrible"), (6, "terrible")):
        yield hartmann(folder, dims, quality)
    yield from (power_law(crossing) for crossing in (0.0, 1.0))


def openclip(folder: Path) -> Iterator[CurveSet]:
    """Yield the trainings of each planned length, every epoch of them."""
    runs: dict[str, dict[int, float]] = defaultdict(dict)
    planned: dict[str, int] = {}
    with (folder / "scan_bench/vlm/data.csv").open() as file:
        for row in csv.DictReader(file):
            runs[row["config_id"]][int(float(row["epoch"]))] = _number(row["val_loss"])
            planned[row["config_id"]] = int(float(row["total_epochs"]))
    for length in OPENCLIP_LENGTHS:
        epochs = range(1, length + 1)
        of_length = [run for no, run in runs.items() if planned[no] == length]
        whole = [[run[e] for e in epochs] for run in of_length if all(e in run for e in epochs)]
        yield CurveSet(f"OpenCLIP, {length} epochs", np.array(whole))


def language_models(folder: Path) -> CurveSet:
    """Return language models at ninths of their training, between the evaluations around each."""
    runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with (folder / "scan_bench/llm/configs_intermediate_summary.csv").open() as file:
        for row in csv.DictReader(file):
            point = (_number(row["step_fraction"]), _number(row["valid_loss"]))
            if all(math.isfinite(value) for value in point):
                runs[row["config_id"]].append(point)
    ninths = np.arange(1, 10) / 9
    curves = [
        np.interp(ninths, *np.array(sorted(run)).T)
        for run in runs.values()
        if len(run) >= len(ninths) and max(run)[0] > 0.98
    ]
    return CurveSet("Language models", np.array(curves))


def sample_sizes(archive: Path) -> Iterator[CurveSet]:
    """Yield learners of lcdb whose training grows by samples: error rates on the largest data sets."""
    rows: dict[int, dict[tuple[str, int], list[tuple[float, float]]]] = {}
    with tarfile.open(archive) as tar:
        member = next(m for m in tar.getmembers() if m.name.endswith("database-accuracy.csv"))
        file = tar.extractfile(member)
        assert file is not None
        for row in csv.reader(io.TextIOWrapper(file)):
            if row[0] != "openmlid":
                place = (row[1], int(row[2]))
                errors = (1 - float(row[8]), 1 - float(row[9]))
                rows.setdefault(int(row[0]), {}).setdefault(place, []).append(errors)
    found = [s for no, of in rows.items() if (s := _of_dataset(no, of)) is not None]
    yield from (curves for _, curves in sorted(found, key=lambda s: -s[0])[:LCDB_DATASETS])


def _of_dataset(
    no: int, rows: dict[tuple[str, int], list[tuple[float, float]]]
) -> tuple[int, CurveSet] | None:
    whole = {place for place, splits in rows.items() if len(splits) >= LCDB_SPLITS}
    learners = sorted({learner for learner, _ in whole})
    anchors = [
        a
        for a in sorted({anchor for _, anchor in whole})
        if sum((learner, a) in whole for learner in learners) >= LCDB_LEARNERS
    ]
    learners = [name for name in learners if all((name, a) in whole for a in anchors)]
    if len(anchors) < LCDB_ANCHORS or len(learners) < LCDB_LEARNERS:
        return None
    sizes = np.log(np.maximum(anchors[-1] * np.arange(1, LENGTH + 1) / LENGTH, anchors[0]))

    def curves(value: Callable[[list[tuple[float, float]]], float]) -> Array:
        """Return the values at each size, between the anchors in the logarithm."""
        at = [[value(rows[name, a]) for a in anchors] for name in learners]
        return np.array([np.interp(sizes, np.log(anchors), values) for values in at])

    splits = [curves(lambda errors, s=s: errors[s][0]) for s in range(LCDB_SPLITS)]  # type: ignore[misc]
    return anchors[-1], CurveSet(
        f"LCDB, data set {no}",
        curves(lambda errors: float(np.mean([test for _, test in errors]))),
        lambda _true, drawn, seed: splits[seed % LCDB_SPLITS][drawn],
    )


def hartmann(folder: Path, dims: int, quality: str) -> CurveSet:
    """Return MF-Hartmann, which is linear in the logarithm of the units but for its noise."""
    problem = regret_problems.hartmann(folder, dims, quality)
    noise = regret_problems.QUALITIES[quality][1]
    place = np.log(np.arange(1, LENGTH + 1)) / math.log(LENGTH)
    rng = np.random.default_rng(0)
    points = [regret_problems.draw(problem.space, rng) for _ in range(DRAWS)]
    ends = np.array([[problem.true(p, 1), problem.true(p, problem.length)] for p in points])

    def observed(true: Array, drawn: Any, seed: int) -> Array:
        size = (len(drawn), LENGTH)
        error = np.abs(np.random.default_rng([seed, dims]).normal(size=size))
        return np.asarray(true[drawn] + error * noise * (1 - place))

    return CurveSet(problem.name, ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * place, observed)


def power_law(crossing: float) -> CurveSet:
    problem = regret_problems.power_law(crossing=crossing)
    rng = np.random.default_rng(0)
    points = [regret_problems.draw(problem.space, rng) for _ in range(DRAWS)]
    true = [[problem.true(p, 3 * unit) for unit in range(1, LENGTH + 1)] for p in points]

    def observed(true: Array, drawn: Any, seed: int) -> Array:
        noise = np.random.default_rng([seed, 1]).random((len(drawn), LENGTH)) - 0.5
        return np.asarray(true[drawn] + 0.04 * noise)

    return CurveSet(f"Synthetic {problem.name}", np.array(true), observed)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.inf
    return value if math.isfinite(value) else math.inf
