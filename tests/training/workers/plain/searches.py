"""A search of scikit-learn, which knows nothing of Muster."""

from pathlib import Path

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

data = load_iris()
search = GridSearchCV(LogisticRegression(max_iter=500), {"C": [0.01, 1.0, 100.0]}, cv=3)
search.fit(data.data, data.target)
Path("scores.txt").write_text("\n".join(str(x) for x in search.cv_results_["mean_test_score"]))
