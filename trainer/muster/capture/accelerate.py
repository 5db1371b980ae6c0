"""`Accelerator.log`, with or without a tracker, as the main process calls it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from muster.capture.reporting import before, guarded, report

ROUTE = "accelerate"


def hook(module: ModuleType) -> None:
    before(module.Accelerator, "log", _log)


@guarded(ROUTE)
def _log(
    accelerator: Any, values: dict[str, Any], step: int | None = None, *_: Any, **__: Any
) -> None:
    if accelerator.is_main_process:
        report(ROUTE, values, step=step)
