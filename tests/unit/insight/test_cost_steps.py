import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.insight.cost_model.collectives import Network
from muster_server.domain.insight.cost_model.fitting import Transfer
from muster_server.domain.insight.cost_model.links import Link, over_link, payload_share
from muster_server.domain.insight.cost_model.steps import MeasuredRun, fit_steps, predict
from support.training.collective_times import collective_s

NETWORK = Network(latency_s=1e-4, bandwidth_bytes_per_s=1e8)
GRADIENTS = 4e7
COMPUTE = 0.02
PER_SAMPLE = 0.01
HIDDEN = 0.25
"""Share of communication that goes on during backward."""


def truth(size, samples, network=NETWORK, contention=1.1):
    """(computing, transfer) of a step of ddp, in s."""
    compute = (COMPUTE + PER_SAMPLE * samples) * (contention if size > 1 else 1)
    return compute, collective_s("all_reduce", size, GRADIENTS, network, count=8)


def run(size, samples=32, *, noise=0.0, rng=None, network=NETWORK, contention=1.1):
    compute, transfer = truth(size, samples, network, contention)
    shake = (lambda v: v * (1 + noise * rng.standard_normal())) if rng else (lambda v: v)
    compute, transfer = shake(compute), shake(transfer)
    hidden = min(HIDDEN * transfer, 0.9 * compute)
    wait = 0.002 if size > 1 else 0.0
    parts = {"optimizer_s": 0.01, "data_s": 0.003, "other_s": 0.001}
    exposed = transfer - hidden + wait
    return MeasuredRun(
        size=size, samples=samples, step_s=compute + exposed + sum(parts.values()),
        compute_s=compute, exposed_s=exposed, hidden_s=hidden, wait_s=wait, num_steps=40,
        transfers=() if size == 1 else (
            Transfer(kind="all_reduce", size=size, count=8, num_bytes=GRADIENTS, transfer_s=transfer),
        ),
        **parts,
    )  # fmt: skip


def step_s(size, samples=32, network=NETWORK):
    return run(size, samples, network=network).step_s


def test_a_cluster_that_was_not_measured_is_predicted():
    model = fit_steps([run(size) for size in (1, 2, 4) for _ in range(2)])
    for size in (1, 2, 4, 8, 64):
        found = predict(model, size=size, samples=32)
        assert found.step_s.value == pytest.approx(step_s(size), rel=0.01), size
        assert found.samples_per_s.value == pytest.approx(size * 32 / step_s(size), rel=0.01)
    assert model.error < 0.01
    assert model.contention.value == pytest.approx(1.1)


def test_another_network_is_predicted_from_its_latency_and_bandwidth():
    model = fit_steps([run(size) for size in (1, 2, 4) for _ in range(2)])
    fast = Network(latency_s=1e-5, bandwidth_bytes_per_s=1e9)
    found = predict(model, size=8, samples=32, network=fast)
    assert found.step_s.value == pytest.approx(step_s(8, network=fast), rel=0.02)
    # Slower than measured: what can be hidden is not known beyond what was, which the interval says.
    slow = Network(latency_s=1e-4, bandwidth_bytes_per_s=2e7)
    found = predict(model, size=4, samples=32, network=slow)
    assert found.step_s.low <= step_s(4, network=slow) <= found.step_s.high * 1.001


HOSTS = 1e-9
"""Seconds of the hosts per byte."""


def link_network(rate, mtu):
    return Network(
        latency_s=1e-4, bandwidth_bytes_per_s=1 / (1 / (payload_share(mtu) * rate) + HOSTS)
    )


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("rate", [12e6, 40e6, 112.5e6, 1.25e9])
def test_an_unseen_link_carries_headers_and_the_hosts_work_stays(rate, mtu):
    """Measured at 270 Mbit/s."""
    measured = 270e6 / 8
    seen = link_network(measured, mtu)
    model = fit_steps([run(size, network=seen) for size in (1, 2, 4) for _ in range(2)])
    unseen = over_link(
        model.network,
        Link(bytes_per_s=rate, measured_bytes_per_s=measured, latency_s=1e-4, mtu_bytes=mtu),
    )
    found = predict(model, size=4, samples=32, network=unseen)
    # Latency and bandwidth are not told apart by one size of message: within a percent.
    wanted = truth(4, 32, link_network(rate, mtu))[1]
    assert found.communication_s == pytest.approx(wanted, rel=0.02)


@given(
    measured=st.floats(1e6, 1e10),
    rate=st.floats(1e6, 1e10),
    hosts=st.floats(0, 1e-8),
    mtu=st.sampled_from([1500, 9000]),
)
def test_without_the_measured_rate_the_interval_holds_every_share_of_the_hosts(
    measured, rate, hosts, mtu
):
    share = payload_share(mtu)
    took = 1 / (share * measured) + hosts
    fit = fit_steps(
        [
            run(size, network=Network(latency_s=0, bandwidth_bytes_per_s=1 / took))
            for size in (1, 2, 4)
        ]
    ).network
    link = Link(bytes_per_s=rate, measured_bytes_per_s=None, latency_s=0.0, mtu_bytes=mtu)
    unseen = over_link(fit, link)
    wanted = 1 / (share * rate) + hosts
    assert unseen.slowest_bytes_per_s is not None
    assert 1 / unseen.bandwidth_bytes_per_s <= wanted * (1 + 1e-9)
    if rate >= measured or 1 / (share * rate) >= took:
        assert wanted <= (1 / unseen.slowest_bytes_per_s) * (1 + 1e-9)
    known = over_link(fit, dataclasses.replace(link, measured_bytes_per_s=measured))
    assert 1 / known.bandwidth_bytes_per_s == pytest.approx(wanted, rel=1e-6)


def test_strong_scaling_tells_the_fixed_part_from_the_part_per_sample():
    runs = [run(size, 128 // size, contention=1.0) for size in (1, 2, 4) for _ in range(2)]
    model = fit_steps(runs)
    assert model.compute.fixed_s.value == pytest.approx(COMPUTE, rel=0.01)
    assert model.compute.per_sample_s.value == pytest.approx(PER_SAMPLE, rel=0.01)
    at_16 = predict(model, size=16, samples=8)
    assert at_16.compute_s == pytest.approx(COMPUTE + 8 * PER_SAMPLE, rel=0.01)


def test_weak_scaling_says_that_it_cannot():
    model = fit_steps([run(size) for size in (1, 2) for _ in range(3)])
    assert any("same samples" in reason for reason in model.reasons)


def test_intervals_of_predictions_hold_what_comes():
    """The expected step at 8 workers lies in the interval about as often as it says."""
    covered, rounds = 0, 200
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        model = fit_steps([run(size, noise=0.03, rng=rng) for size in (1, 2, 4) for _ in range(3)])
        found = predict(model, size=8, samples=32).step_s
        covered += found.low <= step_s(8) <= found.high
    assert covered >= 0.88 * rounds


def test_one_repeat_has_no_bounds_and_one_worker_says_nothing_of_a_network():
    once = predict(fit_steps([run(1), run(2)]), size=4, samples=32)
    assert once.step_s.high == math.inf
    alone = fit_steps([run(1), run(1)])
    assert predict(alone, size=1, samples=32).step_s.value == pytest.approx(step_s(1))
    assert predict(alone, size=2, samples=32) is None


def test_without_one_worker_the_smallest_stands_in_for_it_and_that_is_said():
    model = fit_steps([run(size) for size in (2, 4) for _ in range(2)])
    assert any("No run had one worker" in reason for reason in model.reasons)
    assert predict(model, size=8, samples=32).step_s.value == pytest.approx(step_s(8), rel=0.01)


def test_communication_that_found_no_more_computing_to_hide_behind_stays_in_the_open():
    """40 ms are hidden of the short communication and of the long one alike."""
    runs = []
    for size, transfer in ((2, 0.05), (4, 0.2)):
        at = run(size)
        one = Transfer(kind="all_reduce", size=size, count=1, num_bytes=1e6, transfer_s=transfer)
        runs += [
            MeasuredRun(**{**vars(at), "transfers": (one,), "hidden_s": 0.04, "exposed_s": transfer - 0.04,
                   "wait_s": 0.0})
        ] * 2  # fmt: skip
    model = fit_steps(runs)
    assert model.is_saturated
    slow = Network(latency_s=0.0, bandwidth_bytes_per_s=1.75e6)
    found = predict(model, size=8, samples=32, network=slow)
    assert found.communication_s == pytest.approx(1.0)
    assert found.exposed_s == pytest.approx(0.96)


def test_groups_that_are_not_of_all_workers_keep_their_size():
    runs = []
    for size in (1, 2, 4):
        at = run(size)
        local = Transfer(kind="all_reduce", size=2, count=4, num_bytes=1e5,
                         transfer_s=collective_s("all_reduce", 2, 1e5, NETWORK, count=4))  # fmt: skip
        if size == 4:
            at = MeasuredRun(**{**vars(at), "transfers": (*at.transfers, local)})
        runs += [at, at]
    found = predict(fit_steps(runs), size=16, samples=32)
    wanted = collective_s("all_reduce", 16, GRADIENTS, NETWORK, count=8) + local.transfer_s
    assert found.communication_s == pytest.approx(wanted, rel=0.01)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="at least one run"):
        fit_steps([])
    with pytest.raises(ValueError, match="at least one worker"):
        predict(fit_steps([run(1)]), size=0, samples=32)


def grown(size, wait_s):
    """A run whose workers wait longer for each other the more there are."""
    at = run(size)
    more = wait_s - at.wait_s
    return MeasuredRun(
        **{
            **vars(at),
            "wait_s": wait_s,
            "exposed_s": at.exposed_s + more,
            "step_s": at.step_s + more,
        }
    )


def test_more_workers_are_not_predicted_to_wait_less_than_fewer():
    """Waiting grows from 0 over 0.1 to 0.4 s: its mean would make 8 faster than 4 were measured."""
    waits = {1: 0.0, 2: 0.1, 4: 0.4}
    model = fit_steps([grown(size, wait) for size, wait in waits.items() for _ in range(2)])
    assert model.error < 0.01
    measured = grown(4, 0.4).step_s
    assert predict(model, size=4, samples=32).step_s.value == pytest.approx(measured, rel=0.01)
    for size in (8, 16, 64):
        assert predict(model, size=size, samples=32).step_s.value > measured


def test_what_the_model_does_not_explain_widens_its_predictions():
    runs = [run(size) for size in (1, 2, 4) for _ in range(3)]
    slow = [MeasuredRun(**{**vars(r), "step_s": 1.1 * r.step_s}) for r in runs]
    exact, off = (predict(fit_steps(rs), size=8, samples=32).step_s for rs in (runs, slow))
    assert (off.high - off.low) / off.value > 0.15
    assert (exact.high - exact.low) / exact.value < 0.05
