"""Every node of a gang is ready: do they fit together? Then they start."""

from __future__ import annotations

from collections.abc import Sequence

from ..nodes.consistency import describe_mismatches, find_mismatches
from ..states import AttemptState, Termination
from .actions import BeginPreflight, Warn
from .case import TrialCase
from .views import AllocationView


def decide_ready(case: TrialCase) -> None:
    """Compare the nodes, let them try each other if that is wanted, and start all at once."""
    facts = {m.node_name: m.facts for m in case.members if m.facts is not None}
    differences = describe_mismatches(find_mismatches(facts))
    if differences and case.trial.versions == "require":
        case.set_attempt(
            AttemptState.FAILED,
            f"its nodes differ: {differences}",
            termination=Termination.VERSIONS_DIFFER,
        )
        return
    if case.trial.preflight_wanted and case.attempt.num_nodes > 1 and not _has_passed(case):
        return
    case.set_attempt(AttemptState.STARTING, "every node is ready")
    for member in case.members:
        case.set_desired(member, "start", "every node is ready")
    if differences:
        case.actions.append(
            Warn(
                trial_id=case.trial.id,
                attempt_no=case.attempt.no,
                reason=f"The nodes differ: {differences}. It was started all the same "
                "(preflight.versions is warn).",
            )
        )


def watch_start(case: TrialCase, waiting: Sequence[AllocationView], waited_s: float) -> None:
    """A gang that takes long to start: let its nodes try each other, and end it when they cannot.

    waiting: members without all their workers. Whatever else the preflight finds is told by its
    event and ends nothing: a slow start is slow for other reasons, too.
    """
    after_s, preflight = case.policy.start_preflight_s, case.attempt.preflight
    is_lone = case.attempt.num_nodes == 1 or bool(case.trial.roles)
    if after_s <= 0 or waited_s <= after_s or is_lone:
        return
    names = ", ".join(m.node_name for m in waiting)
    if preflight is None:
        case.actions.append(
            BeginPreflight(
                attempt_id=case.attempt.id,
                before=case.attempt_state,
                reason=f"{names} did not start all workers within {after_s:.0f} s: "
                "the nodes now try to reach each other",
            )
        )
    elif preflight.state == "failed" and preflight.is_of_network:
        case.set_attempt(
            AttemptState.FAILED,
            f"{names} did not start all workers within {after_s:.0f} s, for its nodes cannot reach "
            f"each other: {preflight.message}",
            termination=Termination.PREFLIGHT_FAILED,
        )


def _has_passed(case: TrialCase) -> bool:
    preflight = case.attempt.preflight
    if preflight is None:
        names = ", ".join(m.node_name for m in case.members)
        case.actions.append(
            BeginPreflight(
                attempt_id=case.attempt.id,
                before=case.attempt_state,
                reason=f"{names} are to try each other",
            )
        )
        return False
    if preflight.state == "failed":
        case.set_attempt(
            AttemptState.FAILED,
            f"the preflight failed: {preflight.message}",
            termination=Termination.PREFLIGHT_FAILED,
        )
    return preflight.state == "passed"
