from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.inference.scores import class_scores
from muster_server.domain.runtime.evaluations import MAX_CLASSES, problem


def test_scores_of_each_class() -> None:
    cat, dog, bird, nothing = class_scores(
        ["cat", "dog", "bird", "nothing"],
        [[8, 1, 1, 0], [0, 6, 4, 0], [2, 0, 0, 0], [0, 0, 0, 0]],
    )
    assert (cat.num_samples, cat.num_predicted) == (10, 10)
    assert (cat.precision, cat.recall) == pytest.approx((0.8, 0.8))
    assert (dog.precision, dog.recall) == pytest.approx((6 / 7, 0.6))
    assert dog.f1 == pytest.approx(2 * (6 / 7) * 0.6 / (6 / 7 + 0.6))
    assert (bird.precision, bird.recall, bird.f1) == (0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, None, None)


@settings(max_examples=30)
@given(
    st.integers(0, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n
        )
    )
)
def test_scores_agree_with_scikit_learn(confusion: list[list[int]]) -> None:
    from sklearn import metrics

    names = [str(i) for i in range(len(confusion))]
    assert problem(names, confusion) is None
    scores = class_scores(names, confusion)
    pairs = [
        (true, predicted)
        for true, row in enumerate(confusion)
        for predicted, count in enumerate(row)
        for _ in range(count)
    ]
    assert sum(s.num_samples for s in scores) == sum(s.num_predicted for s in scores) == len(pairs)
    if not pairs:
        return
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        [p[0] for p in pairs],
        [p[1] for p in pairs],
        labels=list(range(len(confusion))),
        zero_division=0,
    )
    assert [s.num_samples for s in scores] == list(support)
    for ours, theirs in (("precision", precision), ("recall", recall), ("f1", f1)):
        assert [getattr(s, ours) or 0 for s in scores] == pytest.approx(list(theirs))


@pytest.mark.parametrize(
    ("names", "confusion", "wrong"),
    [
        (["a", "b"], [[1, 2]], "it must have 2 rows and columns"),
        (["a"], [[1, 2]], "it must have 1 rows and columns"),
        ([], [[1]], "it must have 0 rows"),
        (["a"], [[-1]], "between 0 and 2^53"),
        ([str(i) for i in range(MAX_CLASSES + 1)], [], "129 classes are more than the 128"),
    ],
)
def test_what_cannot_be_kept(names: list[str], confusion: list[list[int]], wrong: str) -> None:
    found = problem(names, confusion)
    assert found is not None
    assert wrong in found
