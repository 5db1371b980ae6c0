"""Steps of a pipeline, of workers whose clocks differ."""

import pytest

from muster.measure.pipelining import is_noted
from muster_server.domain.runtime.pipelines import (
    PipelineOperation,
    WorkerTimeline,
    on_one_clock,
    problem,
)

TRANSFER_S = 0.002


def lanes(offsets):
    """Three workers, one micro-batch forward and back, each with a clock of its own."""
    num, found = len(offsets), []
    for rank, offset in enumerate(offsets):
        forward = rank * (0.010 + TRANSFER_S) - offset
        backward = forward + 0.010 + 2 * (num - 1 - rank) * TRANSFER_S + (num - 1 - rank) * 0.030
        times = [("forward", forward, forward + 0.010), ("backward", backward, backward + 0.020)]
        operations = tuple(
            PipelineOperation(kind=kind, stage=rank, micro_batch=0, start_s=start, end_s=end)
            for kind, start, end in times
        )
        found.append(WorkerTimeline(rank=rank, operations=operations, num_left_out=0))
    return found


def test_clocks_are_brought_together_along_the_pipeline():
    step = on_one_clock(lanes([0.0, 5.0, -3.0]))
    assert step is not None
    alike = on_one_clock(lanes([0.0, 0.0, 0.0]))
    assert alike is not None
    for found, expected in zip(step.lanes, alike.lanes, strict=True):
        assert [o.start_s for o in found.operations] == pytest.approx(
            [o.start_s for o in expected.operations]
        )
    assert [lane.error_s for lane in step.lanes] == pytest.approx([0.0, 0.002, 0.004])
    assert step.total_s == pytest.approx(3 * 0.030 + 4 * TRANSFER_S)
    assert step.idle_share == pytest.approx(1 - 3 * 0.030 / (3 * step.total_s))


def test_messages_say_more_than_computing_does():
    first, second = lanes([0.0, 0.0])
    sent = PipelineOperation(
        kind="send_forward", stage=0, micro_batch=0, start_s=0.0115, end_s=0.0115
    )
    received = PipelineOperation(
        kind="recv_forward", stage=1, micro_batch=0, start_s=0.0115, end_s=0.012
    )
    step = on_one_clock(
        [
            WorkerTimeline(rank=0, operations=(*first.operations, sent), num_left_out=0),
            WorkerTimeline(rank=1, operations=(*second.operations, received), num_left_out=0),
        ]
    )
    assert step is not None
    assert step.lanes[1].error_s == pytest.approx((0.0005 + TRANSFER_S) / 2)


def test_a_worker_that_exchanges_nothing_keeps_its_clock():
    first, *_ = lanes([0.0, 0.0])
    other = WorkerTimeline(rank=5, operations=(first.operations[0],), num_left_out=0)
    step = on_one_clock([first, other])
    assert step is not None
    assert step.lanes[1].error_s is None
    assert step.lanes[1].operations == other.operations


def test_nothing_computed_is_no_step():
    assert on_one_clock([]) is None
    assert on_one_clock([WorkerTimeline(rank=0, operations=(), num_left_out=0)]) is None


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((["forward"], [0], [0], [0], []), "differ in length"),
        (([], [], [], [], []), "0 operations"),
        ((["coffee"], [0], [0], [0], [1]), "a kind is none of"),
        ((["forward"], [-1], [0], [0], [1]), "a stage or micro-batch"),
        ((["forward"], [0], [0], [2], [1]), "ends before it starts"),
    ],
)
def test_what_cannot_be_drawn_is_refused(columns, said):
    assert said in (problem(*columns) or "")


def test_steps_are_noted_less_and_less_often():
    noted = [no for no in range(5_000) if is_noted(no)]
    assert noted == [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096]
