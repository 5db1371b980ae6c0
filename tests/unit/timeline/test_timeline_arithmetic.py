"""Timelines of known answer."""

from __future__ import annotations

import pytest

from muster.timeline.activities import Activity, CollectiveInfo, classify, op_of
from muster.timeline.arithmetic import Step, breakdown, extent, step_number, steps
from muster.timeline.ranks import rank_waits


def compute(start: int, end: int, stream: int = 7) -> Activity:
    return Activity("computation", "gemm", start, end, stream)


def comm(
    start: int, end: int, *, op: str = "all_reduce", group: str = "world", seq: int | None = None,
    num_bytes: int | None = 100, stream: int = 20,
) -> Activity:  # fmt: skip
    return Activity(
        "communication", f"nccl_{op}", start, end, stream, CollectiveInfo(op, group, num_bytes, seq)
    )


def test_nested_and_back_to_back_kernels_count_once() -> None:
    found = breakdown(
        [compute(0, 100), compute(20, 40, 8), compute(100, 150), comm(120, 200), comm(130, 140)],
        start_ns=0,
        end_ns=250,
    )
    assert (found.computation, found.communication) == (150, 80)
    assert (found.overlap, found.exposed, found.idle) == (30, 50, 50)


def test_several_communication_streams_and_kinds_that_run_at_once() -> None:
    found = breakdown(
        [
            comm(0, 100, stream=20),
            comm(50, 150, op="all_gather", group="tp", stream=21, num_bytes=7),
            comm(150, 160, stream=22, num_bytes=None),
            compute(60, 70),
        ],
        start_ns=0,
        end_ns=160,
    )
    assert (found.communication, found.exposed, found.overlap, found.idle) == (160, 150, 10, 0)
    reduced, gathered = found.by_kind["world", "all_reduce"], found.by_kind["tp", "all_gather"]
    assert (reduced.count, reduced.num_bytes, reduced.time, reduced.exposed) == (2, None, 110, 100)
    assert (gathered.count, gathered.num_bytes, gathered.time, gathered.exposed) == (1, 7, 100, 90)


def test_what_straddles_a_step_counts_with_the_part_inside() -> None:
    activities = [comm(-50, 30), compute(20, 60), comm(90, 140), compute(200, 300)]
    found = breakdown(activities, start_ns=0, end_ns=100)
    assert (found.span, found.communication, found.computation) == (100, 40, 40)
    assert (found.overlap, found.exposed, found.idle) == (10, 30, 30)
    assert found.by_kind["world", "all_reduce"].count == 1, "the other one began in the step before"
    assert found.by_kind["world", "all_reduce"].time == 40


def test_copies_are_a_class_of_their_own() -> None:
    copied = Activity("copy", "Memcpy HtoD", 10, 50, 7)
    found = breakdown([copied, comm(0, 30), compute(70, 80)], start_ns=0, end_ns=100)
    assert (found.copy, found.overlap, found.exposed, found.idle) == (40, 0, 30, 40)


def test_nothing_is_all_idle() -> None:
    found = breakdown([], start_ns=5, end_ns=25)
    assert (found.span, found.idle, found.communication, found.by_kind) == (20, 20, 0, {})
    assert extent([]) == (0, 0)


def test_steps_by_the_marks_of_muster_and_of_torch() -> None:
    assert step_number("step 12") == 12
    assert step_number("ProfilerStep#3") == 3
    assert step_number("step") is step_number("optimizer step 3") is step_number("step 3b") is None
    marks = [Step(2, 200, 300), Step(1, 100, 190), Step(1, 105, 195), Step(9, 110, 120)]
    assert steps(marks) == [Step(1, 100, 195), Step(2, 200, 300)]


@pytest.mark.parametrize(
    ("name", "category", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "kernel", "communication"),
        ("void cutlass::Kernel<...>", "kernel", "computation"),
        ("Memcpy DtoD (Device -> Device)", "gpu_memcpy", "copy"),
        ("Memset (Device)", "gpu_memset", "copy"),
        ("gloo:all_reduce", "user_annotation", "communication"),
        ("aten::addmm", "cpu_op", "computation"),
        ("c10d::allreduce_", "cpu_op", None),
        ("autograd::engine::evaluate_function: AddBackward0", "cpu_op", None),
        ("nccl:all_reduce", "gpu_user_annotation", None),
        ("cudaLaunchKernel", "cuda_runtime", None),
    ],
)
def test_classes_of_events(name: str, category: str, kind: str | None) -> None:
    assert classify(name, category) == kind


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "coalesced"),
        ("_allgather_base", "all_gather"),
        ("all_to_allv", "all_to_all"),
        ("gloo:all_reduce", "all_reduce"),
        ("ncclDevKernel_Generic", "other"),
    ],
)
def test_kinds_of_collectives(name: str, op: str) -> None:
    assert op_of(name) == op


@pytest.mark.parametrize("has_numbers", [True, False])
def test_four_ranks_of_which_one_comes_late_by_a_known_time(has_numbers: bool) -> None:
    """Clocks differ by seconds; rank 2 comes 500 later to each of three collectives of 100."""
    ranks = {}
    for rank in range(4):
        wait = 0 if rank == 2 else 500
        clock = rank * 10**9
        ranks[rank] = [
            comm(
                clock + 1000 * n, clock + 1000 * n + 100 + wait,
                seq=40 + n if has_numbers else None, stream=20 + rank,
            )
            for n in range(3)
        ]  # fmt: skip
    found = rank_waits(ranks)
    assert (found.count, found.transfer) == (3, 300)
    assert found.waiting == {0: 1500, 1: 1500, 2: 0, 3: 1500}
    assert found.last == {0: 0, 1: 0, 2: 3, 3: 0}
    assert found.waits_for == {(0, 2): 1500, (1, 2): 1500, (3, 2): 1500}


def test_bandwidth_is_of_the_shortest_time_where_every_member_is_seen() -> None:
    def reduced(
        no: int, ns: int, *, size: int | None = 2, num_bytes: int | None = 1000
    ) -> Activity:
        one = comm(100 * no, 100 * no + ns, seq=no, num_bytes=num_bytes)
        assert one.collective is not None
        return one._replace(collective=one.collective._replace(size=size))

    found = rank_waits({0: [reduced(1, 10), reduced(2, 90)], 1: [reduced(1, 50), reduced(2, 30)]})
    kind = found.by_kind["world", "all_reduce"]
    assert (kind.count, kind.num_bytes, kind.transfer, kind.size) == (2, 2000, 40, 2)
    assert kind.algorithm_bytes_per_s == 50e9
    assert kind.bus_bytes_per_s("all_reduce") == 50e9  # 2(n-1)/n of two
    assert kind.bus_bytes_per_s("all_gather") == 25e9
    assert kind.bus_bytes_per_s("barrier") is None
    for missing in ({"size": 4}, {"size": None}, {"num_bytes": None}):
        part: dict[int, list[Activity]] = {r: [reduced(1, 10, **missing)] for r in (0, 1)}
        assert rank_waits(part).by_kind == {}


def test_a_coalesced_call_of_several_kernels_is_compared_kernel_by_kernel() -> None:
    ranks = {
        rank: [comm(n * 50, n * 50 + 10 + 5 * rank, op="all_gather", seq=8) for n in range(2)]
        for rank in range(2)
    }
    found = rank_waits(ranks)
    assert (found.count, found.transfer, found.waiting) == (2, 20, {0: 0, 1: 10})


def test_what_cannot_be_matched_is_left_out() -> None:
    lonely = comm(0, 10, group="tp0", seq=1)
    message = comm(20, 90, op="send", seq=1)
    coalesced = comm(100, 110, op="coalesced", seq=2)
    of_a_window_that_is_longer = [comm(100 * n, 100 * n + 10, group="dp") for n in range(3)]
    found = rank_waits(
        {
            0: [lonely, message, coalesced, comm(0, 30, seq=4), *of_a_window_that_is_longer],
            1: [message, coalesced, comm(0, 10, seq=5), *of_a_window_that_is_longer[:2]],
        }
    )
    assert (found.count, found.waiting) == (0, {0: 0, 1: 0})
