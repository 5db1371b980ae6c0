"""The thorough check of a machine's devices, on processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.launch import deep_check

pytestmark = pytest.mark.torch


def test_the_whole_check_runs_on_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_check, "SIZE", 256)
    monkeypatch.setattr(deep_check, "CPU_BYTES", 2**24)
    monkeypatch.setattr(deep_check, "CHUNK_BYTES", 2**22)
    found = list(deep_check.check_all(["cpu"]))
    assert [f.check for f in found] == [
        "matrix products",
        "memory pattern",
        "copies",
        "all-reduce",
    ]
    assert [f.problem for f in found] == [""] * 4
    assert all(f.figure for f in found)


def test_a_wrong_value_of_a_product_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_check, "SIZE", 64)

    def multiply(one: Any, other: Any) -> Any:
        product = one @ other
        product[3, 5] += 1
        return product

    problem, _ = deep_check.check_products("cpu", multiply)
    assert problem == "1 of 4,096 values of a product in torch.float32 are wrong"


def test_a_device_that_is_not_there_is_said() -> None:
    assert all(f.problem for f in deep_check.check_all(["cuda:63"]))


def test_what_passed_is_noted_if_the_log_may_be_written(tmp_path: Path) -> None:
    assert not deep_check.note_passed(["cpu"], tmp_path / "no" / "log")
    (tmp_path / "log").touch()
    assert deep_check.note_passed(["cpu"], tmp_path / "log")
