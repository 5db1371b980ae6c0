"""A posterior of where learning curves end: a mixture of shapes, with what all curves have in common.

Under each shape g, a curve is end + drop · g(unit) and noise, and (end, drop) is normal over the trials.
Expectation maximisation finds its mean and covariance, the noise, and how likely each shape is; given
these, the end of every curve is a mixture of normal distributions in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FITTED_MOST = 60
"""Curves from which it learns, the longest first."""
ITERATIONS = 10
WORST = 3.0
"""Greatest value in units of the spread: how bad a bad one is does not matter."""
NOISE, NOISE_WEIGHT = 0.02, 3.0
"""Variance expected before anything is known, and after how many values it counts half."""
COVARIANCE_WEIGHT, MEAN_WEIGHT = 4.0, 0.5


def shapes(length: int) -> Array:
    """Return the shapes at units 1 … length, each 1 at the first unit and 0 at the last."""
    t = np.arange(1, length + 1, dtype=float)
    raw = [t**-rate for rate in (0.15, 0.4, 0.8, 1.5, 3.0)]
    raw += [-np.log(t), -t]
    raw += [np.exp(-(t - 1) / (share * length)) for share in (0.08, 0.2, 0.5)]
    raw += [-((t / length) ** power) for power in (2.0, 4.0)]  # falls late, as schedules do
    raw += [1 / (1 + (t / (share * length)) ** 2.5) for share in (0.1, 0.3)]
    return np.array([(g - g[-1]) / (g[0] - g[-1]) for g in raw])


@dataclass(frozen=True)
class _Sums:
    """Sums over the reported values y of each curve, with the shapes g at their units."""

    n: Array
    y: Array
    yy: Array
    g: Array
    gg: Array
    gy: Array


@dataclass(frozen=True)
class _Posterior:
    end: Array
    drop: Array
    var_end: Array
    var_drop: Array
    cov: Array
    squares: Array
    """Expected sum of squared residuals."""
    weights: Array
    """Probability of each shape, per curve."""


class CurveModel:
    """Fitted to curves[trial, unit] of at least two units; NaN where nothing has been reported."""

    def __init__(self, curves: Array) -> None:
        self._g = shapes(curves.shape[1])
        num_seen = (~np.isnan(curves)).sum(axis=1)
        rows = np.lexsort((np.arange(len(curves)), -num_seen))[:FITTED_MOST]
        last = np.array([row[~np.isnan(row)][-1] for row in curves if not np.isnan(row).all()])
        low, middle = np.quantile(last[np.isfinite(last)], (0.1, 0.5))
        self.center = float(middle)
        self.scale = float(max((middle - low) / 1.28, 1e-9 * max(abs(middle), 1e-12)))
        chosen = self._scaled(curves[rows])
        first, final = chosen[:, 0], [row[~np.isnan(row)][-1] for row in chosen]
        drops = (first - final)[(num_seen[rows] > 1) & (first < WORST)]
        self._drop = float(np.median(drops)) if len(drops) else 1.0
        count = len(self._g)
        self._mean = np.tile([0.0, self._drop], (count, 1))
        self._cov = np.tile(np.diag([1.0, 1.0 + self._drop**2]), (count, 1, 1))
        self._noise, self._log_prior = np.full(count, NOISE), np.full(count, -math.log(count))
        sums = self._sums(chosen)
        for _ in range(ITERATIONS):
            self._maximise(sums, self._expect(sums))

    def ends(self, curves: Array) -> tuple[Array, Array, Array]:
        """Return (weights, means, standard deviations) of each curve's end, per shape, in its unit."""
        found = self._expect(self._sums(self._scaled(curves)))
        spread = np.sqrt(np.maximum(found.var_end, 1e-12))
        return found.weights, found.end * self.scale + self.center, spread * self.scale

    def new_ends(self) -> tuple[Array, Array, Array]:
        """Return the same of a trial that has not begun, as one row."""
        spread = np.sqrt(self._cov[:, 0, 0]) * self.scale
        means = self._mean[:, 0] * self.scale + self.center
        return np.exp(self._log_prior)[None], means[None], spread[None]

    def _scaled(self, curves: Array) -> Array:
        return np.minimum((curves - self.center) / self.scale, WORST)

    def _sums(self, z: Array) -> _Sums:
        seen = (~np.isnan(z)).astype(float)
        y = np.nan_to_num(z, nan=0.0)
        g, gg = seen @ self._g.T, seen @ (self._g**2).T
        return _Sums(seen.sum(1)[:, None], y.sum(1)[:, None], (y * y).sum(1)[:, None], g, gg, y @ self._g.T)  # fmt: skip

    def _expect(self, s: _Sums) -> _Posterior:
        noise, mean, cov = self._noise, self._mean, self._cov
        det = cov[:, 0, 0] * cov[:, 1, 1] - cov[:, 0, 1] ** 2
        p00, p11, p01 = cov[:, 1, 1] / det, cov[:, 0, 0] / det, -cov[:, 0, 1] / det
        a00, a11, a01 = p00 + s.n / noise, p11 + s.gg / noise, p01 + s.g / noise
        det_a = a00 * a11 - a01**2
        v00, v11, v01 = a11 / det_a, a00 / det_a, -a01 / det_a
        b0 = p00 * mean[:, 0] + p01 * mean[:, 1] + s.y / noise
        b1 = p01 * mean[:, 0] + p11 * mean[:, 1] + s.gy / noise
        end, drop = v00 * b0 + v01 * b1, v01 * b0 + v11 * b1
        prior = mean[:, 0] ** 2 * p00 + 2 * mean[:, 0] * mean[:, 1] * p01 + mean[:, 1] ** 2 * p11
        log = self._log_prior - 0.5 * (
            s.n * np.log(2 * np.pi * noise) + np.log(det) + np.log(det_a)
            + s.yy / noise + prior - (end * b0 + drop * b1)
        )  # fmt: skip
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        squares = (
            s.yy - 2 * (end * s.y + drop * s.gy) + s.n * (end**2 + v00)
            + 2 * s.g * (end * drop + v01) + s.gg * (drop**2 + v11)
        )  # fmt: skip
        weights /= weights.sum(axis=1, keepdims=True)
        return _Posterior(end, drop, v00, v11, v01, np.maximum(squares, 0), weights)

    def _maximise(self, s: _Sums, found: _Posterior) -> None:
        w = found.weights
        total = w.sum(0)
        drop = (w * found.drop).sum(0) + MEAN_WEIGHT * self._drop
        self._mean = np.stack([(w * found.end).sum(0), drop], 1) / (total + MEAN_WEIGHT)[:, None]
        d0, d1 = found.end - self._mean[:, 0], found.drop - self._mean[:, 1]
        cov = np.empty_like(self._cov)
        cov[:, 0, 0] = COVARIANCE_WEIGHT + (w * (found.var_end + d0 * d0)).sum(0)
        cov[:, 1, 1] = COVARIANCE_WEIGHT * 0.25 * (1 + self._drop**2) + (w * (found.var_drop + d1 * d1)).sum(0)  # fmt: skip
        cov[:, 0, 1] = cov[:, 1, 0] = (w * (found.cov + d0 * d1)).sum(0)
        self._cov = cov / (COVARIANCE_WEIGHT + total)[:, None, None]
        squares, values = (w * found.squares).sum(0), (w * s.n).sum(0)
        self._noise = np.maximum((NOISE_WEIGHT * NOISE + squares) / (NOISE_WEIGHT + values), 1e-5)
        self._log_prior = np.log(total + 1.0) - math.log(total.sum() + len(total))
