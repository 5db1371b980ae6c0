"""What failures have in common, and which metric was meant."""

import pytest

from muster_server.domain.search.failures import alike, common_cause, nearest_metric, own_metrics


@pytest.mark.parametrize(
    ("reason", "same"),
    [
        (
            "rank 0 on n1 exited with code 1: ValueError: 3 heads do not divide 64; no restart is left (x)",
            "rank 5 on n2 exited with code 1: ValueError: 5 heads do not divide 32; it was being stopped",
        ),
        ("rank 0 on n1: was killed by SIGKILL", "rank 3 on gpu-2: was killed by SIGKILL."),
        ("bad pointer 0x7f3a at lr 1e-05", "bad pointer 0x11 at lr 0.2"),
    ],
)
def test_failures_of_one_cause_are_alike_whoever_failed_and_with_whatever_numbers(reason, same):
    assert alike(reason) == alike(same)
    assert alike(reason) != alike("rank 0 on n1 exited with code 1: KeyError: lr")


def test_the_common_cause_is_the_most_frequent_one_in_the_words_of_its_first_trial():
    failed = [(4, "rank 0 on a: out of 3 GB"), (2, "exit 7"), (3, "rank 1 on b: out of 5 GB")]
    cause = common_cause(failed)
    assert cause is not None
    assert (cause.reason, cause.numbers) == ("out of 5 GB", (3, 4))
    assert common_cause([]) is None


def test_the_nearest_metric_is_one_that_the_script_reported_itself():
    reported = ["time/step_ms", "val/accuracy", "val/loss", "comm/bytes"]
    assert own_metrics(reported) == ["val/accuracy", "val/loss"]
    assert nearest_metric("val/acc", reported) == "val/accuracy"
    assert nearest_metric("loss", reported) == "val/loss"
    assert nearest_metric("time/step", reported) is None
    assert nearest_metric("loss", []) is None
