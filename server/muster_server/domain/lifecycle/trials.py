"""One trial with its current attempt: barrier, ends, stops, restarts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Literal

from ..outcomes import Outcome, member_outcome, root_cause
from ..restarts import Failure, GiveUp, decide_restart
from ..states import (
    ALLOCATION_TRANSITIONS,
    ATTEMPT_TRANSITIONS,
    TERMINAL_ATTEMPT,
    TERMINAL_TRIAL,
    TRIAL_TRANSITIONS,
    Termination,
)
from .actions import (
    Action,
    QuarantineNode,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetFlags,
    SetTrial,
    require_legal,
)
from .views import AllocationView, LifecyclePolicy, NodeLease, TrialView


class TrialCase:
    """One trial with its current attempt, worked through from its members up."""

    def __init__(
        self,
        trial: TrialView,
        nodes: Mapping[str, NodeLease],
        now: dt.datetime,
        policy: LifecyclePolicy,
    ) -> None:
        self.trial = trial
        self.nodes = nodes
        self.now = now
        self.policy = policy
        self.actions: list[Action] = []
        self.state = trial.state
        self.attempt = trial.attempt
        self.attempt_state = trial.attempt.state if trial.attempt else ""
        self.attempt_ended_at = trial.attempt.ended_at if trial.attempt else None
        self.members = trial.attempt.allocations if trial.attempt else ()
        self.observed = {a.id: a.observed for a in self.members}
        self.wanted = {a.id: a.desired for a in self.members}

    def run(self) -> None:
        if self.state in ("QUEUED", "RETRY_WAIT", "PAUSED"):
            self._decide_waiting()
        elif self.state not in TERMINAL_TRIAL and self.attempt is not None:
            self._flag_unreachable()
            self._lose_members()
            if self.trial.stop_wanted and self.state in ("STARTING", "RUNNING"):
                self._set_trial("STOPPING", f"stop requested by {self._stopper()}")
            if self.attempt_state not in TERMINAL_ATTEMPT:
                self._decide_attempt()
            self._stop_rest()
            self._clean_members()
            if self.attempt_state in TERMINAL_ATTEMPT and all(
                state in ("CLEANED", "LOST") for state in self.observed.values()
            ):
                self._finish()

    # waiting trials

    def _decide_waiting(self) -> None:
        stop = self.trial.stop_wanted
        due = self.trial.not_before is None or self.now >= self.trial.not_before
        if stop == "stop":
            self._set_trial(
                "CANCELED", "stopped by a user before it ran", termination=Termination.CANCELED
            )
        elif stop == "early" and self.state != "PAUSED":
            self._set_trial(
                "STOPPED_EARLY",
                "stopped by the searcher while it waited",
                termination=Termination.STOPPED_EARLY,
            )
        elif self.state == "RETRY_WAIT" and due:
            self._set_trial("QUEUED", "its back-off is over")

    # members

    def _flag_unreachable(self) -> None:
        silent = [
            a.node_name
            for a in self.members
            if self.observed[a.id] not in ("EXITED", "CLEANED", "PREPARE_FAILED")
            and (node := self.nodes.get(a.node_id)) is not None
            and node.state in ("SUSPECT", "LOST")
        ]
        if bool(silent) == ("UNREACHABLE" in self.trial.flags):
            return
        others = tuple(flag for flag in self.trial.flags if flag != "UNREACHABLE")
        flags = (*others, "UNREACHABLE") if silent else others
        reason = f"{', '.join(silent)} not heard" if silent else "its nodes are heard again"
        self.actions.append(SetFlags(trial_id=self.trial.id, flags=flags, reason=reason))

    def _lose_members(self) -> None:
        for member in self.members:
            node = self.nodes.get(member.node_id)
            if (node is None or node.state == "LOST") and not self._is_finished(member):
                self._set_allocation(member, "LOST", f"node {member.node_name} was lost")

    def _stop_rest(self) -> None:
        """Whatever of the gang still lives when it should not is told to stop, later to die."""
        assert self.attempt is not None
        is_over = self.attempt_state in TERMINAL_ATTEMPT
        if not is_over and not (self.trial.stop_wanted and self.attempt_state != "PREPARING"):
            return
        grace = dt.timedelta(seconds=self.trial.stop_grace_s + self.policy.kill_margin_s)
        for member in self.members:
            state = self.observed[member.id]
            if state in ("EXITED", "CLEANED", "PREPARE_FAILED", "LOST"):
                continue
            never_ran = state in ("ASSIGNED", "PREPARING", "READY")
            since = member.state_since if state == "STOPPING" else self.attempt_ended_at
            overdue = since is not None and self.now > since + grace
            want: Literal["stop", "kill"] = "kill" if never_ran or overdue else "stop"
            current = self.wanted[member.id]
            if current != want and current not in ("kill", "forget"):
                self._set_desired(member, want, self._stop_reason())
            unstarted = dt.timedelta(seconds=self.policy.unstarted_grace_s)
            if (
                state == "ASSIGNED"
                and self.attempt_ended_at is not None
                and self.now > self.attempt_ended_at + unstarted
            ):
                self._set_allocation(member, "EXITED", "no agent ever took it up")

    def _clean_members(self) -> None:
        for member in self.members:
            state = self.observed[member.id]
            if state not in ("EXITED", "PREPARE_FAILED"):
                continue
            if member.exit is not None and member.exit.cause == "unkillable":
                self.actions.append(
                    QuarantineNode(
                        node_id=member.node_id,
                        reason=f"a process of trial {self.trial.id} cannot be killed",
                    )
                )
            why = "log tail complete" if state == "EXITED" else "nothing of it runs"
            self._set_allocation(member, "CLEANED", f"{why}, slots released")

    # the attempt

    def _decide_attempt(self) -> None:
        assert self.attempt is not None
        outcomes = self._outcomes()
        failed = [o for o in outcomes if o.failed]
        unfinished = [a for a in self.members if not self._is_finished(a)]
        if self.trial.stop_wanted:
            self._decide_stopping(outcomes, unfinished)
        elif failed:
            self._fail(outcomes)
        elif not unfinished:
            self._end_attempt("SUCCEEDED", "every worker exited with 0", Termination.SUCCESS)
        elif self.attempt_state == "PREPARING":
            self._decide_preparing()
        elif len(unfinished) < len(self.members):
            self._decide_winding_down(unfinished)
        elif self.attempt_state == "STARTING":
            self._decide_starting()

    def _decide_stopping(self, outcomes: list[Outcome], unfinished: list[AllocationView]) -> None:
        if self.attempt_state == "PREPARING":
            self._end_attempt("CANCELED", "stopped before it started", self._stop_termination())
            return
        if unfinished:
            return
        if all(o.succeeded for o in outcomes):
            self._end_attempt(
                "SUCCEEDED", "it finished by itself while being stopped", Termination.SUCCESS
            )
        elif all(o.failed and not o.lost for o in outcomes):
            self._fail(outcomes)
        else:
            self._end_attempt(
                "CANCELED", f"stopped on request of {self._stopper()}", self._stop_termination()
            )

    def _decide_preparing(self) -> None:
        assert self.attempt is not None
        waiting = [a for a in self.members if self.observed[a.id] != "READY"]
        if not waiting and (self.attempt.num_nodes == 1 or self.attempt.has_rendezvous):
            self._set_attempt("STARTING", "every node is ready")
            for member in self.members:
                self._set_desired(member, "start", "every node is ready")
            return
        waited_s = (self.now - self.attempt.created_at).total_seconds()
        if waited_s > self.policy.prepare_timeout_s:
            names = ", ".join(a.node_name for a in waiting) or "the rendezvous"
            self._end_attempt(
                "FAILED",
                f"{names} was not ready within {self.policy.prepare_timeout_s:.0f} s",
                Termination.PREPARE_FAILED,
            )

    def _decide_starting(self) -> None:
        waiting = [a for a in self.members if self.observed[a.id] not in ("RUNNING", "STOPPING")]
        if not waiting:
            self._set_attempt("RUNNING", "every node runs its workers")
            if self.state == "STARTING":
                self._set_trial("RUNNING", "every node runs its workers")
            return
        since = max(a.state_since for a in self.members)
        if (self.now - since).total_seconds() > self.policy.start_timeout_s:
            names = ", ".join(a.node_name for a in waiting)
            self._end_attempt(
                "FAILED",
                f"{names} did not start within {self.policy.start_timeout_s:.0f} s",
                Termination.START_TIMEOUT,
            )

    def _decide_winding_down(self, unfinished: list[AllocationView]) -> None:
        done = [a for a in self.members if self._is_finished(a)]
        first = min(a.state_since for a in done)
        if self.attempt_state != "WINDING_DOWN":
            self._set_attempt("WINDING_DOWN", f"{done[0].node_name} ended well, the rest follows")
            if self.state == "STARTING":
                self._set_trial("RUNNING", "its workers ran")
        elif (self.now - first).total_seconds() > self.policy.wind_down_s:
            names = ", ".join(a.node_name for a in unfinished)
            self._end_attempt(
                "FAILED",
                f"{names} did not end within {self.policy.wind_down_s:.0f} s of {done[0].node_name}",
                Termination.USER_ERROR,
            )

    def _fail(self, outcomes: list[Outcome]) -> None:
        cause = root_cause(outcomes)
        assert cause is not None
        after = "LOST" if cause.lost else "FAILED"
        self._set_attempt(
            after,
            cause.sentence,
            termination=cause.termination,
            root_rank=cause.rank,
            root_log_tail=cause.log_tail,
        )
        self.attempt_ended_at = self.now

    # the end

    def _finish(self) -> None:
        assert self.attempt is not None
        termination, reason = self._sharpen()
        logs_complete = all(a.exit is not None for a in self.members)
        if self.attempt_state == "SUCCEEDED":
            self._set_trial(
                "COMPLETED",
                "every worker exited with 0",
                termination=Termination.SUCCESS,
                logs_complete=logs_complete,
            )
            return
        if self.trial.stop_wanted or self.attempt_state == "CANCELED":
            self._finish_stopped(termination, reason, logs_complete)
            return
        budget = decide_restart(
            Failure(
                termination=termination,
                failures_user=self.trial.failures_user,
                failures_infra=self.trial.failures_infra,
                no_progress=self.trial.no_progress,
                has_trained=self.attempt.started_at is not None
                or any(a.exit is not None and a.exit.workers for a in self.members),
                has_progressed=(self.trial.checkpoint_step or 0) > self.attempt.resume_step,
                budget_user=self.trial.budget_user,
                budget_infra=self.trial.budget_infra,
            ),
            policy=self.policy.restarts,
        )
        if isinstance(budget, GiveUp):
            self._set_trial(
                "FAILED",
                f"{reason}; {budget.reason}",
                termination=budget.termination,
                failures_user=budget.failures_user,
                failures_infra=budget.failures_infra,
                no_progress=budget.no_progress,
                logs_complete=logs_complete,
            )
            return
        self._set_trial(
            "RETRY_WAIT",
            f"{reason}; {budget.reason}",
            not_before=max(
                self.now + dt.timedelta(seconds=budget.delay_s), self._zombies_dead_at()
            ),
            failures_user=budget.failures_user,
            failures_infra=budget.failures_infra,
            no_progress=budget.no_progress,
        )

    def _finish_stopped(self, termination: Termination, reason: str, logs_complete: bool) -> None:
        if self.state in ("STARTING", "RUNNING"):
            self._set_trial("STOPPING", "stop requested")
        if self.attempt_state == "FAILED" and termination is not Termination.PREPARE_FAILED:
            self._set_trial(
                "FAILED",
                f"{reason}; it was being stopped",
                termination=termination,
                logs_complete=logs_complete,
            )
            return
        early = self.trial.stop_wanted == "early"
        self._set_trial(
            "STOPPED_EARLY" if early else "CANCELED",
            f"stopped on request of {self._stopper()}",
            termination=self._stop_termination(),
            logs_complete=logs_complete,
        )

    def _sharpen(self) -> tuple[Termination, str]:
        """Why the attempt ended, now that all its members have reported.

        The first report to arrive need not be of the first rank to fail, and a member that was
        lost with its node makes the others fail long before the node counts as lost.
        """
        assert self.attempt is not None
        before = Termination(self.attempt.termination or Termination.USER_ERROR)
        for action in reversed(self.actions):
            if isinstance(action, SetAttempt) and action.termination is not None:
                return action.termination, action.reason  # decided a moment ago, from all of them
        if self.attempt_state not in ("FAILED", "LOST"):
            return before, self.attempt.reason
        cause = root_cause(self._outcomes())
        own_decision = before in (Termination.PREPARE_FAILED, Termination.START_TIMEOUT)
        if cause is None or own_decision or cause.sentence == self.attempt.reason:
            return before, self.attempt.reason
        self._set_attempt(
            self.attempt_state,
            cause.sentence,
            termination=cause.termination,
            root_rank=cause.rank,
            root_log_tail=cause.log_tail,
        )
        return cause.termination, cause.sentence

    def _zombies_dead_at(self) -> dt.datetime:
        """Before this, a shim that was cut off may not yet have stopped by itself."""
        lost = [a for a in self.members if self.observed[a.id] == "LOST"]
        if not lost or self.trial.on_disconnect != "stop":
            return self.now
        lease_s = self.policy.suspect_missed * self.policy.heartbeat_s
        wait = dt.timedelta(seconds=lease_s + self.trial.stop_grace_s + self.policy.kill_margin_s)
        seen = [self.nodes[a.node_id].last_seen_at for a in lost if a.node_id in self.nodes]
        return max([self.now, *(at + wait for at in seen)])

    # helpers

    def _outcomes(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for member in self.members:
            node = self.nodes.get(member.node_id)
            outcome = member_outcome(
                self.observed[member.id],
                self.wanted[member.id],
                member.exit,
                node_name=member.node_name,
                message=member.message,
                last_seen_at=node.last_seen_at if node else None,
            )
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def _is_finished(self, member: AllocationView) -> bool:
        return self.observed[member.id] in ("EXITED", "CLEANED", "PREPARE_FAILED", "LOST")

    def _stopper(self) -> str:
        return "the searcher" if self.trial.stop_wanted == "early" else "a user"

    def _stop_termination(self) -> Termination:
        early = self.trial.stop_wanted == "early"
        return Termination.STOPPED_EARLY if early else Termination.CANCELED

    def _stop_reason(self) -> str:
        if self.trial.stop_wanted:
            return f"stop requested by {self._stopper()}"
        return "another member of the gang ended"

    def _end_attempt(self, after: str, reason: str, termination: Termination) -> None:
        self._set_attempt(after, reason, termination=termination)
        self.attempt_ended_at = self.now

    def _set_attempt(
        self,
        after: str,
        reason: str,
        *,
        termination: Termination | None = None,
        root_rank: int | None = None,
        root_log_tail: tuple[str, ...] = (),
    ) -> None:
        assert self.attempt is not None
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
        self.attempt_state = after

    def _set_allocation(self, member: AllocationView, after: str, reason: str) -> None:
        before = self.observed[member.id]
        require_legal(ALLOCATION_TRANSITIONS, before, after, f"allocation {member.id}")
        self.actions.append(
            SetAllocation(allocation_id=member.id, before=before, after=after, reason=reason)
        )
        self.observed[member.id] = after

    def _set_desired(
        self, member: AllocationView, after: Literal["start", "stop", "kill"], reason: str
    ) -> None:
        self.actions.append(
            SetDesired(
                allocation_id=member.id,
                node_id=member.node_id,
                before=self.wanted[member.id],
                after=after,
                reason=reason,
            )
        )
        self.wanted[member.id] = after

    def _set_trial(
        self,
        after: str,
        reason: str,
        *,
        termination: Termination | None = None,
        not_before: dt.datetime | None = None,
        failures_user: int | None = None,
        failures_infra: int | None = None,
        no_progress: int | None = None,
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
                logs_complete=logs_complete,
            )
        )
        self.state = after
