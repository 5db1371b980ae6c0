"""One verdict from counts of collectives, NCCL's status, devices and stacks."""

from __future__ import annotations

import datetime as dt

import pytest

from muster_server.domain.runtime.stuck import STILL_AFTER_S, Count, RankView, judge
from muster_server.domain.runtime.witnesses import Witnesses, conclude, line_of

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STATUS = """\
Communicators... (0.00s)
=============
#0-0 (ab12cd34) MISMATCH
  Communicator ranks have different collective operation counts
  2 ranks have launched up to operation 17
  1 rank has launched up to operation 16: rank 2 (GPU 2 managed by process 4242 on node 10.0.0.7)
#1-0 (ab12cd35) MISMATCH
  1 rank has launched up to operation 5
  1 rank has launched up to operation 4: rank 0 (GPU 0 managed by process 4240 on node 10.0.0.7)
"""
FAULTHANDLER = """\
Thread 0x00007fbbec0976c0 (most recent call first):
  File "/job/data.py", line 2 in load
  File "/usr/lib/python3.11/threading.py", line 975 in run

Current thread 0x00007fbbec352040 (most recent call first):
  File "/job/.venv/lib/python3.11/site-packages/torch/cuda/streams.py", line 222 in synchronize
  File "/job/train.py", line 41 in step
  File "/job/train.py", line 80 in <module>
"""
PY_SPY = """\
Process 7: python train.py
Thread 7 (idle): "MainThread"
    synchronize (torch/cuda/streams.py:222)
    step (/job/train.py:41)
    <module> (/job/train.py:80)
Thread 9 (idle): "loader"
    load (/job/data.py:2)
"""
SAME = (4, 3)
BEHIND = (3, 3)
AWAY = None


def rank(no: int, counts: tuple[int, int] | None, *, age_s: float = 2 * STILL_AFTER_S) -> RankView:
    count = Count(
        kind="all_reduce", num_enqueued=(counts or SAME)[0], num_completed=(counts or SAME)[1]
    )
    return RankView(
        rank=no,
        node_name=f"n{no}",
        is_heard=True,
        reports=True,
        process="sleeps",
        moved_at=NOW - dt.timedelta(seconds=age_s),
        step=7,
        phase="backward",
        counts={"world": count} if counts else {},
        waits_for=None,
        waits_kind="",
    )


@pytest.mark.parametrize(
    ("counts", "seen", "named", "says"),
    [
        # The counts name a rank; everything else stands beside them.
        ([SAME, SAME, BEHIND], {}, [2], ["counts: 3 of 4"]),
        ([SAME, SAME, BEHIND], {"nccl": STATUS}, [2], ["counts: 3 of 4", "nccl: 16 of 17"]),
        (
            [SAME, BEHIND, SAME],
            {"nccl": STATUS},
            [1],
            ["counts: 3 of 4", "nccl: 16 of 17"],  # they differ, and both are shown
        ),
        (
            [SAME, SAME, BEHIND],
            {"devices": {0: 100.0, 1: 100.0, 2: 0.0}},
            [2],
            ["counts: 3 of 4", "devices: idle 0"],
        ),
        (
            [SAME, SAME, BEHIND],
            {"devices": {0: 100.0, 1: 100.0, 2: 99.6}, "stacks": {2: FAULTHANDLER}},
            [2],
            ["counts: 3 of 4", "devices: busy 100", "stacks: train.py:41 in step"],
        ),
        ([SAME, SAME, BEHIND], {"devices": {2: 40.0}}, [2], ["counts: 3 of 4"]),
        # They name none.
        ([SAME, SAME, SAME], {}, [], []),
        ([SAME, SAME, SAME], {"nccl": STATUS}, [2], ["nccl: 16 of 17"]),
        ([AWAY, AWAY, AWAY], {"nccl": STATUS}, [2], ["nccl: 16 of 17"]),
        (
            [SAME, SAME, SAME],
            {"devices": {0: 100.0, 1: 1.0, 2: 98.0}},
            [1],
            ["devices: idle 1"],
        ),
        (
            [SAME, SAME, SAME],
            {"devices": {0: 100.0, 1: 100.0, 2: 98.0}},
            [],
            ["devices: busy 100", "devices: busy 100", "devices: busy 98"],
        ),
        ([SAME, SAME, SAME], {"devices": {0: 100.0, 1: 0.0}}, [], ["devices: busy 100", "devices: idle 0"]),
        ([SAME, SAME, SAME], {"devices": {0: 0.0, 1: 0.0, 2: 0.0}}, [], ["devices: idle 0"] * 3),
        ([SAME, SAME], {"nccl": STATUS}, [0], ["nccl: 4 of 5"]),  # the communicator of two
        ([SAME, SAME, SAME], {"nccl": "rank 2 is evil\n" * 9000}, [], []),
    ],
)  # fmt: skip
def test_one_verdict(
    counts: list[tuple[int, int] | None], seen: dict[str, object], named: list[int], says: list[str]
) -> None:
    ranks = [rank(no, of_rank) for no, of_rank in enumerate(counts)]
    verdict, evidence = conclude(judge(ranks, [], now=NOW), ranks, Witnesses(**seen))  # type: ignore[arg-type]
    assert [b.rank for b in verdict.blamed] == named
    assert all(b.reason in verdict.reason for b in verdict.blamed)
    found = []
    for one in evidence:
        given = one.text.parameters
        what = {
            "stuck.by_counts": "{num} of {most}",
            "stuck.by_nccl": "{num} of {most}",
            "stuck.by_idle_device": "idle {pct}",
            "stuck.by_busy_device": "busy {pct}",
            "stuck.by_stack": "{line}",
        }[one.text.code].format_map(given)
        found.append(f"{one.witness}: {what}")
        assert one.text.english.endswith(".")
    assert found == says


def test_a_training_that_moves_has_no_evidence() -> None:
    ranks = [rank(0, SAME, age_s=1), rank(1, BEHIND, age_s=1)]
    verdict = judge(ranks, [], now=NOW)
    assert conclude(verdict, ranks, Witnesses(nccl=STATUS)) == (verdict, ())


@pytest.mark.parametrize("stacks", [FAULTHANDLER, PY_SPY])
def test_the_line_of_the_script_is_read_from_stacks(stacks: str) -> None:
    assert line_of(stacks) == "train.py:41 in step"
    assert line_of("") == line_of("no stack here\n") == ""
