"""What was measured is read with checks, and parted into costs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


def test_the_cost_of_a_transaction_is_parted_from_that_of_its_calls(
    capacity: SimpleNamespace,
) -> None:
    assert capacity.costs.split([(1.0, 5.0), (0.25, 3.5)]) == pytest.approx((3.0, 2.0))
    assert capacity.costs.split([(1.0, 3.0), (1.0, 5.0)]) == (4.0, 0.0), "none was shared"
    assert capacity.costs.split([(1.0, 3.0), (0.1, 4.0)]) == (3.0, 0.0), "never below nothing"


@pytest.fixture
def measured() -> dict[str, Any]:
    used = {"server": 0.1, "controller": 0.1, "database": 0.1}
    seen = {
        "calls": 10, "transactions": 10.0, "wall_s": 1.0, "loop_s": 0.02, "used": used,
        "each_server_s": [0.01, 0.03], "each_database_s": [0.01, 0.01],
    }  # fmt: skip
    kinds = ("heartbeat", "heartbeat_sampled", "poll", "report", "log")
    ended = {"trials": 2, "wall_s": 1.0, "used": used}
    return {
        "machine": "none",
        "load": "0",
        "idle": [
            {"nodes": nodes, "running": running, "wall_s": 10.0, "used": used}
            for nodes, running in ((0, 0), (10, 0), (10, 5))
        ],
        "calls": [{"call": k, "at_once": n, **seen} for k in kinds for n in (1, 32)],
        "trials": [{"nodes": n, "is_burst": b, **ended} for n in (1, 64) for b in (False, True)],
    }


def test_costs_follow_from_what_was_measured(
    capacity: SimpleNamespace, measured: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(measured))
    costs = capacity.costs.read(file)
    beat = costs.calls["heartbeat"]
    assert (beat.loop, beat.each, beat.batch) == pytest.approx((0.002, 0.008, 0.0))
    assert beat.spread == pytest.approx((0.5, 1.5))
    assert costs.base.server == pytest.approx(0.01)
    assert costs.trials[64].burst_per_s == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"idle": []}, r"length >= 3.*\$\.idle"),
        ({"idle": "none"}, r"Expected `array`, got `str` - at `\$\.idle`"),
        ({"hours": 3}, "unknown field `hours`"),
        ({"calls": []}, r"need heartbeat at two values of at_once, have \[\]"),
        ({"trials": []}, r"trials: none of 1 node\(s\) one after another"),
    ],
)
def test_a_bad_measurement_is_refused_by_its_field(
    capacity: SimpleNamespace,
    measured: dict[str, Any],
    tmp_path: Path,
    change: dict[str, Any],
    said: str,
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(measured | change))
    with pytest.raises(capacity.costs.BadMeasurement, match=said) as error:
        capacity.costs.read(file)
    assert str(error.value).startswith(str(file))
    assert "make it again: python bench/capacity/measure.py" in str(error.value)


def test_a_negative_figure_and_a_cut_file_are_refused(
    capacity: SimpleNamespace, measured: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "measured.json"
    measured["idle"][0]["used"]["server"] = -1.0
    file.write_text(json.dumps(measured))
    with pytest.raises(capacity.costs.BadMeasurement, match=r">= 0.0 - at `\$\.idle\[0\]"):
        capacity.costs.read(file)
    file.write_text(json.dumps(measured)[:100])
    with pytest.raises(capacity.costs.BadMeasurement, match="truncated"):
        capacity.costs.read(file)
    with pytest.raises(capacity.costs.BadMeasurement, match="No such file"):
        capacity.costs.read(tmp_path / "none.json")
