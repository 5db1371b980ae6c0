"""`Trainer` of Hugging Face Transformers and what derives from it: what it logs, at its `global_step`.

Rank 0 reports. The trackers of `report_to` get the same values, which are not captured again.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from muster.capture.reporting import before, guarded, report

ROUTE = "transformers"


def hook(module: ModuleType) -> None:
    before(module.CallbackHandler, "on_log", _on_log)


@guarded(ROUTE)
def _on_log(handler: Any, args: Any, state: Any, control: Any, logs: dict[str, Any]) -> None:
    report_logs(state, logs)


def report_logs(state: Any, logs: dict[str, Any], *, is_explicit: bool = False) -> None:
    """Report what a `Trainer` in this state logs. is_explicit: the script has asked for it."""
    if not state.is_world_process_zero:
        return
    values = {name: value for name, value in logs.items() if name not in ("epoch", "step")}
    planned = state.max_steps if state.max_steps > 0 else None
    report(
        ROUTE,
        values,
        step=state.global_step,
        epoch=state.epoch,
        num_steps_planned=planned,
        is_explicit=is_explicit,
    )
