"""What a user should know about a script that runs without an error, and still not as intended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from muster.sdk.metrics import MEASURED
from muster_server.domain.messages import Message
from muster_server.domain.states import TrialState

STEPS_BEFORE_NOTICE = 10
"""Steps before anything is said about a running script: a process group or a first loss may come
late."""


@dataclass(frozen=True, kw_only=True)
class ScriptRun:
    """The latest attempt of a trial that runs a user's own script and is measured."""

    state: TrialState
    world_size: int
    num_reporting: int
    """Number of its workers that report, which those of a script without torch do not."""
    has_process_group: bool
    """Whether any worker has reported a process group with a backend."""
    step: int
    metrics: Collection[str]
    """Names of all metrics of the trial, those that Muster measures included."""


def script_notices(run: ScriptRun) -> list[Message]:
    """Return what is to be said about a script, most serious first; usually nothing."""
    found = []
    if _trains_independently(run):
        found.append(Message("script.independent", world=run.world_size))
    if run.state == TrialState.COMPLETED and run.step == 0 and run.num_reporting > 0:
        found.append(Message("script.no_step"))
    is_own = any(not name.startswith(MEASURED) for name in run.metrics)
    if run.step >= STEPS_BEFORE_NOTICE and not is_own:
        found.append(Message("script.no_loss", steps=run.step))
    return found


def _trains_independently(run: ScriptRun) -> bool:
    all_report = run.num_reporting == run.world_size > 1
    return all_report and run.step >= STEPS_BEFORE_NOTICE and not run.has_process_group
