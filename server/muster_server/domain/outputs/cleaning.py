"""Which work folders a node may delete.

A folder that has not been collected is the only copy of what the job wrote: it stays, unless the trial
itself was deleted. A trial that is merely unknown, as after a backup was restored, was not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from muster.wire import WorkFolder


@dataclass(frozen=True, kw_only=True)
class FolderOwner:
    """The trial of a work folder, as far as deleting the folder depends on it."""

    ended_at: dt.datetime | None
    """Time at which it ended for good; None while it may run again."""
    newest_attempt_no: int
    """Number of its newest attempt."""
    collected_attempt_no: int
    """Newest attempt of which the final manifests of all nodes are here; 0 without one."""
    is_in_use_here: bool
    """Whether an attempt of it still holds, or may hold, slots of this node."""
    ran_here: bool
    """Whether its newest attempt ran on this node."""


@dataclass(frozen=True, kw_only=True)
class DeleteWorkFolder:
    trial_id: int
    attempt_no: int
    size_bytes: int
    reason: str
    """Sentence for people, without a full stop."""


def deletable(
    folders: Iterable[WorkFolder],
    owners: Mapping[int, FolderOwner],
    *,
    deleted: Collection[int],
    keep: dt.timedelta,
    now: dt.datetime,
) -> list[DeleteWorkFolder]:
    """Return the folders that the node may delete, in the order of their trials.

    folders: what lies on the node. owners: trial → what is known of it. deleted: trials that users
    deleted. keep: time for which the folder of an ended trial stays on its node. The folder of a trial
    that is in neither of the two stays.
    """
    found = []
    for folder in sorted(folders, key=lambda folder: folder.trial_id):
        if folder.trial_id in deleted:
            reason: str | None = "the trial was deleted"
        elif (owner := owners.get(folder.trial_id)) is not None:
            reason = _reason(folder, owner, keep=keep, now=now)
        else:
            reason = None
        if reason is not None:
            found.append(
                DeleteWorkFolder(
                    trial_id=folder.trial_id,
                    attempt_no=folder.attempt_no,
                    size_bytes=folder.size_bytes,
                    reason=reason,
                )
            )
    return found


def _reason(
    folder: WorkFolder, owner: FolderOwner, *, keep: dt.timedelta, now: dt.datetime
) -> str | None:
    """Return why the folder may go; None if it stays."""
    if owner.is_in_use_here or not folder.is_collected:
        return None
    if folder.attempt_no < owner.newest_attempt_no:
        is_superseded = not owner.ran_here and owner.collected_attempt_no > folder.attempt_no
        if is_superseded:
            return f"attempt {owner.collected_attempt_no} ran on other nodes, and is collected"
    if owner.ended_at is not None and now - owner.ended_at >= keep:
        hours = keep.total_seconds() / 3600
        return f"the trial ended more than {hours:g} h ago, and its files are in the storage"
    return None
