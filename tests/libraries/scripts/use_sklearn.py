"""scikit-learn's search over a grid; `cv_results_` is what it recorded."""

import json
from pathlib import Path

from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

search = GridSearchCV(
    SVC(), {"C": [0.1, 1, 10], "kernel": ["rbf", "linear"]}, cv=3, return_train_score=True
)
search.fit(*load_iris(return_X_y=True))
expected = {
    name: {str(candidate): float(value) for candidate, value in enumerate(values)}
    for name, values in search.cv_results_.items()
    if name.startswith(("mean_", "std_"))
}
Path("expected.json").write_text(json.dumps(expected))
