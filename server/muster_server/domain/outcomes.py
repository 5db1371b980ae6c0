"""How the members of a gang ended, and which of them ended it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.wire import ExitInfo, WorkerExit

from .states import Termination

CAUSES: Mapping[str, Termination] = {
    "user_error": Termination.USER_ERROR,
    "killed_by_signal": Termination.KILLED_BY_SIGNAL,
    "out_of_memory": Termination.OUT_OF_MEMORY,
    "launcher_failed": Termination.LAUNCHER_FAILED,
    "node_rebooted": Termination.NODE_REBOOTED,
    "shim_lost": Termination.SHIM_LOST,
    "unkillable": Termination.UNKILLABLE,
    "start_timeout": Termination.START_TIMEOUT,
    "port_in_use": Termination.PORT_IN_USE,
    # Nobody of ours asked for it: somebody on that machine did.
    "stopped": Termination.KILLED_BY_SIGNAL,
    "killed": Termination.KILLED_BY_SIGNAL,
}
"""wire.ExitInfo.cause → why an attempt ends when that is its root cause."""
_NODES_DOING = frozenset({"shim_lost", "node_rebooted"})
"""The workers died of it: what became of each says nothing about the cause."""


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
    rank: int | None = None
    termination: Termination = Termination.SUCCESS
    sentence: str = ""
    log_tail: tuple[str, ...] = ()


def member_outcome(
    observed: str,
    desired: str,
    exit_info: ExitInfo | None,
    *,
    node_name: str,
    message: str = "",
    last_seen_at: dt.datetime | None = None,
) -> Outcome | None:
    """The outcome of an allocation, or None while it has none.

    A member that reports its exit record early (while it is STOPPING) counts at once: its log
    tail may take a while, its peers should not wait for that.
    """
    if observed == "LOST":
        return Outcome(
            node_name=node_name,
            failed=True,
            lost=True,
            at_ms=last_seen_at.timestamp() * 1000 if last_seen_at else math.inf,
            termination=Termination.NODE_LOST,
            sentence=f"node {node_name} was lost",
        )
    if observed == "PREPARE_FAILED":
        return Outcome(
            node_name=node_name,
            failed=True,
            termination=Termination.PREPARE_FAILED,
            sentence=f"{node_name} could not prepare: {message or 'no reason given'}",
        )
    if exit_info is None:
        if observed not in ("EXITED", "CLEANED"):
            return None
        if desired in ("stop", "kill", "forget"):
            return Outcome(node_name=node_name, stopped=True)
        return Outcome(
            node_name=node_name,
            failed=True,
            termination=Termination.SHIM_LOST,
            sentence=f"{node_name} ended without saying how",
        )
    if exit_info.cause == "success":
        return Outcome(node_name=node_name, succeeded=True) if observed != "STOPPING" else None
    if exit_info.cause in ("stopped", "killed") and desired in ("stop", "kill", "forget"):
        return Outcome(node_name=node_name, stopped=True)
    return _failure(exit_info, node_name)


def root_cause(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The failure that came first, by the time of its rank's end; None when nothing failed.

    Ties, and failures of unknown time, go by rank, then by node name.
    """
    failed = [outcome for outcome in outcomes if outcome.failed]
    if not failed:
        return None
    return min(failed, key=lambda o: (o.at_ms, math.inf if o.rank is None else o.rank, o.node_name))


def _failure(exit_info: ExitInfo, node_name: str) -> Outcome:
    first = exit_info.first_failure
    at_ms = float(first.at_ms) if first is not None and first.at_ms > 0 else math.inf
    blamed = None if exit_info.cause in _NODES_DOING else first
    return Outcome(
        node_name=node_name,
        failed=True,
        at_ms=at_ms,
        rank=blamed.rank if blamed is not None else None,
        termination=CAUSES[exit_info.cause],
        sentence=_sentence(exit_info, blamed, node_name),
        log_tail=tuple(exit_info.log_tail),
    )


def _sentence(exit_info: ExitInfo, first: WorkerExit | None, node_name: str) -> str:
    """Who failed and how: "rank 3 on n1 exited with code 7: ValueError: bad batch"."""
    who = f"rank {first.rank} on {node_name}" if first is not None else node_name
    if first is not None and first.exit_code is not None:
        how = f"exited with code {first.exit_code}"
        # A worker that said nothing has how it ended for its words.
        return f"{who} {how}" if first.message in ("", how) else f"{who} {how}: {first.message}"
    words = (first.message if first is not None else "") or exit_info.message
    return f"{who}: {words}" if words else f"{who} failed ({exit_info.cause})"
