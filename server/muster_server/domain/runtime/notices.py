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
STEPS_BETWEEN_EXCHANGES = 100
"""Steps before workers with a process group count as independent: methods like local SGD exchange
parameters only now and then."""
TORCH_METRIC = "time/backward_ms"
"""What is measured of every script that trains with torch, and of no other."""
MEASURED_BACKENDS = frozenset({"", "gloo"})
"""Backends whose bytes are counted; "" is a worker without a process group."""


@dataclass(frozen=True, kw_only=True)
class ScriptRun:
    """The latest attempt of a trial that runs a user's own script and is measured."""

    state: TrialState
    launcher: str | None
    world_size: int
    num_reporting: int
    """Number of its workers that report, which those of a script without torch do not."""
    backends: frozenset[str]
    """Backends of the workers' process groups; "" for a worker that has made none."""
    step: int
    metrics: Collection[str]
    """Names of all metrics of the trial, those that Muster measures included."""
    max_comm_bytes: float | None = None
    """Most bytes that a worker has sent in a step; None if communication is not measured."""


def script_notices(run: ScriptRun) -> list[Message]:
    """Return what is to be said about a script, most serious first; usually nothing."""
    found = []
    if _trains_independently(run):
        found.append(Message("script.independent", world=run.world_size, steps=run.step))
    if run.state == TrialState.COMPLETED and run.step == 0 and run.num_reporting > 0:
        found.append(Message("script.no_step"))
    is_own = any(not name.startswith(MEASURED) for name in run.metrics)
    if run.step >= STEPS_BEFORE_NOTICE and not is_own:
        found.append(Message("script.no_loss", steps=run.step))
    return found


def _trains_independently(run: ScriptRun) -> bool:
    if not run.num_reporting == run.world_size > 1:
        return False
    if run.backends == {""}:
        # Without torch there is nothing to wrap; processes started directly may be meant to be alone.
        is_meant_together = run.launcher != "direct" and TORCH_METRIC in run.metrics
        return is_meant_together and run.step >= STEPS_BEFORE_NOTICE
    is_counted = run.backends <= MEASURED_BACKENDS and run.max_comm_bytes is not None
    return is_counted and run.max_comm_bytes == 0 and run.step >= STEPS_BETWEEN_EXCHANGES
