import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.insight.cost_model.collectives import Network
from muster_server.domain.insight.cost_model.fitting import (
    Transfer,
    fit_compute,
    fit_network,
    mean_of,
)
from support.training.collective_times import collective_s

SIZES = (2, 4, 8)
PAYLOADS = (2e4, 1e6, 4e7)


def transfers(network, *, noise=0.0, seed=0, sizes=SIZES, payloads=PAYLOADS, repeats=2):
    """Of collectives over a network, off by a normal share of themselves."""
    rng = np.random.default_rng(seed)
    return [
        Transfer(
            kind=kind,
            size=size,
            count=8,
            num_bytes=num_bytes,
            transfer_s=collective_s(kind, size, num_bytes, network, count=8)
            * (1 + noise * rng.standard_normal()),
        )
        for kind in ("all_reduce", "all_gather")
        for size in sizes
        for num_bytes in payloads
        for _ in range(repeats)
    ]


networks = st.builds(
    Network, latency_s=st.floats(2e-5, 5e-3), bandwidth_bytes_per_s=st.floats(1e7, 2e9)
)


@settings(max_examples=50)
@given(network=networks)
def test_exact_transfers_give_the_network_back(network):
    fit = fit_network(transfers(network))
    assert fit.reason == ""
    assert fit.latency_s.value == pytest.approx(network.latency_s, rel=1e-6)
    assert fit.bandwidth_bytes_per_s.value == pytest.approx(network.bandwidth_bytes_per_s, rel=1e-6)


@settings(max_examples=50)
@given(network=networks, seed=st.integers(0, 2**20))
def test_noisy_transfers_give_it_back_about(network, seed):
    fit = fit_network(transfers(network, noise=0.03, seed=seed, repeats=4))
    found = fit.bandwidth_bytes_per_s
    # Where latency is most of a transfer, the bandwidth is known less well, and the interval says so.
    assert found.low < found.value < found.high
    half_width = (found.high - found.low) / 2
    assert half_width < 0.2 * found.value
    assert abs(found.value - network.bandwidth_bytes_per_s) < 2.5 * half_width
    assert fit.error < 0.05


def test_intervals_cover_the_truth_as_often_as_they_say():
    network = Network(latency_s=5e-4, bandwidth_bytes_per_s=1e8)
    latency = bandwidth = transfer = 0
    wanted = collective_s("all_reduce", 16, 1e7, network)
    rounds = 400
    for seed in range(rounds):
        fit = fit_network(transfers(network, noise=0.05, seed=seed, repeats=1))
        latency += fit.latency_s.low <= network.latency_s <= fit.latency_s.high
        bandwidth += (
            fit.bandwidth_bytes_per_s.low
            <= network.bandwidth_bytes_per_s
            <= fit.bandwidth_bytes_per_s.high
        )
        found = fit.transfer_s(30, 2 * 15 / 16 * 1e7)
        transfer += found.low <= wanted <= found.high
    # 95 % of 400, give or take four standard deviations of a binomial.
    for covered in (latency, bandwidth, transfer):
        assert 0.90 * rounds <= covered <= 0.99 * rounds


def test_one_payload_in_one_group_does_not_tell_latency_from_bandwidth():
    network = Network(latency_s=1e-3, bandwidth_bytes_per_s=1e8)
    one = [t for t in transfers(network, sizes=(2,), payloads=(1e6,)) if t.kind == "all_reduce"]
    fit = fit_network(one)
    assert fit.latency_s is None
    assert "cannot be told apart" in fit.reason
    # The bandwidth explains what was measured, latency included.
    assert fit.bandwidth_bytes_per_s.value < network.bandwidth_bytes_per_s
    assert fit.transfer_s(16, 1e6).value == pytest.approx(one[0].transfer_s)


@settings(max_examples=50)
@given(network=networks)
def test_collectives_timed_by_themselves_tell_the_latency_that_one_payload_hides(network):
    one = [t for t in transfers(network, sizes=(2,), payloads=(1e7,)) if t.kind == "all_reduce"]
    timed = transfers(network, sizes=(2,), payloads=(4e3, 1e6), repeats=1)
    fit = fit_network(one, timed)
    assert fit.reason == ""
    assert fit.latency_s.value == pytest.approx(network.latency_s, rel=1e-6)
    assert fit.bandwidth_bytes_per_s.value == pytest.approx(network.bandwidth_bytes_per_s, rel=1e-6)
    assert fit.num_transfers == len(one) + sum(t.kind == "all_reduce" for t in timed)
    assert fit.error < 1e-6
    # Many small messages: what the payload alone would have said is too little by far.
    exact = collective_s("all_gather", 2, 1e6, network, count=100)
    assert fit.transfer_s(100, 0.5e6).value == pytest.approx(exact, rel=1e-6)


def test_a_kind_that_was_not_sent_weighs_as_much_more_as_it_took_by_itself():
    """Gathers that fill a link less well than the all-reduces that the training sends."""
    reduces = Network(latency_s=1e-3, bandwidth_bytes_per_s=1e8)
    gathers = Network(latency_s=5e-4, bandwidth_bytes_per_s=0.7e8)
    timed = [
        t
        for kind, network in (("all_reduce", reduces), ("all_gather", gathers))
        for t in transfers(network, sizes=(2,), payloads=(4e3, 1e6))
        if t.kind == kind
    ]
    # In training, everything takes a fifth longer.
    one = [
        replace(t, transfer_s=1.2 * t.transfer_s)
        for t in transfers(replace(reduces, latency_s=0.0), sizes=(2,), payloads=(4e9,))
        if t.kind == "all_reduce"
    ]
    fit = fit_network(one, timed)
    assert fit.weights["all_gather"] == pytest.approx((0.5, 1 / 0.7))
    assert "all_reduce" not in fit.weights
    slowed = Network(latency_s=5e-4, bandwidth_bytes_per_s=0.7e8 / 1.2)
    wanted = collective_s("all_gather", 2, 1e7, slowed, count=10)
    found = fit.transfer_s(*fit.counted("all_gather", 10, 0.5e7)).value
    assert found == pytest.approx(wanted, rel=0.01)
    # Of several kinds in training nothing is known that would part them.
    assert fit_network(transfers(reduces), timed).weights == {}


def test_what_was_sent_in_training_counts_for_the_bandwidth_all_the_same():
    """With latency from the one, and the bandwidth of large messages from the other."""
    alone = Network(latency_s=2e-4, bandwidth_bytes_per_s=1e9)
    training = Network(latency_s=2e-4, bandwidth_bytes_per_s=4e8)
    one = [t for t in transfers(training, sizes=(4,), payloads=(4e7,)) if t.kind == "all_reduce"]
    fit = fit_network(one, transfers(alone, sizes=(4,), payloads=(4e3, 1e6)))
    assert fit.bandwidth_bytes_per_s.value == pytest.approx(4e8, rel=1e-3)
    assert fit.transfer_s(8 * 6, 8 * 2 * 3 / 4 * 4e7 / 8).value == pytest.approx(
        one[0].transfer_s, rel=1e-6
    )


def test_transfers_of_several_sizes_need_nothing_timed_besides():
    network = Network(latency_s=1e-3, bandwidth_bytes_per_s=1e8)
    other = Network(latency_s=5e-3, bandwidth_bytes_per_s=1e7)
    fit = fit_network(transfers(network), transfers(other))
    assert fit.latency_s.value == pytest.approx(1e-3)


def test_where_the_training_shows_no_transfers_the_timed_ones_are_all_there_is():
    network = Network(latency_s=1e-3, bandwidth_bytes_per_s=1e8)
    fit = fit_network([], transfers(network))
    assert fit.latency_s.value == pytest.approx(1e-3)
    assert fit.bandwidth_bytes_per_s.value == pytest.approx(1e8)


def test_transfers_shorter_than_the_latency_timed_leave_it_unknown():
    timed = transfers(Network(latency_s=5e-3, bandwidth_bytes_per_s=1e8), sizes=(2,))
    network = Network(latency_s=1e-4, bandwidth_bytes_per_s=1e9)
    one = [t for t in transfers(network, sizes=(2,), payloads=(2e4,)) if t.kind == "all_reduce"]
    fit = fit_network(one, timed)
    assert fit.latency_s is None
    assert fit.reason


def test_a_latency_too_small_to_be_seen_is_said_to_be_so():
    network = Network(latency_s=0.0, bandwidth_bytes_per_s=1e8)
    found = [fit_network(transfers(network, noise=0.05, seed=seed)) for seed in range(10)]
    assert any(fit.latency_s is None for fit in found)
    for fit in found:
        assert fit.latency_s is None or fit.latency_s.low == 0
        assert fit.bandwidth_bytes_per_s.value == pytest.approx(1e8, rel=0.15)


def test_two_measurements_fit_and_say_nothing_of_an_error():
    network = Network(latency_s=1e-3, bandwidth_bytes_per_s=1e8)
    two = [Transfer(kind="all_reduce", size=2, count=1, num_bytes=size,
                    transfer_s=collective_s("all_reduce", 2, size, network))
           for size in (1e4, 1e7)]  # fmt: skip
    fit = fit_network(two)
    assert fit.latency_s.value == pytest.approx(1e-3)
    assert fit.latency_s.high == math.inf
    assert fit.transfer_s(2, 1e7).high == math.inf


def test_time_that_does_not_grow_with_bytes_bounds_no_bandwidth():
    flat = [Transfer(kind="all_reduce", size=2, count=1, num_bytes=size, transfer_s=0.002 - size / 1e11)
            for size in (1e3, 1e5, 1e7)]  # fmt: skip
    fit = fit_network(flat)
    assert fit.bandwidth_bytes_per_s is None
    assert fit.transfer_s(2, 1e6) is None
    assert "latency alone" in fit.reason


def test_nothing_measured_is_nothing_known():
    fit = fit_network([Transfer(kind="all_reduce", size=1, count=1, num_bytes=1e6, transfer_s=0.1)])
    assert (fit.num_transfers, fit.bandwidth_bytes_per_s, fit.error) == (0, None, None)
    assert fit.reason


@settings(max_examples=50)
@given(fixed=st.floats(0.001, 0.1), per_sample=st.floats(1e-4, 1e-2), seed=st.integers(0, 2**20))
def test_computing_is_a_fixed_part_and_a_part_per_sample(fixed, per_sample, seed):
    rng = np.random.default_rng(seed)
    samples = [s for s in (8, 16, 32, 64) for _ in range(3)]
    exact = fit_compute(samples, [fixed + per_sample * s for s in samples])
    assert exact.fixed_s.value == pytest.approx(fixed, rel=1e-6)
    assert exact.per_sample_s.value == pytest.approx(per_sample, rel=1e-6)
    noisy = fit_compute(
        samples, [(fixed + per_sample * s) * (1 + 0.02 * rng.standard_normal()) for s in samples]
    )
    assert noisy.seconds(32).value == pytest.approx(fixed + per_sample * 32, rel=0.05)


def test_one_batch_does_not_tell_the_two_apart():
    fit = fit_compute([32, 32, 32], [0.10, 0.11, 0.09])
    assert fit.fixed_s.value == 0
    assert fit.seconds(32).value == pytest.approx(0.1, rel=0.02)
    assert fit.seconds(32).low < 0.1 < fit.seconds(32).high
    assert "same samples" in fit.reason


def test_a_mean_has_the_interval_of_its_repeats():
    assert mean_of([]) is None
    assert mean_of([3.0]).high == math.inf
    three = mean_of([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.303, s = 1, on a logarithmic scale
    assert three.value == 2
    assert math.log(three.high / 2) == pytest.approx(4.303 / math.sqrt(3) / 2, rel=1e-3)
    assert three.low * three.high == pytest.approx(4)
    assert three.n == 3


def test_no_time_is_below_zero_however_much_repeats_differ():
    noisy = mean_of([0.012, 0.021, 0.0565])
    assert 0 < noisy.low < noisy.value < noisy.high
    assert noisy.is_bounded
    assert not noisy.is_determined
    steady = mean_of([0.0299, 0.03, 0.0301])
    assert steady.is_determined
    assert steady.low == pytest.approx(0.02975, abs=1e-5)
    assert steady.high == pytest.approx(0.03025, abs=1e-5)


def test_intervals_of_repeats_cover_the_truth_as_often_as_they_say():
    """Also where repeats differ by a third, as on a machine that others use."""
    for spread in (0.02, 0.1, 0.3):
        rng = np.random.default_rng(7)
        covered, rounds = 0, 2000
        for _ in range(rounds):
            found = mean_of(list(rng.lognormal(-(spread**2) / 2, spread, 3)))
            covered += found.low <= 1 <= found.high
        assert covered / rounds >= 0.93, spread
