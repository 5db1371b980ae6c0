"""scikit-learn's searches: scores and times of each candidate, the step being its place in
`cv_results_`."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from muster.capture.reporting import guarded, report

ROUTE = "sklearn"
PREFIXES = ("mean_", "std_")


def hook(module: ModuleType) -> None:
    original = module.BaseSearchCV.fit

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        fitted = original(self, *args, **kwargs)
        _report(self.cv_results_)
        return fitted

    module.BaseSearchCV.fit = fit


@guarded(ROUTE)
def _report(results: dict[str, Any]) -> None:
    columns = {name: column for name, column in results.items() if name.startswith(PREFIXES)}
    for number in range(len(results["params"])):
        report(ROUTE, {name: column[number] for name, column in columns.items()}, step=number)
