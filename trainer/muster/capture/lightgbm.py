"""LightGBM: the metrics of the validation sets after each boosting round, counted from 0."""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

from muster.capture.reporting import guarded, report

ROUTE = "lightgbm"


def hook(module: ModuleType) -> None:
    original = module.train
    signature = inspect.signature(original)

    @functools.wraps(original)
    def train(*args: Any, **kwargs: Any) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # LightGBM says what is wrong with the arguments
        call.arguments["callbacks"] = [*(call.arguments.get("callbacks") or []), _after_round]
        return original(*call.args, **call.kwargs)

    module.train = train  # type: ignore[attr-defined]


@guarded(ROUTE)
def _after_round(env: Any) -> None:
    values = {f"{each[0]}/{each[1]}": each[2] for each in env.evaluation_result_list or []}
    report(ROUTE, values, step=env.iteration)


# Before early stopping, which ends the round by an exception.
_after_round.order = 25  # type: ignore[attr-defined]
