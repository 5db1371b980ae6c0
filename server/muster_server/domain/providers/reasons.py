"""Slurm's and Kubernetes' words for why a job waits or has ended, in ours."""

from __future__ import annotations

from collections.abc import Mapping
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
_KUBERNETES: Mapping[str, tuple[Kind, str]] = {
    "Unschedulable": ("waits", "no node can take it now"),
    "SchedulingGated": ("waits", "a scheduling gate holds it"),
    "Suspended": ("waits", "it waits in its queue"),
    "QuotaExceeded": ("waits", "the quota of the namespace is used up"),
    "ContainerCreating": ("waits", "its container is being created"),
    "ErrImagePull": ("waits", "its image could not be pulled, and is tried again"),
    "FailedCreate": ("wrong", "its pod is refused"),
    "ImagePullBackOff": ("wrong", "its image cannot be pulled"),
    "ErrImageNeverPull": ("wrong", "its image is not on the node, and may not be pulled"),
    "InvalidImageName": ("wrong", "its image has no valid name"),
    "CreateContainerConfigError": ("wrong", "its container cannot be configured"),
    "CreateContainerError": ("wrong", "its container cannot be created"),
    "RunContainerError": ("wrong", "its container cannot be started"),
    "Evicted": ("waits", "its node has evicted it"),
    "EvictionByEvictionAPI": ("waits", "it was evicted, as when its node is drained"),
    "PreemptionByScheduler": ("waits", "a pod of higher priority has taken its place"),
    "DeletionByTaintManager": ("waits", "its node was lost or closed"),
    "DeletionByPodGC": ("waits", "its node is gone"),
    "TerminationByKubelet": ("waits", "its node has ended it"),
    "NodeShutdown": ("waits", "its node was shut down"),
    "NodeLost": ("waits", "its node does not answer"),
    "Requeued": ("waits", "its queue has taken the quota back"),
    "BackoffLimitExceeded": ("waits", "its pod has failed, or was deleted"),
    "OOMKilled": ("waits", "it ran out of memory"),
    "DeadlineExceeded": ("waits", "its wall time was over"),
    "Error": ("waits", "its agent has failed"),
}
"""Words of Kubernetes, which our adapter writes before a colon and what was said."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    kind: Kind
    """Kind of wait: patience helps ("waits"), it never starts ("wrong"), or a person has to release it
    ("held")."""
    text: str
    """Our words, with those of the batch system in brackets; "" if it gave none."""


def reason_of(word: str) -> Reason:
    """Return what the reason of a batch system for a pending or ended job means. An unknown one is a
    wait."""
    word = word.strip()
    if (known := _KUBERNETES.get(word.split(":")[0])) is not None:
        return Reason(kind=known[0], text=f"{known[1]} ({word.rstrip('.')})")
    word = word.strip("()")
    if word in ("", "None"):
        return Reason(kind="waits", text="")
    # "ReqNodeNotAvail, UnavailableNodes:n[1-2]"
    first = word.split(",")[0].strip()
    kind: Kind = "wrong" if first in _WRONG else "held" if first in _HELD else "waits"
    if first.startswith(("QOSMax", "AssocGrp", "AssocMax", "QOSGrp")) and kind == "waits":
        return Reason(kind=kind, text=f"a limit of the account or its quality of service ({word})")
    ours = _WORDS.get(first)
    return Reason(kind=kind, text=f"{ours} ({word})" if ours else word)
