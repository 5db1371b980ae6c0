"""How the members of a gang ended, and which of them ended it."""

from __future__ import annotations

import datetime as dt
import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from muster.wire import ExitInfo, WorkerExit

from ..states import AllocationState, Termination

CAUSES: Mapping[str, Termination] = {
    "user_error": Termination.USER_ERROR,
    "invalid_hparams": Termination.INVALID_HPARAMS,
    "not_on_node": Termination.NOT_ON_NODE,
    "cannot_run": Termination.CANNOT_RUN,
    "killed_by_signal": Termination.KILLED_BY_SIGNAL,
    "out_of_memory": Termination.OUT_OF_MEMORY,
    "disk_full": Termination.DISK_FULL,
    "limit_exceeded": Termination.LIMIT_EXCEEDED,
    "launcher_failed": Termination.LAUNCHER_FAILED,
    "node_rebooted": Termination.NODE_REBOOTED,
    "shim_lost": Termination.SHIM_LOST,
    "unkillable": Termination.UNKILLABLE,
    "start_timeout": Termination.START_TIMEOUT,
    "port_in_use": Termination.PORT_IN_USE,
    # Muster did not ask for it; somebody on that machine did.
    "stopped": Termination.WORKER_KILLED,
    "killed": Termination.WORKER_KILLED,
}
"""wire.ExitInfo.cause → why an attempt ends when that is its root cause."""
_NODES_DOING = frozenset({"shim_lost", "node_rebooted", "limit_exceeded"})
"""The workers died of it: what became of each says nothing about the cause."""
FAILURES = CAUSES.keys() - {"stopped", "killed"}
ENDED_WELL = "every worker exited with 0"
"""Reason of an end with nothing to add."""
DOUBTFUL = "exit code 0, but "
"""Beginning of the reason of an end that may not be what it says."""


TEARDOWN_MS = 10_000.0
"""How long a failing worker may take from closing its connections to its end."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one member ended. Exactly one of succeeded, stopped, failed holds."""

    node_name: str
    succeeded: bool = False
    stopped: bool = False
    """It ended because it was told to."""
    failed: bool = False
    lost: bool = False
    """Failed, because its node was lost."""
    at_ms: float = math.inf
    """Unix time of the failure, or of the last sign of life of a lost node."""
    error_ms: float = math.inf
    """`at_ms` is right to within this on the server's clock; infinite: it is some node's own."""
    blames_peer: bool = False
    """Its last words are about another worker that was gone or did not answer."""
    rank: int | None = None
    termination: Termination = Termination.SUCCESS
    sentence: str = ""
    log_tail: tuple[str, ...] = ()


def member_outcome(
    observed: AllocationState,
    desired: str,
    exit_info: ExitInfo | None,
    *,
    node_name: str,
    member: str = "",
    message: str = "",
    last_seen_at: dt.datetime | None = None,
) -> Outcome | None:
    """Return the outcome of an allocation, or None while it has none. member: its name, for one of a
    role.

    A member that reports its exit record early (while it is STOPPING) counts at once: its log
    tail may take a while, its peers should not wait for that.
    """
    if exit_info is not None and exit_info.site_stop_at_ms:
        return _site_stop(exit_info, node_name)
    if observed == AllocationState.LOST and exit_info is not None and exit_info.cause in FAILURES:
        return _failure(exit_info, node_name, member)  # it had reported this before it was lost
    if observed == AllocationState.LOST:
        return Outcome(
            node_name=node_name,
            failed=True,
            lost=True,
            at_ms=last_seen_at.timestamp() * 1000 if last_seen_at else math.inf,
            error_ms=0.0,
            termination=Termination.NODE_LOST,
            sentence=f"node {node_name} was lost",
        )
    if observed == AllocationState.PREPARE_FAILED:
        return Outcome(
            node_name=node_name,
            failed=True,
            termination=CAUSES[exit_info.cause] if exit_info else Termination.PREPARE_FAILED,
            sentence=f"{node_name} could not prepare: {message or 'no reason given'}",
        )
    if exit_info is None:
        if observed not in (AllocationState.EXITED, AllocationState.CLEANED):
            return None
        if desired in ("stop", "kill", "forget"):
            return Outcome(node_name=node_name, stopped=True)
        return Outcome(
            node_name=node_name,
            failed=True,
            termination=Termination.SHIM_LOST,
            sentence=f"{node_name} ended without saying how",
        )
    if exit_info.cause == "success" or _has_succeeded(exit_info):
        return (
            Outcome(node_name=node_name, succeeded=True)
            if observed != AllocationState.STOPPING
            else None
        )
    if desired in ("stop", "kill", "forget") and _is_end_by_request(exit_info):
        return Outcome(node_name=node_name, stopped=True)
    return _failure(exit_info, node_name, member)


def _has_succeeded(exit_info: ExitInfo) -> bool:
    """Return whether only something that its workers have left behind went wrong. Agents of before say
    "unkillable" of it, whatever the workers did."""
    is_left = exit_info.cause == "unkillable" and bool(exit_info.workers)
    return is_left and all(worker.exit_code == 0 for worker in exit_info.workers)


def _is_end_by_request(exit_info: ExitInfo) -> bool:
    """Return whether an attempt that is to stop has ended for that. A batch system that ends a job
    tells the agent, for which the attempt is stopped, and sends the same signal to its workers."""
    is_terminated = exit_info.cause == "killed_by_signal" and exit_info.signal == signal.SIGTERM
    return is_terminated or exit_info.cause in ("stopped", "killed", "unkillable")


def root_cause(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the failure that came first, by the time of its rank's end; None when nothing failed.

    A worker that blames another one was not the first to fail, if one that does not ended within
    `TEARDOWN_MS` of it: who fails closes its connections before it is gone. Nor is its time
    believed to be earlier than its clock can tell. Ties, and failures of unknown time, go by rank,
    then by node name.
    """
    failed = sorted(
        (outcome for outcome in outcomes if outcome.failed),
        key=lambda o: (o.at_ms, math.inf if o.rank is None else o.rank, o.node_name),
    )
    if not failed:
        return None
    earliest = failed[0]
    if not earliest.blames_peer:
        return earliest
    others = (o for o in failed if not o.blames_peer and _may_precede(o, earliest))
    return next(others, earliest)


def _may_precede(outcome: Outcome, earliest: Outcome) -> bool:
    """Return whether it may have caused what ended before it, as far as the clocks can tell."""
    unknown = math.isinf(outcome.at_ms) or math.isinf(outcome.error_ms + earliest.error_ms)
    margin_ms = TEARDOWN_MS + outcome.error_ms + earliest.error_ms
    return unknown or outcome.at_ms - earliest.at_ms <= margin_ms


def on_server_clock(info: ExitInfo, *, offset_ms: float | None, error_ms: float | None) -> ExitInfo:
    """Return the exit with its times on the server's clock, when the node's offset from it is
    known.

    offset_ms, error_ms: wire.ClockReading of the node. Without them, or from an agent that does
    not say how its times stand to its boot clock, it is returned as it is.
    """
    if info.unix_at_boot_ms is None or offset_ms is None or error_ms is None:
        return replace(info, at_error_ms=None)
    shift_ms = offset_ms - info.unix_at_boot_ms

    def moved(worker: WorkerExit) -> WorkerExit:
        return replace(worker, at_ms=round(worker.at_ms + shift_ms)) if worker.at_ms else worker

    return replace(
        info,
        workers=[moved(worker) for worker in info.workers],
        first_failure=moved(info.first_failure) if info.first_failure is not None else None,
        site_stop_at_ms=info.site_stop_at_ms and round(info.site_stop_at_ms + shift_ms),
        unix_at_boot_ms=offset_ms,
        at_error_ms=error_ms,
    )


def _site_stop(exit_info: ExitInfo, node_name: str) -> Outcome:
    """Return what ended the attempt, although nobody has failed: the site took the node, and could not
    tell the server."""
    return Outcome(
        node_name=node_name,
        failed=True,
        at_ms=float(exit_info.site_stop_at_ms),
        error_ms=math.inf if exit_info.at_error_ms is None else exit_info.at_error_ms,
        termination=Termination.DRAINED,
        sentence=f"{node_name} was told to end by its site, and could not tell the server",
    )


def _failure(exit_info: ExitInfo, node_name: str, member: str) -> Outcome:
    first = exit_info.first_failure
    at_ms = float(first.at_ms) if first is not None and first.at_ms > 0 else math.inf
    blamed = None if exit_info.cause in _NODES_DOING else first
    return Outcome(
        node_name=node_name,
        failed=True,
        at_ms=at_ms,
        error_ms=math.inf if exit_info.at_error_ms is None else exit_info.at_error_ms,
        blames_peer=first is not None and first.blames_peer,
        rank=blamed.rank if blamed is not None else None,
        termination=_termination(exit_info),
        sentence=_sentence(exit_info, blamed, node_name, member),
        log_tail=tuple(exit_info.log_tail),
    )


def _termination(exit_info: ExitInfo) -> Termination:
    """A SIGKILL comes from outside: when the kernel did not send it for want of memory, somebody or
    something on the node did, and the program has nothing to correct."""
    if exit_info.cause == "killed_by_signal" and exit_info.signal == signal.SIGKILL:
        return Termination.WORKER_KILLED
    return CAUSES[exit_info.cause]


def _sentence(exit_info: ExitInfo, first: WorkerExit | None, node_name: str, member: str) -> str:
    """Return who failed and how, such as "rank 3 on n1 exited with code 7: ValueError: bad
    batch"."""
    who = f"rank {first.rank} on {node_name}" if first is not None else node_name
    if member:
        who = f"{member} on {node_name}"
    if first is not None and first.exit_code is not None:
        how = f"exited with code {first.exit_code}"
        # The message of a worker that reported none is how it ended.
        return f"{who} {how}" if first.message in ("", how) else f"{who} {how}: {first.message}"
    words = (first.message if first is not None else "") or exit_info.message
    return f"{who}: {words}" if words else f"{who} failed ({exit_info.cause})"
