"""An attempt that must leave before its training is done: stopped for good, or giving up its slots.

A *stop* ends the trial: a user wants it, the searcher does, a budget is used up, or it has run for as long as it may. A *yield* ends
only the attempt: its trial goes on later from the checkpoint, at whatever size fits then.
Either way the members are told to stop, get the trial's grace to save a checkpoint, and are killed
after it. How the trial goes on is decided when the last of them is gone.

The first yield to be asked for stands. What is wanted beside it (a pause while it is preempted)
shows as soon as the trial waits; a stop goes before any yield.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..states import YIELD_ENDS, AllocationState, AttemptState, Termination, TrialState, YieldKind
from .case import TrialCase
from .outcomes import Outcome, root_cause
from .views import AllocationView

YIELDING = (AttemptState.PREPARING, AttemptState.STARTING, AttemptState.RUNNING)
"""An attempt in these states may be asked to give up its slots. One whose first member has ended
well is nearly done: it is let finish."""


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """How a stopped trial ends, and in whose name."""

    kind: str
    """wire.STOP_KINDS."""
    who: str
    state: Literal[TrialState.CANCELED, TrialState.STOPPED_EARLY]
    termination: Termination


STOPS = {
    "stop": TrialEnd(
        kind="user", who="a user", state=TrialState.CANCELED, termination=Termination.CANCELED
    ),
    "kill": TrialEnd(
        kind="user", who="a user", state=TrialState.CANCELED, termination=Termination.CANCELED
    ),
    "early": TrialEnd(
        kind="early",
        who="the searcher",
        state=TrialState.STOPPED_EARLY,
        termination=Termination.STOPPED_EARLY,
    ),
    "budget": TrialEnd(
        kind="budget",
        who="the budget",
        state=TrialState.CANCELED,
        termination=Termination.BUDGET_EXHAUSTED,
    ),
    "time_limit": TrialEnd(
        kind="time_limit",
        who="its time limit",
        state=TrialState.CANCELED,
        termination=Termination.TIME_LIMIT,
    ),
}


def is_leaving(case: TrialCase) -> bool:
    """Return whether the trial is to leave before its training is done."""
    return case.trial.stop_wanted is not None or case.yield_kind is not None


def note_yield(case: TrialCase) -> None:
    """Record that the attempt is asked to give up its slots, where something new asks for it.

    Preemptions and resizes are recorded by whoever decided them.
    """
    if case.yield_kind is not None or case.attempt_state not in YIELDING:
        return
    here = [
        case.nodes[a.node_id]
        for a in case.members
        if a.node_id in case.nodes and not case.is_finished(a)
    ]
    stopped = next((node.stopped_by for node in here if node.stopped_by), "")
    draining = [
        a.node_name
        for a in case.members
        if (node := case.nodes.get(a.node_id)) is not None
        and node.scheduling == "draining"
        and not case.is_finished(a)
    ]
    if case.trial.stop_wanted == "budget":
        case.set_yield(YieldKind.BUDGET, case.trial.exhausted_reason)
    elif case.trial.stop_wanted == "time_limit":
        case.set_yield(YieldKind.TIME_LIMIT, case.trial.time_limit_reason)
    elif case.trial.stop_wanted is None and case.trial.pause_wanted:
        case.set_yield(YieldKind.PAUSE, case.trial.pause_reason)
    elif case.trial.stop_wanted is None and draining:
        verb = "is" if len(draining) == 1 else "are"
        case.set_yield(YieldKind.DRAIN, f"{', '.join(draining)} {verb} being drained")
    elif case.trial.stop_wanted is None and stopped:
        case.set_yield(YieldKind.DRAIN, stopped)


def tell_members(case: TrialCase) -> None:
    """Whatever of the gang lives although it should not is told to stop, and later to die."""
    asked = is_leaving(case) or bool(case.finishing)
    if not case.is_over and (not asked or case.attempt_state == AttemptState.PREPARING):
        return
    kind, reason = why_told(case)
    # The other members of the gang could only spend the time waiting for the lost one.
    grace_s = case.policy.gang_grace_s if kind == "gang" else None
    patience_s = case.trial.stop_grace_s if grace_s is None else grace_s
    grace_limit_s = patience_s + case.policy.kill_margin_s
    for member in case.members:
        state = case.observed[member.id]
        if case.is_finished(member):
            continue
        never_ran = state in (
            AllocationState.ASSIGNED,
            AllocationState.PREPARING,
            AllocationState.READY,
        )
        since = member.state_since if state == AllocationState.STOPPING else None
        since = since or case.attempt_ended_at or case.yield_at
        node = case.nodes.get(member.node_id)
        overdue = since is not None and case.hearing.waited_s(since, [node]) > grace_limit_s
        at_once = never_ran or overdue or case.trial.stop_wanted == "kill"
        want: Literal["stop", "kill"] = "kill" if at_once else "stop"
        current = case.wanted[member.id]
        if current != want and current not in ("kill", "forget"):
            case.set_desired(member, want, reason, kind=kind, grace_s=grace_s)
        if (
            state == AllocationState.ASSIGNED
            and case.attempt_ended_at is not None
            and case.hearing.waited_s(case.attempt_ended_at, [node]) > case.policy.unstarted_grace_s
        ):
            case.set_allocation(member, AllocationState.EXITED, "no agent ever took it up")


def why_told(case: TrialCase) -> tuple[str, str]:
    """(kind, reason) of a stop request, as the workers get to read it."""
    stop = case.trial.stop_wanted
    if stop is not None:
        return STOPS[stop].kind, own_words(case) or f"stop requested by {STOPS[stop].who}"
    if case.yield_kind is not None:
        return case.yield_kind.value, case.yield_reason
    if role := case.finishing:
        return "finished", f"every member of {role} has ended"
    return "gang", "another member of the gang ended"


def decide_leaving(
    case: TrialCase, outcomes: list[Outcome], unfinished: list[AllocationView]
) -> Outcome | None:
    """End the attempt once everything of it has; returns the failure when it ended by one.

    A member that fails while others leave as asked has most likely lost its peers in the middle of
    a collective: that is a consequence of the request and charged to nobody. When nobody left as
    asked, or a node was lost, it is a failure like any other, unless the searcher or a guard has asked:
    they have decided on what the trial had reported, and nothing that comes after changes that.
    """
    after, termination, reason = _end(case)
    if case.attempt_state == AttemptState.PREPARING:
        case.set_attempt(after, f"{reason}; it had not started", termination=termination)
        return None
    if unfinished:
        return None
    cause = root_cause(outcomes)
    was_lost = any(o.lost for o in outcomes)
    if case.trial.stop_wanted == "early":
        is_failure = False
    elif case.trial.stop_wanted is not None:
        is_failure = all(o.failed for o in outcomes) and not was_lost
    else:
        goes_on = _is_paused_by_searcher(case) or case.yield_kind is YieldKind.GUARD
        has_crashed = not any(o.stopped for o in outcomes) and not goes_on
        is_failure = was_lost or has_crashed
    if all(o.succeeded for o in outcomes):
        sentence = "it finished by itself while being stopped"
        case.set_attempt(AttemptState.SUCCEEDED, sentence, termination=Termination.SUCCESS)
    elif cause is not None and is_failure:
        return cause
    else:
        also = f" ({cause.sentence}, while it left)" if cause is not None else ""
        case.set_attempt(after, f"{reason}{also}", termination=termination)
    return None


def _is_paused_by_searcher(case: TrialCase) -> bool:
    is_by_user = case.trial.experiment_desired == "pause"
    return case.yield_kind is YieldKind.PAUSE and case.trial.desired == "pause" and not is_by_user


def finish_yielded(case: TrialCase) -> None:
    """The attempt has given up its slots: its trial waits for new ones, or is paused."""
    progressed = (case.trial.checkpoint_step or 0) > case.attempt.resume_step
    no_progress = 0 if progressed else None
    if case.yield_kind is YieldKind.PAUSE:
        case.set_trial(TrialState.PAUSED, case.yield_reason, no_progress=no_progress)
    else:
        case.set_trial(TrialState.QUEUED, case.attempt_reason, no_progress=no_progress)


def finish_stopped(
    case: TrialCase, termination: Termination, reason: str, *, logs_complete: bool
) -> None:
    stop = case.trial.stop_wanted or "stop"
    if case.state in (TrialState.STARTING, TrialState.RUNNING):
        case.set_trial(TrialState.STOPPING, stop_sentence(case))
    is_failure = case.attempt_state == AttemptState.FAILED and stop != "early"
    if is_failure and termination is not Termination.PREPARE_FAILED:
        case.set_trial(
            TrialState.FAILED,
            f"{reason}; it was being stopped",
            termination=termination,
            logs_complete=logs_complete,
        )
        return
    ending = STOPS[stop]
    case.set_trial(
        ending.state,
        own_words(case) or f"stopped on request of {ending.who}",
        termination=ending.termination,
        logs_complete=logs_complete,
    )


def stop_sentence(case: TrialCase) -> str:
    stop = case.trial.stop_wanted or "stop"
    return own_words(case) or f"stop requested by {STOPS[stop].who}"


def own_words(case: TrialCase) -> str:
    """Return what to say about the stop if more is known than who wants it; otherwise an empty
    string."""
    by_who = {
        "budget": case.trial.exhausted_reason,
        "time_limit": case.trial.time_limit_reason,
        "early": case.trial.early_reason,
        "stop": case.trial.stop_reason,
        "kill": case.trial.stop_reason,
    }
    return by_who.get(case.trial.stop_wanted or "", "")


def _end(case: TrialCase) -> tuple[AttemptState, Termination, str]:
    """(attempt state, termination, reason) of an attempt that leaves as asked."""
    stop = case.trial.stop_wanted
    if stop is not None:
        reason = own_words(case) or f"stopped on request of {STOPS[stop].who}"
        return AttemptState.CANCELED, STOPS[stop].termination, reason
    assert case.yield_kind is not None
    after, termination = YIELD_ENDS[case.yield_kind]
    return after, termination, f"gave up its slots: {case.yield_reason}"
