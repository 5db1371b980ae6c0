"""Guards: rules that act when a metric goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from .common import Bounds

GUARDS_MAX = 16
WINDOW_MAX = 500
"""Values that a guard remembers."""
GuardAction = Literal["notify", "stop", "checkpoint_and_stop", "rollback", "restart_elsewhere"]


@dataclass(frozen=True, kw_only=True)
class SpikeSection:
    """A value that is far larger than those before it."""

    times: Annotated[float, Bounds(gt=1, le=1e9)] = 5.0
    """How many times the median a value must exceed. Signs do not count."""
    window: Annotated[int, Bounds(ge=4, le=WINDOW_MAX)] = 50
    """Number of normal values whose median it is. Judged from half as many on."""


@dataclass(frozen=True, kw_only=True)
class PlateauSection:
    """Values that do not change any more: `steps` or `values`, and `min_change`."""

    steps: Annotated[int, Bounds(ge=2, le=2**53)] | None = None
    """Length to look at, in steps."""
    values: Annotated[int, Bounds(ge=2, le=2**53)] | None = None
    """Length to look at, in values of the metric."""
    min_change: Annotated[float, Bounds(ge=0, le=1e300)]
    """Least change, as an absolute number: the mean of the second half of the length must differ by
    this much from the mean of the first half."""


@dataclass(frozen=True, kw_only=True)
class BelowMedianSection:
    """Values that stay below a share of what is normal for them."""

    share: Annotated[float, Bounds(gt=0, lt=1)] = 0.5
    """Share of the median of the normal values so far."""
    minutes: Annotated[float, Bounds(ge=0, le=10_080)] = 10.0
    """How long every value must be below it."""


@dataclass(frozen=True, kw_only=True)
class StragglerSection:
    """A worker that the others wait for."""

    share: Annotated[float, Bounds(gt=0, lt=1)] = 0.25
    """Share of the step that the other workers spend waiting for it, on average."""
    minutes: Annotated[float, Bounds(ge=0, le=10_080)] = 10.0
    """Length of the stretch over which that is the average. A stretch has at least 10 steps."""


@dataclass(frozen=True, kw_only=True)
class GuardSection:
    """A condition on a metric, `no_step_for_min` or `straggler`, and what to do when it holds."""

    metric: Annotated[str, Bounds(min_length=1, max_length=200)] | None = None
    """Name of the metric (`train/loss`, `throughput/samples_per_s`), as reported by the lowest rank
    that reports it."""
    not_finite: bool = False
    """A value is NaN or infinite."""
    spike: SpikeSection | None = None
    """A value is a multiple of the median of those before it."""
    plateau: PlateauSection | None = None
    """The values do not change any more."""
    above: float | None = None
    """A value is greater than this."""
    below: float | None = None
    """A value is less than this."""
    at_step: Annotated[int, Bounds(ge=0, le=2**53)] | None = None
    """For `above` and `below`: judge one value only, the first at or after this step."""
    below_median: BelowMedianSection | None = None
    """The values have stayed below a share of their own median, for throughput."""
    no_step_for_min: Annotated[float, Bounds(ge=0.1, le=10_080)] | None = None
    """Minutes without a step while the trial runs. Longer than anything the training does between two
    steps. The first step of an attempt may take at least 10 minutes from the start of its workers.
    Without `metric`."""
    straggler: StragglerSection | None = None
    """The workers wait for one of them. Judged where all workers measure their communication. Without
    `metric`."""
    action: GuardAction
    """`notify`: an event and a notification. `stop`: end the trial at once. `checkpoint_and_stop`: end
    it with time for a last checkpoint. `rollback`: restart it from the newest checkpoint from before
    the trouble, with the changes of `set`. `restart_elsewhere`: restart it from its newest checkpoint,
    and keep away for 15 minutes from the node whose rank holds up the others, or from all of its nodes
    where no rank stands out."""
    set_: Annotated[dict[str, int | float | str | bool], Bounds(max_length=32)] = field(
        default_factory=dict
    )
    """For `rollback`: hyperparameters to change (`{lr: x0.5}`). A factor, or a new value. Names within
    sections have dots: `optimizer.lr`."""
    skip_samples: bool = False
    """For `rollback`: go on behind the samples that the steps since the checkpoint have used, in the built-in
    trainer and in scripts with `muster.sampler`. How many those are follows from what the ranks have told of
    their samples; where that is not enough, none are skipped, and the events say so."""
    otherwise: Literal["notify", "stop", "checkpoint_and_stop"] = "notify"
    """What to do when the action is impossible: no checkpoint is from before the trouble, or no other
    node could run the trial."""
    max_times: Annotated[int, Bounds(ge=1, le=100)] = 1
    """How often it may act in one trial."""
    cooldown_steps: Annotated[int, Bounds(ge=0, le=2**53)] = 0
    """Steps after it has acted in which it does not act again."""
