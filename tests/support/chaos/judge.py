"""What must be true in the end, of a curve and of the tables."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from sqlalchemy import Connection, text


def judge_curve(
    steps: Sequence[int], values: Sequence[float], *, num_steps: int, may_miss: bool = False
) -> list[str]:
    """What is wrong with a visible curve of `scripted.train` with one point per step from 1.

    may_miss: steps may be missing, but for the last one.
    """
    problems = []
    counts = collections.Counter(steps)
    doubled = [step for step, num in counts.items() if num > 1]
    if doubled:
        problems.append(f"doubled steps: {doubled[:5]}")
    missing = [step for step in range(1, num_steps + 1) if not counts[step]]
    if missing and (not may_miss or num_steps in missing):
        problems.append(f"{len(missing)} missing steps: {missing[:5]}")
    strange = [step for step in counts if not 1 <= step <= num_steps]
    if strange:
        problems.append(f"steps that were never done: {strange[:5]}")
    wrong = [s for s, value in zip(steps, values, strict=True) if abs(value - 1 / s) > 1e-12]
    if wrong:
        problems.append(f"wrong values at steps {wrong[:5]}")
    return problems


def judge_tables(database: Connection) -> list[str]:
    """What is still held or open although every trial has ended."""
    queries = {
        "slots are still taken": "SELECT count(*) FROM node_slots WHERE allocation_id IS NOT NULL",
        "allocations are not cleaned": "SELECT count(*) FROM allocations WHERE observed <> 'CLEANED'",
        "attempts have not ended": "SELECT count(*) FROM attempts WHERE ended_at IS NULL",
        "attempts began before the one before had ended": (
            "SELECT count(*) FROM attempts a JOIN attempts b ON b.trial_id = a.trial_id "
            "AND b.no = a.no + 1 WHERE b.created_at < a.ended_at"
        ),
    }
    return [
        f"{num} {what}" for what, query in queries.items() if (num := database.scalar(text(query)))
    ]
