"""What a pipeline's step was like, from an agent's record to the answer of the API."""

import pytest

from muster.wire import GroupRecord, ScheduleRecord


def noted(
    rank, *, step=9, kinds=("forward", "backward"), starts_us=(0, 5000), ends_us=(1000, 7000)
):
    return ScheduleRecord(
        local_rank=rank, rank=rank, step=step, kinds=list(kinds), stages=[rank] * len(kinds),
        micro_batches=[0] * len(kinds), starts_us=list(starts_us), ends_us=list(ends_us),
    )  # fmt: skip


def test_the_newest_step_of_all_workers_is_shown_on_one_clock(controller, agent, submit, show):
    node = agent(slots=2)
    experiment_id = submit(slots=2)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    path = f"/trials/{trial['id']}/pipeline-step"
    assert show(path)["lanes"] == []

    group = GroupRecord(name="mesh_pp", kind="pp", backend="gloo", ranks=[0, 1])
    # Its clock is 3 ms ahead, and a message takes 0.5 ms each way.
    second = noted(1, starts_us=(4500, 6000), ends_us=(6000, 7500))
    node.send(allocation_id, group, noted(0, step=8), noted(1, step=8), noted(0), second)
    node.send(allocation_id, noted(0, step=16), noted(1, step=16, kinds=("forward", "coffee")))
    shown = show(path)
    assert (shown["step"], shown["num_pipelines"]) == (9, 1)
    first, later = shown["lanes"]
    assert [o["start_ms"] for o in first["operations"]] == [0.0, 5.0]
    assert [o["start_ms"] for o in later["operations"]] == pytest.approx([1.5, 3.0])
    assert [first["error_ms"], later["error_ms"]] == pytest.approx([0.0, 0.5])
    assert shown["total_ms"] == pytest.approx(7.0)
    assert shown["idle_share"] == pytest.approx(1 - 6 / 14)
    said = [e["message"] for e in show(f"/trials/{trial['id']}/events")["items"]]
    assert any("rank 1 noted was not kept: a kind is none of" in text for text in said)
