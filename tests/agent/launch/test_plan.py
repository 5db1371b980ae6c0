"""Wanted × observed → actions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import wire
from muster_agent.plan import (
    DeclareLost,
    Forget,
    GiveShards,
    Kill,
    Local,
    Prepare,
    Profile,
    Settle,
    StartAllocation,
    Stop,
    TakeStacks,
    plan,
)

OBSERVED = [
    "ASSIGNED", "PREPARING", "READY", "PREPARE_FAILED", "STARTING", "RUNNING", "STOPPING", "EXITED",
]  # fmt: skip


def local(**changes: Any) -> Local:
    return Local(**{"allocation_id": "a1", "observed": "RUNNING", "shim": "alive", **changes})


@pytest.fixture
def wanted(make_spec: Any) -> Any:
    def build(desired: str, **changes: Any) -> dict[str, wire.Assignment]:
        rendezvous = changes.pop("rendezvous", None)
        spec = make_spec(**changes)
        assignment = wire.Assignment(spec=spec, desired=desired, rendezvous=rendezvous)  # type: ignore[arg-type]
        return {"a1": assignment}

    return build


def test_the_kind_of_a_stop_is_passed_on(wanted: Any) -> None:
    (assignment,) = wanted("stop").values()
    asked = dataclasses.replace(assignment, stop_reason="n1 is being drained", stop_kind="drain")
    (stop,) = plan({"a1": asked}, [local()])
    assert isinstance(stop, Stop)
    assert (stop.kind, stop.reason) == ("drain", "n1 is being drained")


def kinds(actions: list[Any]) -> list[type]:
    return [type(a) for a in actions]


@pytest.mark.parametrize(
    ("desired", "expected"),
    [("prepare", Prepare), ("start", Prepare), ("stop", Settle), ("kill", Settle)],
)
def test_unknown_allocation(wanted: Any, desired: str, expected: type) -> None:
    assert kinds(plan(wanted(desired), [])) == [expected]


@pytest.mark.parametrize(
    ("desired", "observed", "asked", "expected"),
    [
        ("prepare", "READY", [], []),
        ("start", "PREPARING", [], []),
        ("start", "READY", [], [StartAllocation]),
        ("start", "READY", ["start"], []),
        ("start", "RUNNING", ["start"], []),
        ("stop", "PREPARING", [], [Stop]),
        ("stop", "RUNNING", ["start"], [Stop]),
        ("stop", "STOPPING", ["start", "stop"], []),
        ("stop", "STOPPING", ["start", "kill"], []),
        ("kill", "STOPPING", ["start", "stop"], [Kill]),
        ("kill", "STOPPING", ["start", "kill"], []),
        ("stop", "EXITED", [], []),
        ("start", "PREPARE_FAILED", [], []),
    ],
)
def test_living_shim(
    wanted: Any, desired: str, observed: str, asked: list[str], expected: list[type]
) -> None:
    item = local(observed=observed, asked=frozenset(asked))
    assert kinds(plan(wanted(desired), [item])) == expected


def test_gang_starts_only_with_its_rendezvous(wanted: Any) -> None:
    item = local(observed="READY")
    assert plan(wanted("start", num_nodes=2), [item]) == []
    meeting = wire.Rendezvous(host="h", port=1, run_id="r")
    (action,) = plan(wanted("start", num_nodes=2, rendezvous=meeting), [item])
    assert isinstance(action, StartAllocation)
    assert action.rendezvous == meeting


def test_stacks_are_asked_for_once_while_it_runs(wanted: Any) -> None:
    desired = {id: dataclasses.replace(a, stacks_no=2) for id, a in wanted("start").items()}
    asks = TakeStacks(allocation_id="a1", no=2)
    assert plan(desired, [local(observed="RUNNING", stacks_no=1)]) == [asks]
    assert plan(desired, [local(observed="RUNNING", stacks_no=2)]) == []


def test_a_window_of_the_profiler_is_asked_for_once_while_it_runs(wanted: Any) -> None:
    order = wire.ProfileOrder(no=2, ranks=[0], num_steps=3)
    desired = {id: dataclasses.replace(a, profile=order) for id, a in wanted("start").items()}
    assert plan(desired, [local(observed="RUNNING", profile_no=1)]) == [
        Profile(allocation_id=next(iter(desired)), order=order)
    ]
    assert plan(desired, [local(observed="RUNNING", profile_no=2)]) == []
    assert plan(desired, [local(observed="STARTING", profile_no=1)]) == []
    assert plan(desired, [local(observed="STARTING")]) == []


def test_newer_shards_are_handed_on_while_it_starts_and_runs(wanted: Any) -> None:
    orders = wire.ShardOrders(no=3, wants_plan=True)
    desired = {id: dataclasses.replace(a, shards=orders) for id, a in wanted("start").items()}
    given = [GiveShards(allocation_id=next(iter(desired)), orders=orders)]
    started = frozenset({"start"})
    assert plan(desired, [local(asked=started, shards_no=2)]) == given
    assert plan(desired, [local(observed="STARTING", asked=started, shards_no=2)]) == given
    assert plan(desired, [local(asked=started, shards_no=3)]) == []
    assert plan(desired, [local(observed="READY", asked=frozenset({"start"}), shards_no=3)]) == []


def test_absent_means_forget() -> None:
    assert kinds(plan({}, [local()])) == [Forget]


def test_silent_server_changes_nothing_but_death_is_noted() -> None:
    assert plan(None, [local()]) == []
    (lost,) = plan(None, [local(shim="dead")])
    assert isinstance(lost, DeclareLost)
    assert lost.cause == "shim_lost"
    (rebooted,) = plan(None, [local(shim="rebooted")])
    assert isinstance(rebooted, DeclareLost)
    assert rebooted.cause == "node_rebooted"


def test_superseded_attempt_is_killed_once(wanted: Any) -> None:
    assert kinds(plan(wanted("start"), [local(is_superseded=True)])) == [Kill]
    again = local(is_superseded=True, asked=frozenset({"kill"}))
    assert plan(wanted("start"), [again]) == []


@given(
    observed=st.sampled_from(OBSERVED),
    shim=st.sampled_from(["starting", "alive", "dead", "rebooted"]),
    asked=st.frozensets(st.sampled_from(["start", "stop", "kill"])),
    is_busy=st.booleans(),
    is_superseded=st.booleans(),
    desired=st.sampled_from(["prepare", "start", "stop", "kill", None]),
)
def test_at_most_one_action_and_none_while_busy(
    observed: Any, shim: Any, asked: Any, is_busy: bool, is_superseded: bool, desired: Any
) -> None:
    item = local(
        observed=observed, shim=shim, asked=asked, is_busy=is_busy, is_superseded=is_superseded
    )
    spec = wire.AllocationSpec(
        allocation_id="a1", experiment_id=1, experiment_name="e", trial_id=1, trial_no=1,
        attempt_id=1, attempt_no=1, node_rank=0, num_nodes=1, slots=[0], slot_type="cpu",
        rank_offset=0, world_size=1, launcher="direct", entrypoint=["a.py"],
        code=wire.CodeSpec(kind="none"), python=None, environment={}, hparams={}, config={},
        seed=0, checkpoint_dir="c", resume_from=None, resume_step=0, stop_grace_s=1.0,
        on_disconnect="continue", log_limit_bytes=1,
    )  # fmt: skip
    wish = (
        {}
        if desired is None
        else {"a1": wire.Assignment(spec=spec, desired=desired, rendezvous=None)}
    )
    actions = plan(wish, [item])
    assert len(actions) <= 1
    if is_busy:
        assert actions == []
    if observed in ("EXITED", "PREPARE_FAILED") and desired is not None:
        assert actions == []
    assert all(a.reason for a in actions)
