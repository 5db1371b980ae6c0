"""db.queries.metrics_codec: what is stored comes back, and buckets keep their promises."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster_server.db.queries.metrics_codec import (
    Points,
    as_entries,
    bucketed,
    concat,
    decode_batch,
    decode_block,
    decode_rollups,
    encode_batch,
    encode_block,
    encode_rollup,
    in_order,
    means,
    merge_rollups,
    rollup_width,
    split_blocks,
    split_evenly,
)
from muster_server.domain.metrics import BLOCK_POINTS, ROLLUP_BUCKETS, SPAN_BUCKETS

any_float = st.integers(0, 2**64 - 1).map(lambda bits: np.uint64(bits).view(np.float64))
"""Every bit pattern, so every NaN payload."""
ordinary = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])


@st.composite
def points(draw: st.DrawFn, values: st.SearchStrategy[float] = ordinary) -> Points:
    steps = sorted(draw(st.sets(st.integers(0, 10_000), min_size=1, max_size=60)))
    n = len(steps)
    return Points(
        np.array(steps, np.int64),
        np.array(draw(st.lists(st.integers(0, 2**53 - 1), min_size=n, max_size=n)), np.int64),
        np.array(draw(st.lists(values, min_size=n, max_size=n)), np.float64),
    )


def same(a: Points, b: Points) -> bool:
    return (
        a.steps.tolist() == b.steps.tolist()
        and a.times_ms.tolist() == b.times_ms.tolist()
        and a.values.view(np.uint64).tolist() == b.values.view(np.uint64).tolist()
    )


@given(points(any_float))
def test_a_block_gives_back_every_bit(block: Points) -> None:
    assert same(decode_block(encode_block(block)), block)


@given(st.lists(points(any_float), min_size=1, max_size=4))
def test_a_batch_gives_back_every_column(columns: list[Points]) -> None:
    names = [f"列/{i}" for i in range(len(columns))]
    whole = concat(columns)
    body = encode_batch(
        [(n, len(c)) for n, c in zip(names, columns, strict=True)],
        whole.steps,
        whole.times_ms,
        whole.values,
    )
    decoded = decode_batch(body)
    assert list(decoded) == names
    assert all(same(decoded[n], c) for n, c in zip(names, columns, strict=True))
    assert list(decode_batch(body, {names[-1]})) == [names[-1]]


@given(points(), st.integers(0, 14).map(lambda k: 2**k))
def test_buckets_hold_the_least_and_greatest_value_and_every_point(p: Points, width: int) -> None:
    buckets = bucketed(as_entries(p), width)
    finite = p.values[np.isfinite(p.values)]
    assert int(buckets["count"].sum()) == len(p)
    assert int(buckets["num_finite"].sum()) == len(finite)
    assert len(set((buckets["step"] // width).tolist())) == len(buckets)
    if len(finite):
        assert np.fmin.reduce(buckets["min"]) == finite.min()
        assert np.fmax.reduce(buckets["max"]) == finite.max()
    mean = means(buckets)
    inside = ~np.isnan(mean)
    assert (mean[inside] >= buckets["min"][inside]).all()
    assert (mean[inside] <= buckets["max"][inside]).all()
    assert buckets["last"][-1] == p.values[-1] or math.isnan(p.values[-1])


@given(points(), st.integers(0, 14).map(lambda k: 2**k), st.floats(-1e6, 1e6))
def test_appending_changes_only_the_last_bucket(p: Points, width: int, value: float) -> None:
    more = concat([p, Points(p.steps[-1:] + 1, p.times_ms[-1:], np.array([value]))])
    before, after = bucketed(as_entries(p), width), bucketed(as_entries(more), width)
    assert before[:-1].tobytes() == after[: len(before) - 1].tobytes()
    assert len(after) - len(before) in (0, 1)


@given(points(), st.integers(0, 6))
def test_a_wider_bucket_is_the_union_of_narrower_ones(p: Points, k: int) -> None:
    entries = as_entries(p)
    direct, twice = bucketed(entries, 2 ** (k + 3)), bucketed(bucketed(entries, 2**k), 2 ** (k + 3))
    for field in ("step", "time_ms", "min", "max", "last", "count", "num_finite"):
        np.testing.assert_array_equal(direct[field], twice[field])
    np.testing.assert_allclose(direct["sum"], twice["sum"], rtol=1e-9, atol=1e-6)


@given(points())
def test_a_roll_up_has_few_buckets_and_draws_the_block(p: Points) -> None:
    rollup = encode_rollup(p)
    entries = decode_rollups([rollup, rollup])
    half = len(entries) // 2
    assert half <= ROLLUP_BUCKETS
    assert entries[:half].tobytes() == bucketed(as_entries(p), rollup_width(rollup)).tobytes()


@given(points(), st.integers(1, 59))
def test_a_span_tells_what_its_blocks_tell(p: Points, at: int) -> None:
    parts = [
        Points(p.steps[part], p.times_ms[part], p.values[part])
        for part in (slice(None, at), slice(at, None))
    ]
    rollups = [encode_rollup(part) for part in parts if len(part)]
    span = merge_rollups(rollups, int(p.steps[0]), int(p.steps[-1]))
    entries, direct = decode_rollups([span]), bucketed(as_entries(p), rollup_width(span))
    assert len(entries) <= SPAN_BUCKETS
    for field in ("step", "time_ms", "min", "max", "last", "count", "num_finite"):
        np.testing.assert_array_equal(entries[field], direct[field])


@given(st.integers(1, 5 * BLOCK_POINTS))
def test_blocks_of_equal_size_are_at_least_half_full(num: int) -> None:
    n = np.arange(num)
    sizes = [len(b) for b in split_evenly(Points(n, n, n * 1.0))]
    assert sum(sizes) == num
    assert max(sizes) <= BLOCK_POINTS
    assert len(sizes) == 1 or min(sizes) >= BLOCK_POINTS // 2


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(-10, 10)), min_size=1, max_size=60))
def test_the_last_written_of_a_step_wins(pairs: list[tuple[int, float]]) -> None:
    steps = np.array([s for s, _ in pairs], np.int64)
    ordered = in_order(Points(steps, steps, np.array([v for _, v in pairs])))
    assert dict(zip(ordered.steps.tolist(), ordered.values.tolist(), strict=True)) == dict(pairs)
    assert ordered.steps.tolist() == sorted({s for s, _ in pairs})


def test_the_mean_of_huge_values_stays_in_the_envelope() -> None:
    huge = Points(np.arange(4), np.arange(4), np.array([1.7e308] * 4))
    assert means(bucketed(as_entries(huge), 8)).tolist() == [1.7e308]


def test_blocks_hold_4096_points() -> None:
    n = np.arange(10_000)
    assert [len(b) for b in split_blocks(Points(n, n, n * 1.0))] == [4096, 4096, 1808]


def test_a_typical_curve_takes_about_six_bytes_a_point() -> None:
    rng = np.random.default_rng(0)
    n = 4096
    values = (np.exp(-np.arange(n) / 1000) + rng.normal(0, 0.01, n)).astype(np.float32)
    block = Points(np.arange(n), 1_700_000_000_000 + 50 * np.arange(n), values.astype(np.float64))
    assert len(encode_block(block)) / n < 6.5
