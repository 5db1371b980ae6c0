"""Slurm's words for why a job waits or has ended, in ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["waits", "wrong", "held"]

_WRONG = frozenset(
    {
        "PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints",
        "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "PartitionInactive",
        "AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit",
        "AssocMaxNodePerJobLimit", "QOSMaxNodePerJobLimit", "QOSMinGRES", "DependencyNeverSatisfied",
    }
)  # fmt: skip
_HELD = frozenset({"JobHeldUser", "JobHeldAdmin", "launch failed requeued held"})
_WORDS = {
    "Priority": "other jobs are ahead of it",
    "Resources": "waits for resources",
    "ReqNodeNotAvail": "the nodes it asks for are not available",
    "Reservation": "waits for its reservation",
    "BeginTime": "its begin time is not reached",
    "Dependency": "waits for another job",
    "Licenses": "waits for a license",
    "PartitionDown": "the partition is down",
    "NodeDown": "a node it needs is down",
    "JobHeldUser": "held by its user",
    "JobHeldAdmin": "held by an administrator",
    "PartitionConfig": "it asks for more than the partition allows",
    "PartitionTimeLimit": "its wall time is longer than the partition allows",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "BadConstraints": "no node has what it asks for",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the quality of service is not valid",
    "AccountNotAllowed": "the account may not use the partition",
    "QOSNotAllowed": "the quality of service may not use the partition",
    "TimeLimit": "its wall time was over",
    "NonZeroExitCode": "its agent could not run",
    "OutOfMemory": "it ran out of memory",
    "NodeFail": "its machine failed",
    "Preempted": "it was preempted",
    # States in which a job has ended.
    "COMPLETED": "its job is complete",
    "CANCELLED": "its job was canceled",
    "FAILED": "its job failed",
    "TIMEOUT": "its wall time was over",
    "DEADLINE": "its deadline was over",
    "OUT_OF_MEMORY": "it ran out of memory",
    "NODE_FAIL": "its machine failed",
    "BOOT_FAIL": "its machine did not start",
    "PREEMPTED": "it was preempted",
    "REVOKED": "another cluster took its job",
}


@dataclass(frozen=True, kw_only=True)
class Reason:
    kind: Kind
    """Kind of wait: patience helps ("waits"), it never starts ("wrong"), or a person has to release it
    ("held")."""
    text: str
    """Our words, with Slurm's in brackets; "" if Slurm gave none."""


def reason_of(word: str) -> Reason:
    """Return what Slurm's reason for a pending or ended job means. An unknown one is a wait."""
    word = word.strip().strip("()")
    if word in ("", "None"):
        return Reason(kind="waits", text="")
    # "ReqNodeNotAvail, UnavailableNodes:n[1-2]"
    first = word.split(",")[0].strip()
    kind: Kind = "wrong" if first in _WRONG else "held" if first in _HELD else "waits"
    if first.startswith(("QOSMax", "AssocGrp", "AssocMax", "QOSGrp")) and kind == "waits":
        return Reason(kind=kind, text=f"a limit of the account or its quality of service ({word})")
    ours = _WORDS.get(first)
    return Reason(kind=kind, text=f"{ours} ({word})" if ours else word)
