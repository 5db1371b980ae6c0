"""Latency and bandwidth from measured transfers, computing from measured steps. Pure.

Ordinary linear least squares; what is uncertain about a figure is Student's t at 95 %. Times and
their ratios are positive, so their intervals are symmetric on a logarithmic scale: none is below zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .collectives import link_bytes, num_messages

CONFIDENCE = 0.95
"""Confidence level of every interval."""
MAX_EXPONENT = 100.0
"""An interval wider than e to this power is none."""
MAX_CONDITION = 1e6
"""Maximum condition number of the scaled design. Beyond it the measurements differ in one direction
only, and two parameters cannot be told apart."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its interval at CONFIDENCE; `n`: measurements behind it.

    low and high are -inf or 0 and inf where so few measurements say nothing about the spread.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def is_bounded(self) -> bool:
        """Whether it has an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def is_determined(self) -> bool:
        """Whether its interval is no wider than the figure itself."""
        return self.is_bounded and self.high - self.low <= abs(self.value)

    def __add__(self, other: Estimate) -> Estimate:
        """Add two independent figures: half widths add up in squares."""
        value = self.value + other.value
        return Estimate(
            value=value,
            low=value - math.hypot(self.value - self.low, other.value - other.low),
            high=value + math.hypot(self.high - self.value, other.high - other.value),
            n=min(self.n, other.n),
        )

    def scaled(self, factor: float) -> Estimate:
        """Return the figure times `factor`, which must be 0 or more."""
        return Estimate(
            value=factor * self.value, low=_times(factor, self.low), high=_times(factor, self.high),
            n=self.n,
        )  # fmt: skip


Spread = tuple[float, float, float]
"""Spread of two parameters: both variances and their covariance, times Student's t squared. All are
infinite if as many parameters were fitted as measurements were made."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One kind of collective of one group in one run: means per step."""

    kind: str
    size: int
    """Members of the group."""
    count: float
    num_bytes: float
    transfer_s: float
    """At least one in flight, without waiting for late members."""


@dataclass(frozen=True, kw_only=True)
class NetworkFit:
    """What transfers say about the network. None: they do not determine it, and `reason` says why."""

    latency_s: Estimate | None
    bandwidth_bytes_per_s: Estimate | None
    num_transfers: int
    reason: str
    """"" when both are known."""
    error: float | None
    """Median of |fitted - measured| / measured; None without bandwidth."""
    covariance: Spread = (0.0, 0.0, 0.0)
    """Covariance of latency in s and of slowness in s/byte."""
    weights: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Kind → how many times as long as said above a message, and a byte, of that kind take. Absent: 1."""

    def counted(self, kind: str, messages: float, num_bytes: float) -> tuple[float, float]:
        """Messages and bytes of a kind, as so many of the kind that latency and bandwidth are of."""
        per_message, per_byte = self.weights.get(kind, (1.0, 1.0))
        return messages * per_message, num_bytes * per_byte

    def transfer_s(self, messages: float, num_bytes: float) -> Estimate | None:
        """Return the seconds for so many messages and so many bytes on the link; None without
        bandwidth."""
        if self.bandwidth_bytes_per_s is None:
            return None
        latency = self.latency_s.value if self.latency_s is not None else 0.0
        value = messages * latency + num_bytes / self.bandwidth_bytes_per_s.value
        return around(value, _half_width(self.covariance, messages, num_bytes), self.num_transfers)


def mean_of(values: Sequence[float]) -> Estimate | None:
    """Return the mean of repeats, each ≥ 0, with the interval of Student's t; None without any. One
    value: its interval is unbounded. NaN and infinities are not expected."""
    n = len(values)
    if n == 0:
        return None
    value = float(np.mean(values))
    half = math.inf if n == 1 else t_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return around(value, half, n)


def around(value: float, half: float, n: int) -> Estimate:
    """Return a figure ≥ 0 with the interval that is `half` wide to each side on a logarithmic
    scale: where that is little of the figure it is value ± half, and where it is much, no bound is
    below 0."""
    if value <= 0:
        return Estimate(value=value, low=0.0, high=half, n=n)
    return _on_log_scale(value, half / value, half / value, n)


def product(a: Estimate, b: Estimate) -> Estimate:
    """Return the product of two independent positive figures; half widths on a logarithmic scale
    add up in squares."""
    down, up = math.hypot(_down(a), _down(b)), math.hypot(_up(a), _up(b))
    return _on_log_scale(a.value * b.value, down, up, min(a.n, b.n))


def quotient(a: Estimate, b: Estimate) -> Estimate:
    """a / b, of two independent positive figures."""
    down, up = math.hypot(_down(a), _up(b)), math.hypot(_up(a), _down(b))
    return _on_log_scale(a.value / b.value, down, up, min(a.n, b.n))


def _on_log_scale(value: float, down: float, up: float, n: int) -> Estimate:
    return Estimate(
        value=value,
        low=value * math.exp(-down),
        high=value * math.exp(up) if up < MAX_EXPONENT else math.inf,
        n=n,
    )


def _down(of: Estimate) -> float:
    return math.log(of.value / of.low) if of.low > 0 else math.inf


def _up(of: Estimate) -> float:
    return math.log(of.high / of.value)


def t_quantile(freedom: int) -> float:
    """Student's t that CONFIDENCE lies within, on both sides of 0. freedom: ≥ 1."""
    from scipy.special import stdtrit  # a tenth of what a start of the server imports

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def fit_network(transfers: Sequence[Transfer], timed: Sequence[Transfer] = ()) -> NetworkFit:
    """Latency and bandwidth that explain the measured transfers best.

    timed: collectives of several sizes that the same workers were timed with, one at a time and with
    nothing else to do. Where transfers do not determine the latency, it is what these say of the same
    kind, and the bandwidth what then explains the transfers. Without transfers both are of these.
    Other kinds than the one that was sent weigh as their latency and slowness do, each fitted to the
    timed ones by itself: not every kind fills a link as well as the others.

    transfer = messages × latency + bytes on the link / bandwidth, for each kind of collective of
    each group and run, weighed by 1 / transfer: measurements are off by a share of themselves.
    Transfers of groups of one, and of no time, say nothing and are left out. When both cannot be
    told from each other, or the latency comes out negative, bandwidth alone is fitted, with the
    latency in it.
    """
    used = _telling(transfers)
    own = _fit(used)
    if not timed:
        return own
    kinds = {t.kind for t in used} or {"all_reduce"}
    reference = kinds.pop() if len(kinds) == 1 else ""
    of_kind: dict[str, NetworkFit] = {}
    for kind in sorted({t.kind for t in timed}):
        of_kind[kind] = _fit(_telling([t for t in timed if t.kind == kind]))
    known = {k: (f.latency_s, f.bandwidth_bytes_per_s) for k, f in of_kind.items()}
    base = known.get(reference, (None, None))
    by_itself = of_kind[reference] if base[0] is not None else _fit(_telling(timed))
    found = own
    if own.latency_s is None:
        if own.bandwidth_bytes_per_s is None:
            found = by_itself
        elif by_itself.latency_s is not None:
            found = _with_latency(own, used, by_itself, by_itself.latency_s)
    if found.latency_s is None or base[0] is None or base[1] is None:
        return found
    weights = {
        kind: (latency.value / base[0].value, base[1].value / bandwidth.value)
        for kind, (latency, bandwidth) in known.items()
        if kind != reference and latency is not None and bandwidth is not None
    }
    return replace(found, weights=weights)


def _with_latency(
    own: NetworkFit, used: Sequence[Transfer], by_itself: NetworkFit, latency: Estimate
) -> NetworkFit:
    """Return the bandwidth that explains the transfers with a given latency; `own` where they take
    no longer than that."""
    messages, sizes, seconds = _columns(used)
    left = seconds - messages * latency.value
    if (left <= 0).any():
        return own
    alone = _least_squares((sizes / seconds)[:, None], left / seconds)
    assert alone is not None, "one column that is not zero has full rank"
    (slowness,), covariance = alone
    widened = np.zeros((2, 2))
    widened[1, 1] = covariance[0, 0]
    solved = np.array([latency.value, slowness]), widened
    found = _network(solved, messages, sizes, seconds, reason="its latency is known otherwise")
    return replace(
        found,
        latency_s=latency,
        reason="",
        num_transfers=len(used) + by_itself.num_transfers,
        covariance=(by_itself.covariance[0], found.covariance[1], 0.0),
    )


def _telling(transfers: Sequence[Transfer]) -> list[Transfer]:
    return [
        t for t in transfers if t.size > 1 and t.transfer_s > 0 and (t.num_bytes > 0 or t.count > 0)
    ]


def _columns(used: Sequence[Transfer]) -> tuple[Array, Array, Array]:
    """Messages, bytes on the link, seconds."""
    return (
        np.array([t.count * num_messages(t.kind, t.size) for t in used]),
        np.array([link_bytes(t.kind, t.size, t.num_bytes) for t in used]),
        np.array([t.transfer_s for t in used]),
    )


def _fit(used: Sequence[Transfer]) -> NetworkFit:
    if not used:
        return _unknown("No collective between workers was measured.", 0)
    messages, sizes, seconds = _columns(used)
    if not sizes.any():
        return _unknown("The collectives that were measured carry no bytes.", len(used))
    design = np.column_stack([messages, sizes]) / seconds[:, None]
    both = _least_squares(design, np.ones(len(used)))
    if both is None:
        why = (
            "Every run sends the same number of bytes per message, so latency and bandwidth cannot be "
            "told apart: the bandwidth has the latency in it."
        )
    elif both[0][1] <= 0:
        why = (
            "More bytes did not take longer, so what was measured is latency alone, and of the "
            "bandwidth is known only that it does not limit these runs."
        )
        return _unknown(why, len(used))
    elif both[0][0] < 0:
        why = "The latency is too small to be seen beside the bytes: it is in the bandwidth."
    else:
        return _network(both, messages, sizes, seconds)
    alone = _least_squares(design[:, 1:], np.ones(len(used)))
    assert alone is not None, "one column that is not zero has full rank"
    (slowness,), covariance = alone
    widened = np.zeros((2, 2))
    widened[1, 1] = covariance[0, 0]
    return _network((np.array([0.0, slowness]), widened), messages, sizes, seconds, reason=why)


def fit_compute(samples: Sequence[float], compute_s: Sequence[float]) -> ComputeFit:
    """Computing of one worker against its samples per step: a fixed part and a part per sample.

    samples, compute_s: of each run, ≥ 1 sample and > 0 s. With one number of samples only their sum
    is known: all of it is taken for work per sample, and `reason` says so.
    Raises ValueError without a run.
    """
    if not samples or len(samples) != len(compute_s):
        raise ValueError("computing is fitted to at least one run, with its samples")
    x, y = np.asarray(samples, float), np.asarray(compute_s, float)
    n = len(x)
    reason = ""
    design = np.column_stack([np.ones(n), x]) / y[:, None]
    found = _least_squares(design, np.ones(n)) if len(set(samples)) > 1 else None
    if found is None or found[0][0] < 0 or found[0][1] <= 0:
        if len(set(samples)) == 1:
            reason = (
                "All runs have the same samples per worker and step, so what a step costs whatever "
                "its batch cannot be told from what a sample costs."
            )
        else:
            reason = "No part of the computing is the same for every batch."
        alone = _least_squares(design[:, 1:], np.ones(n))
        assert alone is not None, "samples are not zero"
        widened = np.zeros((2, 2))
        widened[1, 1] = alone[1][0, 0]
        found = (np.array([0.0, alone[0][0]]), widened)
    values, covariance = found
    spread = _spread(covariance, n, 2 if not reason else 1)
    return ComputeFit(
        fixed_s=_estimate(values[0], spread[0] if not reason else 0.0, n),
        per_sample_s=_estimate(values[1], spread[1], n),
        covariance=spread,
        reason=reason,
    )


@dataclass(frozen=True, kw_only=True)
class ComputeFit:
    fixed_s: Estimate
    per_sample_s: Estimate
    covariance: Spread
    reason: str
    """What the runs do not tell; "" when they tell both."""

    def seconds(self, samples: float) -> Estimate:
        """Return the time of a step of one worker with `samples` samples."""
        value = self.fixed_s.value + samples * self.per_sample_s.value
        return around(value, _half_width(self.covariance, 1.0, samples), self.per_sample_s.n)


Array = NDArray[np.float64]
_Solved = tuple[Array, Array]
"""(parameters, their covariance; 0 without a degree of freedom left)"""


def _least_squares(design: Array, wanted: Array) -> _Solved | None:
    """None when the columns cannot be told from each other."""
    scale = np.linalg.norm(design, axis=0)
    if not scale.all():
        return None
    scaled = design / scale
    if len(wanted) < design.shape[1] or np.linalg.cond(scaled) > MAX_CONDITION:
        return None
    values, *_ = np.linalg.lstsq(scaled, wanted, rcond=None)
    inverse = np.linalg.inv(scaled.T @ scaled)
    freedom = len(wanted) - design.shape[1]
    residual = wanted - scaled @ values
    variance = float(residual @ residual) / freedom if freedom else 0.0
    covariance = variance * inverse / np.outer(scale, scale)
    return values / scale, covariance


def _network(
    solved: _Solved, messages: Array, sizes: Array, seconds: Array, *, reason: str = ""
) -> NetworkFit:
    (latency, slowness), covariance = solved
    n = len(seconds)
    spread = _spread(covariance, n, 1 if reason else 2)
    fitted = messages * latency + sizes * slowness
    return NetworkFit(
        latency_s=None if reason else _estimate(latency, spread[0], n),
        bandwidth_bytes_per_s=around(
            float(1 / slowness), math.sqrt(spread[1]) / float(slowness) ** 2, n
        ),
        num_transfers=n,
        reason=reason,
        error=float(np.median(np.abs(fitted - seconds) / seconds)),
        covariance=spread,
    )


def _spread(covariance: Array, n: int, parameters: int) -> Spread:
    if n <= parameters:
        return math.inf, math.inf, math.inf
    t2 = t_quantile(n - parameters) ** 2
    return float(t2 * covariance[0, 0]), float(t2 * covariance[1, 1]), float(t2 * covariance[0, 1])


def _half_width(spread: Spread, x: float, y: float) -> float:
    """Return the half width of x times the first parameter plus y times the second."""
    a, b, ab = spread
    if math.isinf(a):
        return math.inf
    return math.sqrt(max(x**2 * a + y**2 * b + 2 * x * y * ab, 0.0))


def _estimate(value: float, squared: float, n: int) -> Estimate:
    """Return the estimate of a parameter that may be 0, such as a latency: value ± half, not below
    0."""
    half = math.sqrt(squared)
    return Estimate(
        value=float(value), low=max(float(value) - half, 0.0), high=float(value) + half, n=n
    )


def _times(factor: float, value: float) -> float:
    return 0.0 if factor == 0 else factor * value


def _unknown(reason: str, n: int) -> NetworkFit:
    return NetworkFit(
        latency_s=None, bandwidth_bytes_per_s=None, num_transfers=n, reason=reason, error=None
    )
