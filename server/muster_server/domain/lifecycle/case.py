"""One trial with its current attempt while it is worked through: what is true, what is decided."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from ..states import (
    ALLOCATION_TRANSITIONS,
    ATTEMPT_TRANSITIONS,
    TERMINAL_ATTEMPT,
    TRIAL_TRANSITIONS,
    AllocationState,
    AttemptState,
    Termination,
    TrialState,
    YieldKind,
)
from .actions import (
    Action,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetTrial,
    SetYield,
    require_legal,
)
from .avoidance import Avoided
from .outcomes import Outcome, member_outcome
from .silence import Hearing
from .views import AllocationView, AttemptView, NodeLease, TrialView


class TrialCase:
    """The state of a trial as it will be once `actions` are carried out.

    Each `set_…` appends one action and moves the state on; a step that no table allows raises
    ValueError.
    """

    def __init__(
        self,
        trial: TrialView,
        nodes: Mapping[str, NodeLease],
        hearing: Hearing,
    ) -> None:
        self.trial = trial
        self.nodes = nodes
        self.hearing = hearing
        self.now = hearing.now
        self.policy = hearing.policy
        self.actions: list[Action] = []
        self.state = trial.state
        attempt = trial.attempt
        # Without an attempt nothing asks for it; PLANNED is no end, and no state that is acted on.
        self.attempt_state = attempt.state if attempt else AttemptState.PLANNED
        self.attempt_reason = attempt.reason if attempt else ""
        self.attempt_termination = attempt.termination if attempt else None
        self.attempt_ended_at = attempt.ended_at if attempt else None
        self.has_just_ended = False
        """The attempt's end is among the actions."""
        self.yield_kind = attempt.yield_kind if attempt else None
        self.yield_reason = attempt.yield_reason if attempt else ""
        self.yield_at = attempt.yield_at if attempt else None
        self.members = attempt.allocations if attempt else ()
        self.observed = {a.id: a.observed for a in self.members}
        self.wanted = {a.id: a.desired for a in self.members}

    @property
    def attempt(self) -> AttemptView:
        """The current one. Only asked for where there is one."""
        assert self.trial.attempt is not None
        return self.trial.attempt

    @property
    def is_over(self) -> bool:
        """The attempt has ended, although members of it may still have to."""
        return self.attempt_state in TERMINAL_ATTEMPT

    def is_finished(self, member: AllocationView) -> bool:
        return self.observed[member.id] in (
            AllocationState.EXITED,
            AllocationState.CLEANED,
            AllocationState.PREPARE_FAILED,
            AllocationState.LOST,
        )

    def waited_s(self, since: dt.datetime) -> float:
        """Return how long its members have been waited for, in seconds (see Hearing.waited_s of
        their nodes)."""
        return self.hearing.waited_s(
            since, (self.nodes.get(a.node_id) for a in self.members if not self.is_finished(a))
        )

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of the members that have ended."""
        outcomes: list[Outcome] = []
        for member in self.members:
            node = self.nodes.get(member.node_id)
            outcome = member_outcome(
                self.observed[member.id],
                self.wanted[member.id],
                member.exit,
                node_name=member.node_name,
                member=member.member,
                message=member.message,
                last_seen_at=node.last_seen_at if node else None,
            )
            if outcome is not None:
                outcomes.append(self._judged(member, outcome))
        return outcomes

    def _judged(self, member: AllocationView, outcome: Outcome) -> Outcome:
        """Return the outcome as the member's role counts it: where failures are ignored, one that has
        run has done its part."""
        role = self.trial.roles.get(member.role)
        is_ignored = role is not None and role.on_failure == "ignore" and outcome.failed
        has_run = self.observed[member.id] != AllocationState.PREPARE_FAILED
        return replace(outcome, succeeded=True, failed=False) if is_ignored and has_run else outcome

    @property
    def finishing(self) -> str:
        """The role whose end ends the others, once all its members have exited with 0; "" before."""
        for name, role in self.trial.roles.items():
            own = [member for member in self.members if member.role == name]
            if role.on_end == "finish" and own and all(map(self._has_succeeded, own)):
                return name
        return ""

    def _has_succeeded(self, member: AllocationView) -> bool:
        outcome = member_outcome(
            self.observed[member.id], self.wanted[member.id], member.exit, node_name=""
        )
        return outcome is not None and outcome.succeeded

    # decisions

    def set_attempt(
        self,
        after: AttemptState,
        reason: str,
        *,
        termination: Termination | None = None,
        root_rank: int | None = None,
        root_log_tail: tuple[str, ...] = (),
    ) -> None:
        require_legal(ATTEMPT_TRANSITIONS, self.attempt_state, after, f"attempt {self.attempt.id}")
        self.actions.append(
            SetAttempt(
                attempt_id=self.attempt.id,
                before=self.attempt_state,
                after=after,
                reason=reason,
                termination=termination,
                root_rank=root_rank,
                root_log_tail=root_log_tail,
            )
        )
        if after in TERMINAL_ATTEMPT and not self.is_over:
            self.attempt_ended_at, self.has_just_ended = self.now, True
        self.attempt_state, self.attempt_reason = after, reason
        self.attempt_termination = termination or self.attempt_termination

    def set_yield(self, kind: YieldKind, reason: str) -> None:
        self.actions.append(
            SetYield(
                attempt_id=self.attempt.id, before=self.attempt_state, kind=kind, reason=reason
            )
        )
        self.yield_kind, self.yield_reason, self.yield_at = kind, reason, self.now

    def set_allocation(self, member: AllocationView, after: AllocationState, reason: str) -> None:
        before = self.observed[member.id]
        require_legal(ALLOCATION_TRANSITIONS, before, after, f"allocation {member.id}")
        self.actions.append(
            SetAllocation(allocation_id=member.id, before=before, after=after, reason=reason)
        )
        self.observed[member.id] = after

    def set_desired(
        self,
        member: AllocationView,
        after: Literal["start", "stop", "kill"],
        reason: str,
        *,
        kind: str = "",
        grace_s: float | None = None,
    ) -> None:
        self.actions.append(
            SetDesired(
                allocation_id=member.id,
                node_id=member.node_id,
                before=self.wanted[member.id],
                after=after,
                reason=reason,
                kind=kind,
                grace_s=grace_s,
            )
        )
        self.wanted[member.id] = after

    def set_trial(
        self,
        after: TrialState,
        reason: str,
        *,
        termination: Termination | None = None,
        not_before: dt.datetime | None = None,
        failures_user: int | None = None,
        failures_infra: int | None = None,
        no_progress: int | None = None,
        avoided: tuple[Avoided, ...] | None = None,
        logs_complete: bool = False,
    ) -> None:
        require_legal(TRIAL_TRANSITIONS, self.state, after, f"trial {self.trial.id}")
        self.actions.append(
            SetTrial(
                trial_id=self.trial.id,
                before=self.state,
                after=after,
                reason=reason,
                termination=termination,
                not_before=not_before,
                failures_user=failures_user,
                failures_infra=failures_infra,
                no_progress=no_progress,
                avoided=avoided,
                logs_complete=logs_complete,
            )
        )
        self.state = after
