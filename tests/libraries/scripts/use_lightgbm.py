"""LightGBM's scikit-learn interface with early stopping."""

import json
from pathlib import Path

import lightgbm as lgb
import numpy as np

rng = np.random.default_rng(1)
x, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
model = lgb.LGBMClassifier(n_estimators=20, verbose=-1)
model.fit(
    x[:200], y[:200], eval_set=[(x[200:], y[200:])], eval_names=["held_out"],
    callbacks=[lgb.early_stopping(3, verbose=False)],
)  # fmt: skip
expected = {
    f"{data}/{metric}": {str(step): value for step, value in enumerate(values)}
    for data, metrics in model.evals_result_.items()
    for metric, values in metrics.items()
}
Path("expected.json").write_text(json.dumps(expected))
