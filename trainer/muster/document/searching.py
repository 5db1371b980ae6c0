"""How trials are chosen, and what they start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from .common import (
    Bounds,
    Id,
    Length,
    Positive,
    TrialAddress,
)

MAX_TRIALS = 100_000

Method = Literal["single", "grid", "random", "asha", "hyperband", "median", "pbt"]
Goal = Literal["min", "max"]
Unit = Literal["steps", "epochs", "samples", "seconds"]
"""What a trial's length is counted in: the time metric of the search."""
UNITS: tuple[Unit, ...] = get_args(Unit)
SamplerName = Literal["random", "sobol", "halton", "tpe", "cmaes", "gp", "nsga2", "external"]
"""Source of the points of a search; with "external", every point is enqueued from outside."""


@dataclass(frozen=True, kw_only=True)
class SearchLength(Length):
    """A training length of a search: steps, epochs, samples or seconds, one of the four."""

    samples: Positive | None = None
    """Training samples of all slots together. The built-in trainer counts them; a script of yours
    logs `progress/samples` with its metric."""
    seconds: Positive | None = None
    """Seconds of training, start-up and waiting at a rung left out. The built-in trainer counts them;
    a script of yours logs `progress/seconds` with its metric."""

    @property
    def unit(self) -> Unit | None:
        """What it is counted in; None where nothing is said."""
        return next((unit for unit in UNITS if getattr(self, unit) is not None), None)

    @property
    def units(self) -> int | None:
        """How long, in whatever it is counted; None where nothing is said."""
        return self.steps or self.epochs or self.samples or self.seconds


@dataclass(frozen=True, kw_only=True)
class FromSection:
    """A checkpoint of another experiment that every trial starts from: `checkpoint`, `trial` or
    `experiment`, one of the three."""

    checkpoint: Id | None = None
    """Id of a checkpoint."""
    trial: TrialAddress | None = None
    """A trial (`36.2`, or `36` for the only one of experiment 36); `pick` says which of its checkpoints."""
    experiment: Id | None = None
    """Id of an experiment: of its only trial, or of its best one."""
    pick: Literal["latest", "best"] = "latest"
    """Which of a trial's checkpoints to load: the newest, or the best by the search metric."""
    load: Literal["all", "weights"] = "all"
    """`all`: go on from there, step count and optimizer included; code finds it as
    `muster.resume_folder()`. `weights`: begin at step 0 with the model's weights alone, which code
    finds as `muster.weights_folder()`."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """One of several metrics by which trials are compared."""

    metric: Annotated[str, Bounds(min_length=1, max_length=200)]
    """Reported metric; a trial's last value of it counts."""
    goal: Goal
    """Whether less (`min`) or more (`max`) is better."""


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """What earlier searches have found."""

    experiments: Annotated[
        tuple[Annotated[int, Bounds(ge=1, lt=2**31)], ...], Bounds(min_length=1, max_length=10)
    ]
    """Their numbers. Trials count that ran to their end and have a finite value of this search's
    metric, and whose hyperparameters are all there and within this space; others are left out."""
    top: Annotated[int, Bounds(ge=0, le=100)] = 5
    """Number of their best points that are tried first."""
    history: bool = True
    """Whether a sampler that learns uses all of them."""


@dataclass(frozen=True, kw_only=True)
class SearchSection:
    """How trials are chosen from `hyperparameters`."""

    method: Method = "single"
    """`single`: one trial. `grid`: every combination once. `random`: all to their end. `asha`:
    trials that are behind when they reach a rung are stopped, or wait there (`variant`).
    `hyperband`: the same in several brackets, in which everybody waits for everybody. `median`:
    trials worse than the median of the others are stopped. `pbt`: a population of which the worst
    are replaced by clones of the best."""
    sampler: SamplerName = "random"
    """Where the points come from, whatever the method (but `single` and `grid`). `random`:
    independent draws. `sobol`, `halton`: sequences that fill the space evenly. `tpe`, `cmaes`,
    `gp`: learn from the trials so far, and need a metric; `gp`, a Gaussian process, also needs torch
    on the server. `nsga2` breeds from the best, for several `objectives`. `external`: a program of
    yours enqueues every point, `trials` of them at most, and says when there are no more."""
    runner: Literal["cluster", "external"] = "cluster"
    """Who runs the trials. `external`: a program of yours asks for them, trains them wherever it
    likes and tells their results; no slots are used, and there is no `entrypoint` and no `trainer`."""
    tell_within_s: Annotated[float, Bounds(ge=1, le=2_592_000)] = 86_400.0
    """`runner: external`: a trial of which nothing was told for so long counts as failed when the
    next one is asked for."""
    metric: Annotated[str, Bounds(min_length=1, max_length=200)] | None = None
    """Reported metric by which trials are compared (`val/loss`). Needed by every method that stops
    trials and every sampler that learns."""
    goal: Goal | None = None
    """Whether less (`min`) or more (`max`) of the metric is better. Needed with `metric`."""
    objectives: Annotated[tuple[Objective, ...], Bounds(min_length=2, max_length=4)] | None = None
    """Two to four metrics to compare trials by, instead of `metric` and `goal`: the first of them is
    shown as the best. With `random` and `grid`, which train all trials to their end."""
    trials: Annotated[int, Bounds(ge=1, le=MAX_TRIALS)] | None = None
    """Trials to create. Needed by `random`, `asha` and `median`; a grid's number follows from the
    space, that of `hyperband` from `max_length` and `divisor`, and that of `pbt` from `population`."""
    max_length: SearchLength | None = None
    """Full training length of a trial, and what its rungs are counted in; one that goes on past it is stopped. Needed by `asha`,
    `hyperband`, `median` and `pbt`."""
    variant: Literal["stopping", "promotion"] = "stopping"
    """`asha`: `stopping` decides at once and stops for good; `promotion` pauses a trial at its rung
    with a checkpoint, and lets it go on when it is among the best."""
    brackets: Literal["aggressive", "standard", "conservative"] = "aggressive"
    """`asha`: `aggressive` judges every trial from the lowest rung on; `standard` and `conservative`
    share the trials among brackets that begin on higher ones."""
    divisor: Annotated[int, Bounds(ge=2, le=64)] = 4
    """`asha`, `hyperband`: one in this many trials goes on past a rung."""
    rungs: Annotated[int, Bounds(ge=1, le=16)] = 5
    """`asha`: rungs at most; fewer when `max_length` or `trials` leave no room for them."""
    concurrent: Annotated[int, Bounds(ge=1, le=10_000)] | None = None
    """Trials that may run or wait in the queue at once; those paused at a rung do not count. Default:
    as many as fit into the slots that are free or its own, and one more, up to 256; with `runner:
    external` 16."""
    interval: SearchLength | Positive | None = None
    """`median`, `pbt`: how often trials are compared: `{epochs: 2}`, or a number in the unit of
    `max_length`. Default: a tenth of it."""
    population: Annotated[int, Bounds(ge=2, le=MAX_TRIALS)] | None = None
    """`pbt`: trials that train at the same time. Needed by it."""
    quantile: Annotated[float, Bounds(gt=0, le=0.5)] = 0.25
    """`pbt`: the share of the population that is replaced whenever it is compared, and the share
    whose clones take their place. Rounded up."""
    resample: Annotated[float, Bounds(ge=0, le=1)] = 0.25
    """`pbt`: probability that a clone's hyperparameter is drawn anew. Otherwise it is perturbed."""
    factors: Annotated[
        tuple[Annotated[float, Bounds(gt=0, le=1_000)], ...], Bounds(min_length=1, max_length=10)
    ] = (0.8, 1.2)
    """`pbt`: a number of a clone is its parent's times one of these, within the bounds."""
    explore: (
        Annotated[
            tuple[Annotated[str, Bounds(min_length=1, max_length=500)], ...], Bounds(min_length=1)
        ]
        | None
    ) = None
    """`pbt`: the hyperparameters that clones change; the others are those of the parent. Default: all
    that are searched, without those that a checkpoint cannot follow: of the built-in trainer they are
    known (`width`, `batch_size`, `optimizer`), and of your own code those with `structural: true`."""
    constraints: Annotated[
        tuple[Annotated[str, Bounds(min_length=1, max_length=500)], ...], Bounds(max_length=50)
    ] = ()
    """Conditions every drawn point fulfils: `batch_size * accumulate <= 4096`."""
    warm_start: WarmStart | None = None
    """Begin with what earlier experiments have found. With `random`, `asha` and `median`."""
    unit_s: Annotated[float, Bounds(gt=0, le=10_000_000)] | None = None
    """Seconds that a trial takes for one unit of `max_length`, for the preview of what a search
    costs. Default: as measured by the latest experiment of the same name in the project."""
    target: float | None = None
    """The search ends when a trial reports this value of the metric or a better one."""
    patience: Annotated[int, Bounds(ge=1, le=MAX_TRIALS)] | None = None
    """The search ends when this many trials in a row have ended without a better value."""
    max_failures: Annotated[int, Bounds(ge=1, le=MAX_TRIALS)] | None = None
    """The search ends when this many trials in a row have failed and none has reported in between."""
    max_invalid: Annotated[int, Bounds(ge=0, le=1_000)] = 10
    """Number of trials with hyperparameters that cannot work (`muster.InvalidHyperparameters`) that are
    replaced by others, with `random`, `asha` and `median`."""
    use_guarded: bool = True
    """Whether the final result of a trial counts whose hyperparameters a guard has changed. It counts
    for the values with which the trial began."""
    seed: Annotated[int, Bounds(ge=0, le=2**53)] = 0
    """Seed of all draws. The same seed and space give the same trials; change it for others."""

    @property
    def every(self) -> int | None:
        """`interval` in the unit of `max_length`; None where nothing is said."""
        given = self.interval
        return given.units if isinstance(given, SearchLength) else given
