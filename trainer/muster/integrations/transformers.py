"""A callback for the `Trainer` of Hugging Face: `Trainer(callbacks=[MusterCallback()])`."""

from __future__ import annotations

import importlib
from typing import Any

from muster.capture.transformers import report_logs

_transformers = importlib.import_module("transformers")


class MusterCallback(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Reports what the `Trainer` logs, evaluations included, at its `global_step`, from rank 0."""

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        report_logs(state, logs or {}, is_explicit=True)
