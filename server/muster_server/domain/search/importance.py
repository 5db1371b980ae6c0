"""Which hyperparameters matter: PED-ANOVA (Watanabe et al. 2023), Optuna's.

It asks how differently a hyperparameter is distributed among the best tenth of the trials and among
all of them. Functional ANOVA, which fits a forest, needs scikit-learn on the server and takes a
minute for 1,000 trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .sampling import SearchParameter

MIN_TRIALS = 20
"""Minimum number of trials; with fewer, the best tenth would be a single trial."""


def importance(
    parameters: Sequence[SearchParameter],
    results: Sequence[tuple[Mapping[str, Any], float]],
    *,
    goal: Literal["min", "max"],
) -> list[tuple[str, float]] | None:
    """(name, share) of the hyperparameters, most important first; the shares sum to 1.

    None with fewer than `MIN_TRIALS` finite results, without a hyperparameter that is in all of
    them, or where every value is the same. One with a `when` is left out: it is not in all of them.
    """
    import optuna

    from .model_based import Known, completed

    compared = [p for p in parameters if p.kind != "const" and not p.when]
    whole = completed(compared, [(h, v) for h, v in results if math.isfinite(v)])
    values = {trial.value for trial in whole}
    if not compared or len(whole) < MIN_TRIALS or len(values) < 2:
        return None
    if len(compared) == 1:
        return [(compared[0].name, 1.0)]
    study = optuna.create_study(
        storage=Known(whole), direction="maximize" if goal == "max" else "minimize"
    )
    shares = optuna.importance.get_param_importances(
        study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )
    return sorted(shares.items(), key=lambda item: (-item[1], item[0]))
