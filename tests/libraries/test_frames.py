"""Numbers of the client as data frames of the libraries themselves."""

from __future__ import annotations

import math

import pandas
import polars

from muster.client import Frame

FRAME = Frame({"name": ["a", "b"], "step": [1, 2], "value": [0.5, math.nan], "lr": [1, None]})


def test_pandas() -> None:
    frame = FRAME.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["name", "step", "value", "lr"]
    assert frame["value"].isna().tolist() == [False, True]
    assert frame["step"].tolist() == [1, 2]


def test_polars() -> None:
    frame = FRAME.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.columns == ["name", "step", "value", "lr"]
    assert frame["lr"].to_list() == [1, None]
    assert math.isnan(frame["value"][1])
    mixed = Frame({"choice": [1, "x", 2.5]}).to_polars()
    assert mixed.height == 3
