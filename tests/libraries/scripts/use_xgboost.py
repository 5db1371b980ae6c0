"""XGBoost with evaluation sets and early stopping."""

import json
from pathlib import Path

import numpy as np
import xgboost as xgb

rng = np.random.default_rng(1)
x, y = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
train, held_out = xgb.DMatrix(x[:150], y[:150]), xgb.DMatrix(x[150:], y[150:])
history: dict[str, dict[str, list[float]]] = {}
xgb.train(
    {"objective": "binary:logistic"}, train, 30, evals=[(train, "train"), (held_out, "test")],
    evals_result=history, early_stopping_rounds=3, verbose_eval=False,
)  # fmt: skip
expected = {
    f"{data}/{metric}": {str(step): value for step, value in enumerate(values)}
    for data, metrics in history.items()
    for metric, values in metrics.items()
}
Path("expected.json").write_text(json.dumps(expected))
