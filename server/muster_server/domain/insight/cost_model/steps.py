"""A step from its parts: what runs of several sizes say, and what another cluster should do. Pure.

    step = computing of one worker × contention + other + communication - hidden

Computing comes from one worker and grows with its samples. *Contention* is how much longer it takes
beside other workers: they share processors, memory and caches, and communication takes cycles from
it. *Other* is data, copies, optimizer, checkpoint and waiting for late workers. Both are those of the
measured size that is nearest: they grow with it, and a mean of all sizes would have a larger cluster
wait less than a smaller one. *Hidden* is the
communication that goes on while the worker computes: the share of it that was hidden in the best
run, and where that share fell as communication grew, no more than was hidden in any run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .collectives import Network, link_bytes, num_messages
from .fitting import (
    ComputeFit,
    Estimate,
    NetworkFit,
    Transfer,
    around,
    fit_compute,
    fit_network,
    mean_of,
    product,
)

SATURATED_BELOW = 0.8
"""Fraction of the largest hidden share; if the longest communication hides less than that, there
was no more computing to hide it behind."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """Means over the steps of one run, mean over its workers. Times are seconds per step."""

    size: int
    """Workers."""
    samples: float
    """Per worker and step."""
    step_s: float
    compute_s: float
    """Forward and backward."""
    optimizer_s: float
    data_s: float
    """Waiting for data, copying it to the device."""
    exposed_s: float
    """Waiting for communication, for late workers included."""
    hidden_s: float
    """Communication while computing."""
    wait_s: float
    """Part of exposed_s: waiting for late workers."""
    other_s: float
    """The rest, checkpoints and bubbles of pipelines included."""
    transfers: tuple[Transfer, ...]
    num_steps: int
    """Rows behind these figures."""
    timed: tuple[Transfer, ...] = ()
    """Collectives that its workers were timed with when its steps were done."""
    link_mbit_per_s: float | None = None
    """Nominal rate of the network between its workers; None if unknown."""
    is_loopback: bool = False
    """Its workers share a host, so what they send is on no link."""
    mtu_bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class Besides:
    """What a step of one size takes besides computing alone and communication."""

    contention: Estimate
    other: Estimate


@dataclass(frozen=True, kw_only=True)
class StepModel:
    compute: ComputeFit
    contention: Estimate
    """Factor on computing where there is more than one worker; 1 with an interval of 0 width where
    only one was measured."""
    other: Estimate
    """Seconds besides computing and communication, waiting for late workers included: of the runs
    with more than one worker, where there are any."""
    other_alone: Estimate | None
    """`other` for one worker; None if it was not measured."""
    by_size: Mapping[int, Besides]
    """Contention and other of each measured size above one."""
    network: NetworkFit
    hidden_share: float
    """Maximum share of communication that was hidden."""
    hidden_s: float
    """The most that was hidden in a run."""
    hideable_s: float
    """Computing that communication could hide behind at most."""
    is_saturated: bool
    """More communication was hidden to a smaller share: hidden_s is the limit."""
    pattern: tuple[Transfer, ...]
    """Collectives of a step of the largest run."""
    largest: int
    """Workers of that run."""
    link_mbit_per_s: float | None
    """Rate of that run's network; infinite on one host, None if unknown."""
    mtu_bytes: float | None
    error: float | None
    """Mean of |model - measured| / measured over the runs."""
    num_runs: int
    reasons: tuple[str, ...]
    """What the runs do not determine, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predicted step on a cluster that was not measured."""

    size: int
    samples: float
    step_s: Estimate
    compute_s: float
    communication_s: float
    """All of it, hidden or not."""
    exposed_s: float
    other_s: float
    samples_per_s: Estimate
    """Throughput of all workers."""


def fit_steps(runs: Sequence[MeasuredRun]) -> StepModel:
    """Return the model that explains the runs. Raises ValueError without one."""
    if not runs:
        raise ValueError("a model needs at least one run")
    reasons: list[str] = []
    alone = [r for r in runs if r.size == 1]
    several = [r for r in runs if r.size > 1]
    base = alone or [r for r in runs if r.size == min(r.size for r in runs)]
    if not alone:
        reasons.append(
            f"No run had one worker: computing is that of {base[0].size}, with what they take from "
            "each other in it."
        )
    # Time of a step of one worker for its samples; the other workers' samples differ too.
    compute = fit_compute([r.samples for r in base], [r.compute_s for r in base])
    varied = {r.samples for r in runs}
    if len({r.samples for r in base}) == 1 and len(varied) > 1:
        # Strong scaling: contention and batch change together; the batch explains it first.
        compute = fit_compute([r.samples for r in runs], [r.compute_s for r in runs])
    if compute.reason:
        reasons.append(compute.reason)
    known = compute if alone else None
    network = fit_network(
        [t for r in several for t in r.transfers], [t for r in several for t in r.timed]
    )
    if several and network.reason:
        reasons.append(network.reason)
    largest = max(runs, key=lambda r: r.size)
    totals = [(r.hidden_s, r.hidden_s + r.exposed_s - r.wait_s) for r in several]
    shares = [hidden / total for hidden, total in totals if total > 0]
    hidden_share = max(shares, default=0.0)
    hidden_s = max((hidden for hidden, _ in totals), default=0.0)
    rest = _rest(several or runs)
    assert rest is not None
    model = StepModel(
        compute=compute,
        contention=_contention(several, known),
        other=rest,
        other_alone=_rest(alone),
        by_size=_by_size(several, known),
        network=network,
        hidden_share=min(hidden_share, 1.0),
        hidden_s=hidden_s,
        is_saturated=_is_saturated(totals),
        hideable_s=max((r.compute_s for r in several), default=0.0),
        pattern=largest.transfers,
        largest=largest.size,
        link_mbit_per_s=math.inf if largest.is_loopback else largest.link_mbit_per_s,
        mtu_bytes=largest.mtu_bytes,
        error=None,
        num_runs=len(runs),
        reasons=tuple(reasons),
    )
    return _with_error(model, runs)


def predict(
    model: StepModel, *, size: int, samples: float, network: Network | None = None
) -> Prediction | None:
    """Return a step of `size` workers with `samples` each, over the measured network or over
    another one.

    The collectives are those of the largest run; groups of all its workers become groups of all
    `size` workers. None: communication is needed for it and nothing is known of the network.
    Raises ValueError for a size below 1 and for no samples.
    """
    if size < 1 or samples <= 0:
        raise ValueError("a prediction is about at least one worker with at least some samples")
    alone = model.compute.seconds(samples)
    if size == 1:
        compute, other = alone, model.other_alone or model.other
        communication: Estimate | None = Estimate(value=0.0, low=0.0, high=0.0, n=alone.n)
    else:
        besides = _nearest(model, size)
        compute = product(alone, besides.contention) if besides.contention.n else alone
        other = besides.other
        communication = _communication(model, size, network)
    if communication is None:
        return None
    share = communication.value * model.hidden_share
    seen, possible = min(share, model.hidden_s), min(share, max(model.hideable_s, model.hidden_s))
    exposed = communication.value - (seen if model.is_saturated else possible)
    # Whether more can be hidden than in any run is unknown, so the interval covers both cases.
    at_least, at_most = communication.value - possible, communication.value - seen
    middle = compute + other
    value = middle.value + exposed
    # What the model fails to explain of the measured steps, it will not explain of others.
    off = (model.error or 0.0) * value
    down = exposed - at_least
    down += math.hypot(middle.value - middle.low, communication.value - communication.low, off)
    up = at_most - exposed
    up += math.hypot(middle.high - middle.value, communication.high - communication.value, off)
    step = Estimate(
        value=value,
        low=around(value, down, 1).low,
        high=around(value, up, 1).high,
        n=model.num_runs,
    )
    total = size * samples
    return Prediction(
        size=size,
        samples=samples,
        step_s=step,
        compute_s=compute.value,
        communication_s=communication.value,
        exposed_s=exposed,
        other_s=other.value,
        samples_per_s=Estimate(
            value=total / step.value,
            low=0.0 if math.isinf(step.high) else total / step.high,
            high=total / step.low if step.low > 0 else math.inf,
            n=step.n,
        ),
    )


def _communication(model: StepModel, size: int, network: Network | None) -> Estimate | None:
    messages = num_bytes = 0.0
    for transfer in model.pattern:
        n = size if transfer.size == model.largest else transfer.size
        own = (
            transfer.count * num_messages(transfer.kind, n),
            link_bytes(transfer.kind, n, transfer.num_bytes),
        )
        counted = model.network.counted(transfer.kind, *own)
        messages, num_bytes = messages + counted[0], num_bytes + counted[1]
    if network is not None:
        seconds = messages * network.latency_s + num_bytes / network.bandwidth_bytes_per_s
        error = (model.network.error or 0.0) * seconds
        found = around(seconds, error, model.network.num_transfers)
        if network.slowest_bytes_per_s is None:
            return found
        slowest = messages * network.latency_s + num_bytes / network.slowest_bytes_per_s
        return replace(found, high=max(found.high, slowest))
    if not model.pattern:
        if model.largest > 1:
            return Estimate(value=0.0, low=0.0, high=0.0, n=model.num_runs)
        return None
    return model.network.transfer_s(messages, num_bytes)


def _is_saturated(totals: Sequence[tuple[float, float]]) -> bool:
    """Return whether computing was used up to hide communication behind.

    totals: (hidden, all communication) of each run with more than one worker.
    """
    some = [(hidden, total) for hidden, total in totals if total > 0]
    if not some:
        return False
    best = max(hidden / total for hidden, total in some)
    most = max(some, key=lambda t: t[1])
    return most[0] / most[1] < SATURATED_BELOW * best


def _contention(runs: Sequence[MeasuredRun], compute: ComputeFit | None) -> Estimate:
    """Return how many times longer computing takes than alone; 1 without a measurement of one
    worker.

    compute: fit of one worker; None if that was not measured.
    """
    ratios = [r.compute_s / compute.seconds(r.samples).value for r in runs] if compute else []
    return mean_of(ratios) or Estimate(value=1.0, low=1.0, high=1.0, n=0)


def _by_size(several: Sequence[MeasuredRun], compute: ComputeFit | None) -> dict[int, Besides]:
    found: dict[int, Besides] = {}
    for size in sorted({r.size for r in several}):
        runs = [r for r in several if r.size == size]
        rest = _rest(runs)
        assert rest is not None
        found[size] = Besides(contention=_contention(runs, compute), other=rest)
    return found


def _nearest(model: StepModel, size: int) -> Besides:
    """Return the figures of the measured size nearest in doublings, the larger of two equally
    near."""
    if not model.by_size:
        return Besides(contention=model.contention, other=model.other)
    return model.by_size[
        min(model.by_size, key=lambda measured: (abs(math.log2(measured / size)), -measured))
    ]


def _rest(runs: Sequence[MeasuredRun]) -> Estimate | None:
    return mean_of([r.data_s + r.optimizer_s + r.other_s + r.wait_s for r in runs])


def _with_error(model: StepModel, runs: Sequence[MeasuredRun]) -> StepModel:
    errors: list[float] = []
    for run in runs:
        if run.size > 1 and run.size != model.largest:
            at = replace(model, pattern=run.transfers, largest=run.size)
        else:
            at = model
        found = predict(at, size=run.size, samples=run.samples)
        if found is not None and run.step_s > 0:
            errors.append(abs(found.step_s.value - run.step_s) / run.step_s)
    return replace(model, error=statistics.fmean(errors) if errors else None)
