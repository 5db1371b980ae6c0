"""What `muster diagnose` says that a change would gain."""

from __future__ import annotations

from muster.cli.commands.analysis.diagnose import _gain


def test_a_gain_of_many_times_is_said_as_such() -> None:
    gain = {"value": 8.973, "low": 5.0, "high": 12.0, "num": 3}
    assert _gain(gain, is_bound=True) == "at most 10.0 times the samples/s (6.0 to 13.0, n=3)"
    little = {"value": 0.125, "low": 0.1, "high": 0.15, "num": 3}
    assert _gain(little, is_bound=False) == ("predicted 12.5 % more samples/s (10.0 to 15.0, n=3)")
