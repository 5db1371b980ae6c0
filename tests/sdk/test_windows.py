"""When windows of the profiler open, and what is read from them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from muster import wire
from muster.measure import windows
from muster.measure.collectives import Segment
from muster.measure.comm_use import timeline_use
from muster.measure.intervals import merge, subtract
from muster.measure.profiling import window as profile_window
from muster.measure.windows import (
    BUDGET,
    FIRST_STEP,
    KernelWindows,
    SeenStep,
    WindowBudget,
    read_device,
    why_closed,
)
from muster.timeline.activities import Activity, CollectiveInfo

# torch 2.12 says so at the first profile of a process, whatever is profiled.
pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events")


MS = 1_000_000
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def covered(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


# ---------------------------------------------------------------- when


def why(no: int, every: int = 8, **given: Any) -> str:
    return why_closed(no, every, **{"is_capturing": False, "profiler": "", **given})


def test_the_first_window_opens_after_the_first_steps_and_others_in_turn() -> None:
    assert all(why(no) for no in range(FIRST_STEP))
    assert not why(FIRST_STEP)
    opened = [no for no in range(10_000) if not why(no, 64)]
    assert len(opened) == pytest.approx(10_000 / 64, rel=0.05)


@pytest.mark.parametrize("every", [2, 64, 4096])
def test_a_rank_with_more_windows_has_all_of_one_with_fewer(every: int) -> None:
    steps = range(20_000)
    few = {no for no in steps if not why(no, every)}
    assert few <= {no for no in steps if not why(no, every // 2)}


def test_it_says_why_it_does_not_open() -> None:
    assert "graph" in why(FIRST_STEP, is_capturing=True)
    assert "script" in why(FIRST_STEP, profiler="script")
    assert "profile" in why(FIRST_STEP, profiler="muster")


@given(st.integers(0, 300 * MS), st.integers(MS // 2, 500 * MS))
def test_windows_stay_within_their_budget(cost_ns: int, step_ns: int) -> None:
    """The first one is paid for by the steps up to the second."""
    budget, spent = WindowBudget(), 0
    budget.add_step(step_ns)
    budget.add_window(cost_ns)
    steps = 4 * budget.every
    for no in range(FIRST_STEP, min(steps, 4_000_000), 1 if steps < 5_000 else 997):
        spent += cost_ns if steps < 5_000 and not why(no, budget.every) else 0
    assert spent <= 1.3 * BUDGET * steps * step_ns
    assert cost_ns <= BUDGET / 2 * budget.every * step_ns or budget.every == windows.MAX_EVERY


# ---------------------------------------------------------------- beside other profilers


def test_slow_first_steps_do_not_make_windows_cheap() -> None:
    budget = WindowBudget()
    for ms in (30_000, *[100] * 8):
        budget.add_step(ms * MS)
    budget.add_window(20 * MS)
    assert budget.every >= 32


@pytest.fixture
def opened() -> Any:
    """Windows over the processor, of which the first is open."""
    found = KernelWindows(world_size=2)
    found.budget.add_step(10 * MS)
    found.begin_step(FIRST_STEP)
    yield found
    found.abandon()


def profiled() -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.ones(3).add_(1)
    return {event.key for event in profiler.key_averages()}


def test_a_window_is_two_steps_and_the_second_one_is_read(opened: KernelWindows) -> None:
    assert opened.end_step() is None
    assert opened.is_border
    opened.begin_step(FIRST_STEP + 1)
    assert opened.measures
    torch.ones(300, 300) @ torch.ones(300, 300)
    seen = opened.end_step()
    assert seen is not None
    assert {one.kind for one in seen.activities} == {"computation"}
    opened.begin_step(FIRST_STEP + 2)
    assert opened.end_step() is None
    assert not opened.is_border


def test_the_script_s_own_profiler_is_given_the_place(opened: KernelWindows) -> None:
    assert "aten::add_" in profiled()
    opened.begin_step(FIRST_STEP + 1)
    assert opened.end_step() is None


def test_no_window_opens_beside_the_script_s_profiler(monkeypatch: Any) -> None:
    monkeypatch.setattr(windows, "FIRST_STEP", 0)
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule
    ) as profiler:
        found = KernelWindows(world_size=2)
        for _ in range(2):  # while it warms up, and while it records
            found.begin_step(0)
            assert found.end_step() is None
            assert not found.is_border
            torch.ones(3).add_(1)
            profiler.step()
    assert "aten::add_" in {event.key for event in profiler.key_averages()}
    found.begin_step(0)
    found.end_step()
    assert found.is_border
    found.abandon()


def test_no_window_opens_beside_muster_s_own_profile(monkeypatch: Any) -> None:
    found = KernelWindows(world_size=2)
    order = wire.ProfileOrder(no=1, num_steps=2, ranks=[0])
    monkeypatch.setattr(profile_window, "_order", order)
    found.begin_step(FIRST_STEP)
    found.end_step()
    assert not found.is_border


def test_a_profiler_that_is_refused_ends_the_windows_with_one_sentence(
    monkeypatch: Any, recwarn: Any
) -> None:
    said: list[str] = []
    monkeypatch.setattr(windows, "warn_once", said.append)
    # This torch has no CUDA, as a driver that refuses CUPTI shows no kernels.
    found = KernelWindows(world_size=2, cuda=SimpleNamespace(is_current_stream_capturing=bool))
    assert found.is_off
    found.begin_step(FIRST_STEP)
    assert found.end_step() is None
    assert len(said) == 1
    assert "communication on the GPU is not reported" in said[0]


def test_a_torch_with_another_profiler_is_said_in_one_sentence(monkeypatch: Any) -> None:
    said: list[str] = []
    monkeypatch.setattr(windows, "warn_once", said.append)
    monkeypatch.setenv(windows.SWITCH, "cpu")
    monkeypatch.delattr(torch.autograd.profiler.profile, "_prepare_trace")
    run: Any = SimpleNamespace(info=SimpleNamespace(world_size=2), measures_comm=True)
    assert windows.windows_of(run, on_device=False) is None
    assert len(said) == 1
    assert "AttributeError" in said[0]


# ---------------------------------------------------------------- what is seen


@given(spans, spans)
def test_subtracting_agrees_with_sets_of_points(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    rest = subtract(merge(a), merge(b))
    assert covered(rest) == covered(a) - covered(b)
    assert rest == merge(rest)


def ran(kind: str, start: int, end: int, *, group: str = "world") -> Activity:
    return Activity("communication", kind, start, end, 0, CollectiveInfo(kind, group, 8, None))


def computed(start: int, end: int) -> Activity:
    return Activity("computation", "mm", start, end, 1)


STEP = [Segment("forward", 0, 100), Segment("backward", 100, 300), Segment("optimizer", 300, 350)]


def test_exposed_is_what_runs_while_nothing_computes() -> None:
    use = timeline_use(
        [
            ran("all_reduce", 150, 250),
            ran("all_gather", 240, 320, group="mesh_tp"),
            ran("send", 330, 340),
            ran("all_reduce", -20, 10),  # of the step before
            ran("all_reduce", 349, 400),
            ran("all_reduce", 360, 400),  # of the next one
            computed(0, 200),
            computed(260, 280),
        ],
        STEP,
    )
    assert use.total == 10 + 170 + 10 + 1
    assert use.exposed == 60 + 40 + 10 + 1
    assert use.exposed_by_phase == {"backward": 80, "optimizer": 31}
    assert use.exposed_by_group == {"world": 51, "mesh_tp": 60}
    assert use.count == 4
    assert use.kinds["world", "all_reduce"].count == 2
    assert use.kinds["mesh_tp", "all_gather"].time == 80


class Event(SimpleNamespace):
    """One of Kineto's, in ms."""

    def __init__(self, name: str, start: float, ms: float, *, device: str = "CUDA", **more: Any):
        values = {
            "name": name,
            "start_ns": 5_000 * MS + round(start * MS),
            "duration_ns": round(ms * MS),
            "device_type": f"DeviceType.{device}",
            "is_user_annotation": False,
            "correlation_id": 0,
            "linked_correlation_id": 0,
            "extra_meta": {},
            **more,
        }
        super().__init__(**{n: (lambda value=v: value) for n, v in values.items()})


META = {
    "Collective name": '"_allgather_base"',
    "In msg nelems": "500",
    "Out msg nelems": "1000",
    "dtype": '"BFloat16"',
    "Process Group Name": '"3"',
}


def test_kernels_are_told_apart_and_collectives_named() -> None:
    seen = read_device(
        [
            Event("aten::mm", 0, 50, device="CPU"),
            Event("record_param_comms", 1, 1, device="CPU", correlation_id=7, extra_meta=META),
            Event("step 3", 0, 50, is_user_annotation=True),
            Event("ampere_sgemm", 0, 10),
            Event("ncclDevKernel_AllGather_RING_LL", 5, 20, linked_correlation_id=7),
            Event("ncclDevKernel_ReduceScatter_Sum_f32", 26, 4),
            Event("Memcpy HtoD", 30, 2),
        ],
        5_000 * MS,
        lambda name: {"3": "mesh_dp", "": "unknown"}[name],
    )
    assert seen is not None
    assert seen.last_ns == 32 * MS
    assert [(one.kind, one.start_ns, one.end_ns, one.collective) for one in seen.activities] == [
        ("computation", 0, 10 * MS, None),
        ("communication", 5 * MS, 25 * MS, ("all_gather", "mesh_dp", 2000, None, None)),
        ("communication", 26 * MS, 30 * MS, ("reduce_scatter", "unknown", None, None, None)),
        ("copy", 30 * MS, 32 * MS, None),
    ]
    assert read_device([Event("aten::mm", 0, 50, device="CPU")], 0, str) is None


def test_phases_of_the_device_are_placed_by_its_last_work() -> None:
    seen = SeenStep([], 1_000)
    assert seen.on_device(STEP)[-1] == Segment("optimizer", 950, 1_000)
    assert seen.on_device(STEP)[0] == Segment("forward", 650, 750)
