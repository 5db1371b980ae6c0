"""Which checkpoints of an experiment are kept, and why the others may go.

A policy has three numbers, and what any of them keeps is kept: the newest of each trial, the best of
each trial, and the best of the whole experiment. Whatever the policy, a checkpoint that somebody has
pinned stays, and one stays while somebody may go on from it: of a trial that has not ended the two newest (should the files of one be
damaged, the one before it is taken), and one that a fork starts from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NEWEST_IN_USE = 2
"""Number of newest checkpoints kept of a trial that has not ended."""
PINNED = "pinned"


@dataclass(frozen=True, kw_only=True)
class KeepPolicy:
    """Number of checkpoints to keep for each reason; 0 keeps none for it."""

    last: int = 1
    """Number of newest checkpoints to keep of each trial."""
    best: int = 1
    """Number of best checkpoints to keep of each trial, by the search metric."""
    experiment_best: int = 0
    """Number of best checkpoints to keep of all trials together, by the search metric."""

    def sentence(self) -> str:
        return (
            f"kept are of each trial the newest {self.last} and the best {self.best}, and the best "
            f"{self.experiment_best} of the experiment"
        )


@dataclass(frozen=True, kw_only=True)
class CheckpointView:
    """A checkpoint that is complete."""

    id: int
    trial_id: int
    step: int
    attempt_no: int
    value: float | None = None
    """Value of the search metric; a checkpoint with None or NaN is not among the best."""
    trial_ended: bool = True
    is_abandoned: bool = False
    """A guard has gone back to before it, so no attempt starts from it."""
    is_needed: bool = False
    """A fork that has not ended starts from it."""
    is_pinned: bool = False
    """Somebody wants it to stay, whatever the policy."""
    used_by: str = ""
    """Version of a model whose files it has, "version 3 of model digits"; "" for none."""


@dataclass(frozen=True, kw_only=True)
class KeepVerdict:
    checkpoint: CheckpointView
    reason: str
    """Why it is kept, or why not."""
    is_kept: bool
    is_replaced: bool = False
    """A later attempt saved the same step into the same folder: only its entry goes."""


def judge(
    checkpoints: Iterable[CheckpointView], keep: KeepPolicy, *, maximise: bool = False
) -> list[KeepVerdict]:
    """Return one verdict for each checkpoint of an experiment, in the order of trials and steps.

    Of equal values the later checkpoint is the better one. Nothing of nothing.
    """
    ordered = sorted(checkpoints, key=lambda c: (c.trial_id, c.step, c.attempt_no, c.id))
    current: dict[tuple[int, int], CheckpointView] = {(c.trial_id, c.step): c for c in ordered}
    living = list(current.values())
    trials: dict[int, list[CheckpointView]] = {}
    for checkpoint in living:
        trials.setdefault(checkpoint.trial_id, []).append(checkpoint)

    why: dict[int, str] = {}

    def note(chosen: Iterable[CheckpointView], reason: str) -> None:
        for checkpoint in chosen:
            why.setdefault(checkpoint.id, reason)

    pinned = {(c.trial_id, c.step) for c in ordered if c.is_pinned}
    note((c for c in living if (c.trial_id, c.step) in pinned), PINNED)
    used = {(c.trial_id, c.step): c.used_by for c in ordered if c.used_by}
    for checkpoint in ordered:
        if user := used.get((checkpoint.trial_id, checkpoint.step)):
            note([checkpoint], f"{user} consists of it")
    for mine in trials.values():
        mine.sort(key=lambda c: (not c.is_abandoned, c.step))
        if not mine[-1].trial_ended:
            note(mine[-NEWEST_IN_USE:], "its trial may go on from it")
        note((c for c in mine if c.is_needed), "another experiment starts from it")
    for mine in trials.values():
        note(mine[len(mine) - min(keep.last, len(mine)) :], f"of the newest {keep.last}")
        note(_best(mine, keep.best, maximise=maximise), f"of the best {keep.best}")
    note(
        _best(living, keep.experiment_best, maximise=maximise),
        f"of the best {keep.experiment_best} of the experiment",
    )
    verdicts = []
    for checkpoint in ordered:
        is_replaced = current[checkpoint.trial_id, checkpoint.step] is not checkpoint
        # A pin protects what lies in the folder, so it also holds for a checkpoint saved there again.
        reason = PINNED if checkpoint.is_pinned else why.get(checkpoint.id)
        verdicts.append(
            KeepVerdict(
                checkpoint=checkpoint,
                is_kept=reason is not None,
                is_replaced=is_replaced,
                reason="saved again by a later attempt"
                if is_replaced and reason is None
                else reason or keep.sentence(),
            )
        )
    return verdicts


def _best(
    checkpoints: Sequence[CheckpointView], num: int, *, maximise: bool
) -> list[CheckpointView]:
    judged = [c for c in checkpoints if c.value is not None and not math.isnan(c.value)]
    sign = -1.0 if maximise else 1.0
    judged.sort(key=lambda c: (sign * (c.value or 0.0), -c.step, -c.id))
    return judged[:num]
