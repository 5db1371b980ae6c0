"""What a deployment needs next: replicas to start, to drain and to stop, and the end of an update.

An update starts one replica of the new revision at a time, waits until the router sees it ready, and only then
takes an old one out of the router. Requests that an old one still answers are waited for before
it is stopped. A new revision that does not become ready, or answers with more errors than the old one,
is given up: the former revision is the target again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Phase = Literal["starting", "serving", "draining", "stopping", "ended"]
"""Phase of a replica. `starting`: not ready for the first time, or again after a restart. `serving`: the
router sends requests to it. `draining`: it gets no new ones. `stopping`: its job was asked to stop."""


LIVE: tuple[Phase, ...] = ("starting", "serving")
"""Phases of the replicas that serve, or will."""


@dataclass(frozen=True, kw_only=True)
class DeploymentPolicy:
    drain_max_s: float = 60.0
    """Seconds that a replica may take to answer what it has begun."""
    failures_max: int = 2
    """Replicas of a new revision that may end before one was ready; then the update is given up."""
    backoff_s: float = 5.0
    """Seconds until a replica that failed is replaced; doubled with each further failure."""
    backoff_max_s: float = 300.0
    errors_min: int = 10
    """Errors of a new revision below which its error rate is not judged."""
    errors_margin: float = 0.05
    """How much greater than the old one's a new revision's error rate may be."""


@dataclass(frozen=True, kw_only=True)
class ReplicaView:
    id: int
    revision: int
    """Number of the revision."""
    phase: Phase
    phase_since: dt.datetime
    is_over: bool = False
    """Whether its job has ended for good."""
    is_up: bool = False
    """Whether the router reaches it, and it says that it is ready."""
    is_routed: bool = False
    """Whether the router may still send requests to it."""
    num_sessions: int = 0
    """Requests that it is answering."""
    num_requests: int = 0
    num_errors: int = 0
    """Answers of 500 and above."""
    reason: str = ""
    """Why its job waits or has ended."""


@dataclass(frozen=True, kw_only=True)
class DeploymentView:
    id: int
    wants: Literal["run", "stop"]
    is_stopped: bool
    """Whether it is stopped, with nothing left of it."""
    num_replicas: int
    target: int
    """Number of the revision that is to serve."""
    stable: int | None
    """Number of the revision that served completely before; None: there is none yet."""
    ready_within_s: float = 300.0
    """Seconds that a replica of an update may take until it is ready, waiting for slots included."""
    num_failures: int = 0
    """Replicas of the target that ended since it last was ready."""
    failed_at: dt.datetime | None = None
    replicas: tuple[ReplicaView, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Start:
    """Start a replica of the target revision."""

    deployment_id: int
    revision: int
    index: int
    """Number among those started at once."""


@dataclass(frozen=True, kw_only=True)
class SetPhase:
    """Take a replica from one phase to the next; its job is asked to stop with `stopping`."""

    deployment_id: int
    replica_id: int
    before: Phase
    after: Phase
    reason: str = ""
    counts_as_failure: bool = False


@dataclass(frozen=True, kw_only=True)
class SettleUpdate:
    """The target serves with all its replicas, alone: it is the stable revision now."""

    deployment_id: int
    revision: int


@dataclass(frozen=True, kw_only=True)
class Abort:
    """Give an update up, and make the former revision the target again."""

    deployment_id: int
    revision: int
    back_to: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Nothing is left of a deployment that was to stop."""

    deployment_id: int


DeploymentDecision = Start | SetPhase | SettleUpdate | Abort | Stopped


def decide(
    deployment: DeploymentView, *, now: dt.datetime, policy: DeploymentPolicy
) -> list[DeploymentDecision]:
    """Return what is to be done now; further steps follow from what is seen after it."""
    moved: list[DeploymentDecision] = list(_follow(deployment, now, policy))
    if moved:
        return moved  # what else is needed depends on it
    if deployment.wants == "stop":
        return list(_stop(deployment))
    if (abort := _abort(deployment, now, policy)) is not None:
        return [abort]
    return [*_roll(deployment, now, policy), *_settle(deployment)]


def _follow(
    deployment: DeploymentView, now: dt.datetime, policy: DeploymentPolicy
) -> Iterator[SetPhase]:
    """Yield what follows from what replicas, jobs and the router show."""
    for one in deployment.replicas:
        waited_s = (now - one.phase_since).total_seconds()
        after: Phase | None = None
        reason, failed = "", False
        if one.phase != "ended" and one.is_over:
            failed = one.phase in LIVE
            after, reason = "ended", one.reason
        elif one.phase == "starting" and one.is_up:
            after = "serving"
        elif one.phase == "serving" and not one.is_up:
            after, reason = "starting", "no longer ready"
        elif one.phase == "draining":
            if not one.is_routed and one.num_sessions == 0:
                after = "stopping"
            elif waited_s >= policy.drain_max_s:
                after, reason = "stopping", f"{one.num_sessions} requests were left"
        if after is not None:
            yield SetPhase(
                deployment_id=deployment.id,
                replica_id=one.id,
                before=one.phase,
                after=after,
                reason=reason,
                counts_as_failure=failed and one.revision == deployment.target,
            )


def _live(deployment: DeploymentView) -> list[ReplicaView]:
    """Return the replicas that serve, or will."""
    return [one for one in deployment.replicas if one.phase in LIVE]


def _remove(deployment: DeploymentView, one: ReplicaView, reason: str) -> SetPhase:
    """Take a replica out of the router, also one that is not ready: it may become so at any moment."""
    return SetPhase(
        deployment_id=deployment.id,
        replica_id=one.id,
        before=one.phase,
        after="draining",
        reason=reason,
    )


def _stop(deployment: DeploymentView) -> Iterator[DeploymentDecision]:
    for one in _live(deployment):
        yield _remove(deployment, one, "the deployment is being stopped")
    if not deployment.is_stopped and all(one.phase == "ended" for one in deployment.replicas):
        yield Stopped(deployment_id=deployment.id)


def _abort(deployment: DeploymentView, now: dt.datetime, policy: DeploymentPolicy) -> Abort | None:
    if deployment.stable is None or deployment.stable == deployment.target:
        return None

    def abort(reason: str) -> Abort:
        assert deployment.stable is not None
        return Abort(
            deployment_id=deployment.id,
            revision=deployment.target,
            back_to=deployment.stable,
            reason=reason,
        )

    new = [one for one in deployment.replicas if one.revision == deployment.target]
    if deployment.num_failures >= policy.failures_max:
        why = next((one.reason for one in reversed(new) if one.phase == "ended"), "")
        return abort(f"{deployment.num_failures} replicas ended before they were ready: {why}")
    ready = [one for one in new if one.phase == "serving"]
    waiting = [one for one in new if one.phase == "starting"]
    for one in waiting:
        if (now - one.phase_since).total_seconds() >= deployment.ready_within_s:
            why = f": {one.reason}" if one.reason else ""
            return abort(f"a replica was not ready within {deployment.ready_within_s:g} s{why}")
    if not ready:
        return None
    errors, rate = _error_rate(new)
    _, before = _error_rate(
        [one for one in deployment.replicas if one.revision == deployment.stable]
    )
    if errors >= policy.errors_min and rate > before + policy.errors_margin:
        return abort(
            f"{rate:.0%} of its requests failed, and {before:.0%} of the former revision's"
        )
    return None


def _error_rate(replicas: Sequence[ReplicaView]) -> tuple[int, float]:
    """Return the errors of replicas, and their share of all requests; 0 without requests."""
    errors = sum(one.num_errors for one in replicas)
    requests = sum(one.num_requests for one in replicas)
    return errors, errors / requests if requests else 0.0


def _roll(
    deployment: DeploymentView, now: dt.datetime, policy: DeploymentPolicy
) -> Iterator[DeploymentDecision]:
    live = _live(deployment)
    new = [one for one in live if one.revision == deployment.target]
    old = sorted((one for one in live if one.revision != deployment.target), key=lambda o: o.id)
    wanted = deployment.num_replicas
    num_ready = sum(one.phase == "serving" for one in live)
    missing = wanted - len(new)
    if missing > 0 and _may_start(deployment, now, policy):
        # One at a time while old ones serve, and one replica more than wanted at most.
        is_update = any(one.phase == "serving" for one in old)
        is_waiting = any(one.phase == "starting" for one in new)
        if not is_update:
            for index in range(missing):
                yield Start(deployment_id=deployment.id, revision=deployment.target, index=index)
        elif not is_waiting and len(live) <= wanted:
            yield Start(deployment_id=deployment.id, revision=deployment.target, index=0)
    for one in old:
        if one.phase == "starting":
            # What the router misses for a moment may be all that there is to go back to.
            if one.revision != deployment.stable or any(n.phase == "serving" for n in new):
                yield _remove(deployment, one, "its revision is replaced")
        elif num_ready > wanted or sum(n.phase == "serving" for n in new) >= wanted:
            num_ready -= 1
            yield _remove(deployment, one, "its revision is replaced")
    extra = len(new) - wanted
    for one in sorted(new, key=lambda n: (n.phase == "serving", n.id))[: max(extra, 0)]:
        yield _remove(deployment, one, "fewer replicas are wanted")


def _may_start(deployment: DeploymentView, now: dt.datetime, policy: DeploymentPolicy) -> bool:
    if not deployment.num_failures or deployment.failed_at is None:
        return True
    wait_s = min(
        policy.backoff_s * 2.0 ** min(deployment.num_failures - 1, 20), policy.backoff_max_s
    )
    return (now - deployment.failed_at).total_seconds() >= wait_s


def _settle(deployment: DeploymentView) -> Iterator[DeploymentDecision]:
    if deployment.stable == deployment.target:
        return
    live = _live(deployment)
    is_complete = len(live) == deployment.num_replicas and all(
        one.phase == "serving" and one.revision == deployment.target for one in live
    )
    is_alone = all(
        one.revision == deployment.target or one.phase == "ended" for one in deployment.replicas
    )
    if is_complete and is_alone:
        yield SettleUpdate(deployment_id=deployment.id, revision=deployment.target)
