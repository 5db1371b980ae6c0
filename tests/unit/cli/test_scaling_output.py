"""What `muster scaling` says of a fitted model."""

from __future__ import annotations

import pytest

from muster.cli.commands.analysis.scaling import _print_model


def estimate(value: float, n: int) -> dict[str, float | int | None]:
    return {"value": value, "low": None, "high": None, "n": n}


def test_bandwidth_and_latency_each_have_their_own_number_of_measurements(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = {
        "bandwidth_bytes_per_s": estimate(6e8, 1), "latency_us": estimate(180.0, 3),
        "step_error": None, "reasons": [],
    }  # fmt: skip
    _print_model(model)
    assert capsys.readouterr().err == "Network: 600 MB/s (n=1), 180 µs per message (n=3).\n"
    _print_model({**model, "latency_us": None})
    assert capsys.readouterr().err == "Network: 600 MB/s (n=1).\n"
