"""The efficiency card: what a run asked for, used and lost, and what would have been enough."""

import pytest

from muster_server.domain.goodput.efficiency import SAMPLES_MIN, RunSample, efficiency


def card(samples=(), classes=None, slots=4):
    classes = classes if classes is not None else {"productive": 90.0, "stopping": 10.0}
    return efficiency(slots=slots, memory_bytes=None, samples=samples, classes=classes)


def test_used_is_told_with_its_median_its_peak_and_how_often_it_was_sampled():
    samples = [RunSample(gpu_pct=pct, cpu_pct=50.0) for pct in (10.0, 20.0, 90.0)]
    found = card([*samples, RunSample()])
    assert [(u.name, u.median, u.peak, u.num_samples) for u in found.used] == [
        ("cpu_pct", 50.0, 50.0, 3),
        ("gpu_pct", 20.0, 90.0, 3),
    ]
    assert (found.lost, found.lost_share) == ("stopping", pytest.approx(0.1))


@pytest.mark.parametrize(
    ("num", "pct", "slots", "text"),
    [
        (SAMPLES_MIN - 1, 30.0, 4, None),
        (SAMPLES_MIN, 90.0, 4, None),
        (
            SAMPLES_MIN, 30.0, 4,
            "Asked for 4 slots, computation used 1.2 on median: the GPUs were 30% in use, in 20 samples. "
            "Try fewer slots, or larger batches.",
        ),
        (
            SAMPLES_MIN, 30.0, 1,
            "The GPU was 30% in use on median, in 20 samples. Try a larger batch, or look at what limits a "
            "step on the Performance tab.",
        ),
    ],
)  # fmt: skip
def test_a_size_is_advised_only_where_enough_was_sampled(num, pct, slots, text):
    found = card([RunSample(gpu_pct=pct)] * num, slots=slots)
    assert [advice.english for advice in found.advice] == ([text] if text else [])


def test_a_long_start_is_told_with_its_slowest_part():
    classes = {"preparing": 10.0, "starting": 30.0, "productive": 60.0}
    (advice,) = card(classes=classes).advice
    assert advice.english.startswith(
        "The start took 40% of the slot time, 75% of it before the first"
    )
    assert card(classes={"starting": 5.0, "productive": 95.0}).advice == ()
    assert card(classes={}).lost is None
