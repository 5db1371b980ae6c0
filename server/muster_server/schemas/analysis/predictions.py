"""Batch inference."""

from __future__ import annotations

from ..base import Output


class PredictionProgressOut(Output):
    """How far a batch inference is."""

    num_shards: int
    num_done: int
    """Shards whose results are complete."""
    num_rows: int
    rows_done: int
    """Rows of these shards, with those that failed."""
    num_errors: int
    """Rows that could not be predicted; `errors-*.jsonl` in the outputs name them."""
    problem: str
    """Why it cannot go on; empty while it can."""
