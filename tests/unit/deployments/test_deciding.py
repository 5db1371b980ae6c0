from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_models.domain.deployments.deciding import (
    Abort,
    DeploymentDecision,
    DeploymentPolicy,
    DeploymentView,
    ReplicaView,
    SetPhase,
    SettleUpdate,
    Start,
    Stopped,
    decide,
)

T0 = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
POLICY = DeploymentPolicy()


def at(seconds: float) -> dt.datetime:
    return T0 + dt.timedelta(seconds=seconds)


def replica(no: int, revision: int = 1, phase: str = "serving", **more: object) -> ReplicaView:
    is_up = more.pop("is_up", phase == "serving")
    is_routed = more.pop("is_routed", is_up)
    return ReplicaView(
        id=no, revision=revision, phase=phase, phase_since=T0, is_up=is_up, is_routed=is_routed, **more
    )  # type: ignore[arg-type]  # fmt: skip


def deployment(
    *replicas: ReplicaView, num: int = 2, target: int = 1, **more: object
) -> DeploymentView:
    given = {"wants": "run", "is_stopped": False, "stable": 1, **more}
    return DeploymentView(id=1, num_replicas=num, target=target, replicas=replicas, **given)  # type: ignore[arg-type]


def steps(of: DeploymentView, seconds: float = 1.0) -> list[DeploymentDecision]:
    return decide(of, now=at(seconds), policy=POLICY)


def test_a_new_deployment_starts_all_of_its_replicas() -> None:
    assert [type(step) for step in steps(deployment(stable=None))] == [Start, Start]


def test_an_update_starts_one_replica_and_leaves_the_old_ones() -> None:
    old = (replica(1), replica(2))
    assert steps(deployment(*old, target=2)) == [Start(deployment_id=1, revision=2, index=0)]
    waiting = deployment(*old, replica(3, 2, "starting"), target=2)
    assert steps(waiting) == []


def test_the_oldest_replica_is_drained_when_a_new_one_serves() -> None:
    (step,) = steps(deployment(replica(1), replica(2), replica(3, 2), target=2))
    assert isinstance(step, SetPhase)
    assert (step.replica_id, step.after) == (1, "draining")


def test_a_replica_is_stopped_only_when_the_router_shows_nothing_of_it() -> None:
    busy = replica(1, phase="draining", is_routed=False, num_sessions=3)
    assert steps(deployment(busy, replica(2), num=1)) == []
    routed = replica(1, phase="draining", is_routed=True)
    assert steps(deployment(routed, replica(2), num=1)) == []
    (step,) = steps(deployment(replace(busy, num_sessions=0), replica(2), num=1))
    assert isinstance(step, SetPhase)
    assert step.after == "stopping"
    (late,) = steps(deployment(busy, replica(2), num=1), POLICY.drain_max_s)
    assert isinstance(late, SetPhase)
    assert (late.after, late.reason) == ("stopping", "3 requests were left")


def test_an_update_whose_replica_is_not_ready_in_time_is_given_up() -> None:
    found = deployment(
        replica(1), replica(2), replica(3, 2, "starting", reason="no free slot"), target=2
    )
    (step,) = steps(found, 300.0)
    assert step == Abort(
        deployment_id=1,
        revision=2,
        back_to=1,
        reason="a replica was not ready within 300 s: no free slot",
    )


def test_an_update_whose_replicas_end_is_given_up() -> None:
    found = deployment(
        replica(1),
        replica(2),
        replica(3, 2, "ended", reason="exit code 1"),
        target=2,
        num_failures=2,
        failed_at=T0,
    )
    (step,) = steps(found)
    assert isinstance(step, Abort)
    assert step.reason == "2 replicas ended before they were ready: exit code 1"


def test_an_update_with_more_errors_than_before_is_given_up() -> None:
    old = replica(1, num_requests=1000, num_errors=10)
    few = replica(3, 2, num_requests=20, num_errors=9)
    assert not any(isinstance(s, Abort) for s in steps(deployment(old, few, target=2)))
    bad = replica(3, 2, num_requests=100, num_errors=10)
    (step,) = steps(deployment(old, bad, target=2))
    assert isinstance(step, Abort)
    assert step.reason == "10% of its requests failed, and 1% of the former revision's"
    as_before = replica(3, 2, num_requests=100, num_errors=10)
    worse_before = replica(1, num_requests=1000, num_errors=80)
    found = steps(deployment(worse_before, as_before, target=2))
    assert not any(isinstance(s, Abort) for s in found)


def test_replicas_that_fail_are_replaced_later_and_later() -> None:
    failed = deployment(num_failures=3, failed_at=T0, num=1)
    assert steps(failed, 19.0) == []
    assert [type(step) for step in steps(failed, 20.0)] == [Start]


def test_fewer_replicas_are_wanted() -> None:
    waiting, serving = replica(1, phase="starting"), (replica(2), replica(3))
    (step,) = steps(deployment(waiting, *serving))
    assert isinstance(step, SetPhase)
    assert (step.replica_id, step.after) == (1, "draining")


def test_what_the_router_misses_for_a_moment_is_kept_while_nothing_new_serves() -> None:
    away = (replica(1, phase="starting"), replica(2, phase="starting"))
    assert not any(isinstance(s, SetPhase) for s in steps(deployment(*away, target=2)))


def test_a_stopped_deployment_ends_when_its_replicas_have() -> None:
    stopping = deployment(replica(1), wants="stop")
    (drain,) = steps(stopping)
    assert isinstance(drain, SetPhase)
    assert drain.after == "draining"
    assert steps(deployment(replica(1, phase="ended"), wants="stop")) == [Stopped(deployment_id=1)]


# ---------------------------------------------------------------- over time


@dataclass
class World:
    """Replicas and router that do what is decided, and what the test makes happen to them."""

    view: DeploymentView
    seconds: float = 0.0
    next_id: int = 1
    bad: set[int] = field(default_factory=set)
    """Revisions whose replicas end before they are ready."""

    def work(self) -> None:
        """Let a second pass, and decide until nothing is left to."""
        self.seconds += 1.0
        for _ in range(20):
            found = decide(self.view, now=at(self.seconds), policy=POLICY)
            if not found:
                return
            for step in found:
                self._apply(step)
        raise AssertionError(f"decides for ever: {found}")

    def _apply(self, step: DeploymentDecision) -> None:
        view = self.view
        match step:
            case Start():
                new = ReplicaView(
                    id=self.next_id,
                    revision=step.revision,
                    phase="starting",
                    phase_since=at(self.seconds),
                )
                self.next_id += 1
                self.view = replace(view, replicas=(*view.replicas, new))
            case SetPhase():
                self.change(
                    step.replica_id,
                    phase=step.after,
                    phase_since=at(self.seconds),
                    is_routed=step.after in ("starting", "serving"),
                )
                if step.counts_as_failure:
                    num = self.view.num_failures + 1
                    self.view = replace(self.view, num_failures=num, failed_at=at(self.seconds))
                if step.after == "serving":
                    self.view = replace(self.view, num_failures=0)
            case SettleUpdate():
                self.view = replace(view, stable=step.revision)
            case Abort():
                self.view = replace(view, target=step.back_to, num_failures=0)
            case Stopped():
                self.view = replace(view, is_stopped=True)

    def change(self, replica_id: int, **values: object) -> None:
        self.view = replace(
            self.view,
            replicas=tuple(
                replace(one, **values) if one.id == replica_id else one  # type: ignore[arg-type]
                for one in self.view.replicas
            ),
        )

    def progress(self) -> None:
        """Let replicas become ready, fail, and end when they were asked to."""
        for one in self.view.replicas:
            if one.phase == "starting":
                if one.revision in self.bad:
                    self.change(one.id, is_over=True, reason="exit code 1")
                else:
                    self.change(one.id, is_up=True, is_routed=True)
            elif one.phase == "stopping":
                self.change(one.id, is_over=True)

    @property
    def num_serving(self) -> int:
        return sum(one.phase == "serving" for one in self.view.replicas)


EVENT = st.sampled_from(["update", "bad update", "more", "fewer", "kill", "nothing"])


@given(st.integers(1, 4), st.lists(EVENT, max_size=12))
@settings(max_examples=200, deadline=None)
def test_updates_keep_the_wanted_number_serving_and_end(num: int, events: list[str]) -> None:
    world = World(deployment(num=num, stable=None))
    revision = 1

    def settle() -> None:
        for _ in range(400):
            world.work()
            world.progress()
            view = world.view
            if view.stable == view.target and world.num_serving == view.num_replicas:
                world.work()
                return
        raise AssertionError(f"never ready: {world.view}")

    settle()
    for event in events:
        view = world.view
        if event in ("update", "bad update"):
            revision += 1
            if event == "bad update":
                world.bad.add(revision)
            world.view = replace(view, target=revision, num_failures=0)
        elif event in ("more", "fewer"):
            change = 1 if event == "more" else -1
            world.view = replace(view, num_replicas=max(1, view.num_replicas + change))
        elif event == "kill":
            serving = [one for one in view.replicas if one.phase == "serving"]
            world.change(serving[0].id, is_over=True, is_up=False, is_routed=False)
        least = min(world.num_serving, world.view.num_replicas) - (event == "kill")
        for _ in range(3):
            world.work()
            assert world.num_serving >= least
            live = [one for one in world.view.replicas if one.phase in ("starting", "serving")]
            assert len(live) <= max(world.view.num_replicas, world.view.num_replicas + 1)
            world.progress()
        settle()
        assert world.view.stable not in world.bad
        assert {one.revision for one in world.view.replicas if one.phase == "serving"} == {
            world.view.stable
        }
