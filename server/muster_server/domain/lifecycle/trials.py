"""One trial with its current attempt: barrier, ends, restarts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from ..states import (
    TERMINAL_TRIAL,
    AllocationState,
    AttemptState,
    NodeState,
    Termination,
    TrialState,
)
from . import termination as leaving
from .actions import Action, SetFlags
from .avoidance import avoid
from .case import TrialCase
from .consistency_check import find_misfits
from .outcomes import DOUBTFUL, ENDED_WELL, Outcome, root_cause
from .readiness import decide_ready, watch_start
from .restarts import Failure, GiveUp, decide_restart
from .silence import Hearing
from .views import AllocationView, NodeLease, TrialView

_OWN_DECISIONS = frozenset(
    {
        Termination.PREPARE_FAILED,
        Termination.NOT_ON_NODE,
        Termination.CANNOT_RUN,
        Termination.VERSIONS_DIFFER,
        Termination.PREFLIGHT_FAILED,
        Termination.START_TIMEOUT,
        Termination.STUCK,
    }
)
"""Terminations of an attempt that Muster ended: what its members report then says nothing about the
cause."""


def decide_trial(
    trial: TrialView, nodes: Mapping[str, NodeLease], hearing: Hearing
) -> tuple[Action, ...]:
    """Return everything that should happen to a trial now, worked through from its members up."""
    case = TrialCase(trial, nodes, hearing)
    if case.state in (TrialState.QUEUED, TrialState.RETRY_WAIT, TrialState.PAUSED):
        _decide_waiting(case)
    elif case.state == TrialState.RUNNING and trial.attempt is None:
        _decide_external(case)
    elif case.state not in TERMINAL_TRIAL and trial.attempt is not None:
        _flag_unreachable(case)
        _lose_members(case)
        if not case.is_over:
            leaving.note_yield(case)
        if trial.stop_wanted and case.state in (TrialState.STARTING, TrialState.RUNNING):
            case.set_trial(TrialState.STOPPING, leaving.stop_sentence(case))
        if not case.is_over:
            _decide_attempt(case)
        leaving.tell_members(case)
        _clean_members(case)
        if case.is_over and all(
            s in (AllocationState.CLEANED, AllocationState.LOST) for s in case.observed.values()
        ):
            _finish(case)
    return tuple(case.actions)


# ---------------------------------------------------------------- a trial that waits


def _decide_waiting(case: TrialCase) -> None:
    trial, stop = case.trial, case.trial.stop_wanted
    due = _is_due(case)
    if stop is not None:
        ending = leaving.STOPS[stop]
        where = "while it was paused" if case.state == TrialState.PAUSED else "while it waited"
        sentence = leaving.own_words(case) or f"stopped by {ending.who} {where}"
        case.set_trial(ending.state, sentence, termination=ending.termination)
    elif trial.pause_wanted and case.state != TrialState.PAUSED:
        case.set_trial(TrialState.PAUSED, trial.pause_reason, not_before=trial.not_before)
    elif case.state == TrialState.PAUSED and not trial.pause_wanted:
        if due:
            case.set_trial(TrialState.QUEUED, "resumed")
        else:
            case.set_trial(
                TrialState.RETRY_WAIT,
                "resumed before its back-off was over",
                not_before=trial.not_before,
            )
    elif case.state == TrialState.RETRY_WAIT and due:
        case.set_trial(TrialState.QUEUED, "its back-off is over")


def _is_due(case: TrialCase) -> bool:
    at = case.trial.not_before
    if at is None or case.now >= at:
        return True
    # Later than any back-off: the clock was set back since. Where a shim that was cut off may still
    # run, the moment stands, for nothing else keeps two attempts apart.
    is_too_late = at > case.now + dt.timedelta(seconds=case.policy.restarts.backoff_max_s)
    return is_too_late and case.trial.on_disconnect != "stop"


def _decide_external(case: TrialCase) -> None:
    """Decide about a trial that runs outside. Nothing has to be waited for: whoever runs it is told
    later."""
    stop = case.trial.stop_wanted
    if stop is not None:
        ending = leaving.STOPS[stop]
        sentence = leaving.own_words(case) or f"stopped by {ending.who}"
        case.set_trial(TrialState.STOPPING, sentence)
        case.set_trial(ending.state, sentence, termination=ending.termination)
    elif case.trial.pause_wanted:
        case.set_trial(TrialState.PAUSED, case.trial.pause_reason)


# ---------------------------------------------------------------- members


def _flag_unreachable(case: TrialCase) -> None:
    silent = [
        a.node_name
        for a in case.members
        if case.observed[a.id]
        not in (AllocationState.EXITED, AllocationState.CLEANED, AllocationState.PREPARE_FAILED)
        and (node := case.nodes.get(a.node_id)) is not None
        and node.state in (NodeState.SUSPECT, NodeState.LOST)
    ]
    if bool(silent) == ("UNREACHABLE" in case.trial.flags):
        return
    others = tuple(flag for flag in case.trial.flags if flag != "UNREACHABLE")
    flags = (*others, "UNREACHABLE") if silent else others
    reason = f"{', '.join(silent)} not heard" if silent else "its nodes are heard again"
    if silent and case.trial.stop_wanted is not None:
        reason += "; it stops once they are. To end it without them, kill it or remove the nodes"
    case.actions.append(SetFlags(trial_id=case.trial.id, flags=flags, reason=reason))


def _lose_members(case: TrialCase) -> None:
    for member in case.members:
        node = case.nodes.get(member.node_id)
        if case.is_finished(member):
            continue
        if node is None or node.state == NodeState.LOST:
            case.set_allocation(member, AllocationState.LOST, f"node {member.node_name} was lost")
        elif case.trial.stop_wanted == "kill" and _has_long_been_silent(case, node):
            # Nothing follows, so it does not matter whether the node is gone.
            reason = f"killed while {member.node_name} was not heard; it ends there once it is"
            case.set_allocation(member, AllocationState.LOST, reason)


def _has_long_been_silent(case: TrialCase, node: NodeLease) -> bool:
    """Return whether the node has been silent for longer than `node_lost_s`, whether or not that
    silence counts."""
    since = max(node.last_seen_at, case.hearing.leader_since)
    silent_s = (case.now - since).total_seconds()
    return node.state == NodeState.SUSPECT and silent_s > case.policy.node_lost_s


def _clean_members(case: TrialCase) -> None:
    for member in case.members:
        state = case.observed[member.id]
        if state not in (AllocationState.EXITED, AllocationState.PREPARE_FAILED):
            continue
        why = "log tail complete" if state == AllocationState.EXITED else "nothing of it runs"
        case.set_allocation(member, AllocationState.CLEANED, f"{why}, slots released")


# ---------------------------------------------------------------- the attempt


def _decide_attempt(case: TrialCase) -> None:
    outcomes = case.outcomes()
    unfinished = [a for a in case.members if not case.is_finished(a)]
    if leaving.is_leaving(case):
        cause = leaving.decide_leaving(case, outcomes, unfinished)
        if cause is not None:
            _fail(case, cause)
    elif role := case.finishing:
        _decide_finishing(case, role, unfinished)
    elif any(o.failed for o in outcomes):
        cause = root_cause(outcomes)
        assert cause is not None
        _fail(case, cause)
    elif not unfinished:
        case.set_attempt(AttemptState.SUCCEEDED, _well(case), termination=Termination.SUCCESS)
    elif case.attempt_state == AttemptState.PREPARING:
        _decide_preparing(case)
    elif len(unfinished) < len(case.members) and not case.trial.roles:
        _decide_winding_down(case, unfinished)
    elif case.attempt_state == AttemptState.STARTING:
        _decide_starting(case)
    elif case.attempt_state == AttemptState.RUNNING and case.attempt.stuck_reason:
        case.set_attempt(
            AttemptState.FAILED, case.attempt.stuck_reason, termination=Termination.STUCK
        )


def _decide_preparing(case: TrialCase) -> None:
    attempt = case.attempt
    waiting = [a for a in case.members if case.observed[a.id] != AllocationState.READY]
    # A member of a role says with its READY where it is found.
    meets = attempt.num_nodes == 1 or attempt.has_rendezvous or bool(case.trial.roles)
    if not waiting and meets:
        decide_ready(case)
        return
    if case.waited_s(attempt.created_at) > case.policy.prepare_timeout_s:
        names = ", ".join(a.node_name for a in waiting) or "the rendezvous"
        case.set_attempt(
            AttemptState.FAILED,
            f"{names} was not ready within {case.policy.prepare_timeout_s:.0f} s",
            termination=Termination.PREPARE_FAILED,
        )


def _decide_starting(case: TrialCase) -> None:
    waiting = [
        a
        for a in case.members
        if case.observed[a.id] not in (AllocationState.RUNNING, AllocationState.STOPPING)
        and not (a.role and case.is_finished(a))
    ]
    if not waiting:
        case.set_attempt(AttemptState.RUNNING, "every node runs its workers")
        if case.state == TrialState.STARTING:
            case.set_trial(TrialState.RUNNING, "every node runs its workers")
        return
    waited_s = case.waited_s(max(a.state_since for a in case.members))
    if waited_s > case.policy.start_timeout_s:
        names = ", ".join(a.node_name for a in waiting)
        case.set_attempt(
            AttemptState.FAILED,
            f"{names} did not start within {case.policy.start_timeout_s:.0f} s",
            termination=Termination.START_TIMEOUT,
        )
        return
    watch_start(case, waiting, waited_s)


def _decide_finishing(case: TrialCase, role: str, unfinished: list[AllocationView]) -> None:
    """End a gang of which the deciding role has ended well: the others are told to stop."""
    if not unfinished:
        case.set_attempt(AttemptState.SUCCEEDED, _well(case), termination=Termination.SUCCESS)
    elif case.attempt_state != AttemptState.WINDING_DOWN:
        sentence = f"every member of {role} exited with 0; the others are asked to stop"
        case.set_attempt(AttemptState.WINDING_DOWN, sentence)
        if case.state == TrialState.STARTING:
            case.set_trial(TrialState.RUNNING, "its workers ran")


def _decide_winding_down(case: TrialCase, unfinished: list[AllocationView]) -> None:
    done = [a for a in case.members if case.is_finished(a)]
    first = min(a.state_since for a in done)
    if case.attempt_state != AttemptState.WINDING_DOWN:
        case.set_attempt(
            AttemptState.WINDING_DOWN, f"{done[0].node_name} ended well, the rest follows"
        )
        if case.state == TrialState.STARTING:
            case.set_trial(TrialState.RUNNING, "its workers ran")
    elif case.waited_s(first) > case.policy.wind_down_s:
        names = ", ".join(a.node_name for a in unfinished)
        limit = f"{case.policy.wind_down_s:.0f} s"
        case.set_attempt(
            AttemptState.FAILED,
            f"{names} did not end within {limit} of {done[0].node_name}",
            termination=Termination.USER_ERROR,
        )


def _well(case: TrialCase) -> str:
    """Return that every worker ended well, and what makes that doubtful."""
    for member in case.members:
        if member.exit is not None and member.exit.doubt:
            where = f"{member.node_name}: " if len(case.members) > 1 else ""
            return f"{DOUBTFUL}{where}{member.exit.doubt}"
    if role := case.finishing:
        num_others = sum(member.role != role for member in case.members)
        others = ", and the others were asked to stop" if num_others else ""
        return f"every member of {role} exited with 0{others}"
    ignored = [o.sentence for o in case.outcomes() if o.succeeded and o.sentence]
    return f"every other worker exited with 0; ignored: {ignored[0]}" if ignored else ENDED_WELL


def _fail(case: TrialCase, cause: Outcome) -> None:
    if cause.termination is Termination.DRAINED:
        case.set_attempt(AttemptState.PREEMPTED, cause.sentence, termination=cause.termination)
        return
    case.set_attempt(
        AttemptState.LOST if cause.lost else AttemptState.FAILED,
        cause.sentence,
        termination=cause.termination,
        root_rank=cause.rank,
        root_log_tail=cause.log_tail,
    )


# ---------------------------------------------------------------- the end


def _finish(case: TrialCase) -> None:
    """Nothing of the attempt runs any more, as far as can be known: how its trial goes on."""
    termination, reason = _sharpen(case)
    # A lost member may have reported how it would end without sending the rest of its log.
    logs_complete = all(a.exit is not None for a in case.members) and not any(
        case.observed[a.id] == AllocationState.LOST for a in case.members
    )
    if case.attempt_state == AttemptState.SUCCEEDED:
        case.set_trial(
            TrialState.COMPLETED,
            _well(case),
            termination=Termination.SUCCESS,
            logs_complete=logs_complete,
        )
    elif case.trial.stop_wanted or case.attempt_state == AttemptState.CANCELED:
        leaving.finish_stopped(case, termination, reason, logs_complete=logs_complete)
    elif case.attempt_state in (AttemptState.PREEMPTED, AttemptState.RESIZED):
        leaving.finish_yielded(case)
    else:
        _restart(case, termination, reason, logs_complete=logs_complete)


def _restart(
    case: TrialCase, termination: Termination, reason: str, *, logs_complete: bool
) -> None:
    trial, attempt = case.trial, case.attempt
    is_lacking = termination is Termination.NOT_ON_NODE
    if is_lacking and not trial.has_elsewhere:
        termination = Termination.CANNOT_RUN
        reason = f"{reason}; no other node that is there could hold it"
    misfits = find_misfits(case, termination)
    avoided, is_new = avoid(trial.avoided, misfits, reason, now=case.now, are_lacking=is_lacking)
    is_remembered = set(misfits) <= {a.node for a in avoided}
    budget = decide_restart(
        Failure(
            termination=termination,
            failures_user=trial.failures_user,
            failures_infra=trial.failures_infra,
            no_progress=trial.no_progress,
            has_trained=attempt.started_at is not None
            or any(a.exit is not None and a.exit.workers for a in case.members),
            has_progressed=(trial.checkpoint_step or 0) > attempt.resume_step,
            budget_user=trial.budget_user,
            budget_infra=trial.budget_infra,
            leaves_out=", ".join(misfits) if is_new or (is_lacking and is_remembered) else "",
        ),
        policy=case.policy.restarts,
    )
    if isinstance(budget, GiveUp):
        case.set_trial(
            TrialState.FAILED,
            f"{reason}; {budget.reason}",
            termination=budget.termination,
            failures_user=budget.failures_user,
            failures_infra=budget.failures_infra,
            no_progress=budget.no_progress,
            logs_complete=logs_complete,
        )
        return
    case.set_trial(
        TrialState.RETRY_WAIT,
        f"{reason}; {budget.reason}",
        not_before=max(case.now + dt.timedelta(seconds=budget.delay_s), _zombies_dead_at(case)),
        failures_user=budget.failures_user,
        failures_infra=budget.failures_infra,
        no_progress=budget.no_progress,
        avoided=avoided,
    )


def _sharpen(case: TrialCase) -> tuple[Termination, str]:
    """Return why the attempt ended, now that all its members have reported.

    The first report to arrive need not be from the first rank to fail, and a member that was lost
    with its node makes the others fail long before the node counts as lost.
    """
    before = Termination(case.attempt_termination or Termination.USER_ERROR)
    if case.has_just_ended or case.attempt_state not in (AttemptState.FAILED, AttemptState.LOST):
        return before, case.attempt_reason
    cause = root_cause(case.outcomes())
    own_decision = before in _OWN_DECISIONS
    if cause is None or own_decision or cause.sentence == case.attempt_reason:
        return before, case.attempt_reason
    case.set_attempt(
        case.attempt_state,
        cause.sentence,
        termination=cause.termination,
        root_rank=cause.rank,
        root_log_tail=cause.log_tail,
    )
    return cause.termination, cause.sentence


def _zombies_dead_at(case: TrialCase) -> dt.datetime:
    """Before this, a shim that was cut off may not have killed its workers yet.

    It does at the end of the last lease its agent got, which began before we heard of it. A node
    that was removed was heard before its members were lost.
    """
    lost = [a for a in case.members if case.observed[a.id] == AllocationState.LOST]
    if not lost or case.trial.on_disconnect != "stop":
        return case.now
    policy = case.policy
    dead_at = [case.now]
    for member in lost:
        node = case.nodes.get(member.node_id)
        seen_at = node.last_seen_at if node is not None else member.state_since
        lease_s = node.lease_s if node is not None else policy.suspect_missed * policy.heartbeat_s
        dead_at.append(seen_at + dt.timedelta(seconds=lease_s + policy.kill_margin_s))
    return max(dead_at)
