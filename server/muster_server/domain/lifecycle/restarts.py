"""Whether a failed attempt is tried again, when, and whose budget pays for it."""

from __future__ import annotations

from dataclasses import dataclass

from ..messages import count
from ..states import TERMINATIONS, RetryClass, Termination


@dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    backoff_s: float = 10.0
    """Wait before the first restart that the trial itself has caused; doubles with each further one."""
    backoff_max_s: float = 600.0
    infra_first_delay_s: float = 1.0
    """Wait before the first restart of an attempt that the machinery has kept from training: the same
    may still be in the way. One that has trained is restarted at once."""
    no_progress_attempts: int = 3
    """Number of attempts in a row without a newer checkpoint that end the trial."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A finished, failed attempt and what the trial had used up before it."""

    termination: Termination
    failures_user: int
    failures_infra: int
    no_progress: int
    has_trained: bool
    """Its workers ran. An attempt that never got so far says nothing about progress."""
    has_progressed: bool
    """It left a checkpoint newer than the one it started from."""
    budget_user: int
    budget_infra: int
    leaves_out: str = ""
    """Names of the nodes that kept it from starting and are left out from now on: for the first
    time, or because they lack what it needs; "" when there are none."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    delay_s: float
    failures_user: int
    failures_infra: int
    no_progress: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    termination: Termination
    failures_user: int
    failures_infra: int
    no_progress: int
    reason: str


def decide_restart(failure: Failure, *, policy: RestartPolicy) -> Retry | GiveUp:
    """Retry after a back-off, or give up for good; the reason names the budget.

    Failures of the program count against restarts.user, those of machines, agents and launchers
    against restarts.infra; preemption is never charged, nor is one after which the nodes that were
    in the way are left out. Where restarts.infra is 0, nothing of that class is tried again.
    """
    retry_class = TERMINATIONS[failure.termination][1]
    if failure.leaves_out and retry_class is RetryClass.INFRA and failure.budget_infra > 0:
        return Retry(
            delay_s=policy.infra_first_delay_s,
            failures_user=failure.failures_user,
            failures_infra=failure.failures_infra,
            no_progress=failure.no_progress,
            reason=f"restart without {failure.leaves_out}, not charged, "
            f"in {policy.infra_first_delay_s:g} s",
        )
    user = failure.failures_user + (retry_class is RetryClass.USER)
    infra = failure.failures_infra + (retry_class is RetryClass.INFRA)
    no_progress = failure.no_progress
    if failure.has_progressed:
        no_progress = 0
    elif failure.has_trained and retry_class is not RetryClass.PREEMPTION:
        no_progress += 1

    def give_up(termination: Termination, reason: str) -> GiveUp:
        return GiveUp(
            termination=termination,
            failures_user=user,
            failures_infra=infra,
            no_progress=no_progress,
            reason=reason,
        )

    if retry_class is RetryClass.NONE:
        return give_up(failure.termination, "not restarted: it would end the same way again")
    if retry_class is RetryClass.PREEMPTION:
        used, budget, delay_s = 0, 1, 0.0
    elif retry_class is RetryClass.USER:
        used, budget = user, failure.budget_user
        delay_s = backoff_s(used - 1, policy=policy)
    else:
        used, budget = infra, failure.budget_infra
        delay_s = backoff_s(used - 2, policy=policy)
        if used == 1:
            delay_s = 0.0 if failure.has_trained else policy.infra_first_delay_s
    if used > budget:
        return give_up(failure.termination, f"not restarted: {_used_up(retry_class, budget)}")
    if no_progress >= policy.no_progress_attempts:
        attempts = count(no_progress, "attempt")
        return give_up(
            Termination.NO_PROGRESS,
            f"not restarted: {attempts} in a row ended without a newer checkpoint, which ends a "
            "trial whatever restarts allows; save checkpoints more often (checkpoints.every)",
        )
    left = "" if retry_class is RetryClass.PREEMPTION else f" ({used} of {budget} used)"
    return Retry(
        delay_s=delay_s,
        failures_user=user,
        failures_infra=infra,
        no_progress=no_progress,
        reason=f"{retry_class.value} restart{left}, "
        + (f"in {delay_s:g} s" if delay_s else "at once"),
    )


def _used_up(retry_class: RetryClass, budget: int) -> str:
    key = f"restarts.{retry_class.value}"
    if budget == 0:
        return f"{key} is 0"
    if budget == 1:
        return f"the one restart that {key} allows is used"
    return f"all {budget} restarts that {key} allows are used"


def backoff_s(exponent: int, *, policy: RestartPolicy) -> float:
    """backoff_s · 2^exponent, at most backoff_max_s. Overflow-proof for any exponent >= 0."""
    return min(policy.backoff_max_s, policy.backoff_s * 2.0 ** min(max(exponent, 0), 64))
