"""What a worker knows of its own collectives, and what it holds for that."""

from __future__ import annotations

import weakref

from muster.measure.progress import GroupCount


class Work:
    def __init__(self) -> None:
        self.is_over = False

    def is_completed(self) -> bool:
        return self.is_over


def test_what_was_waited_for_is_let_go_of_at_once() -> None:
    """Its tensors are memory that the next collective could use; also when an earlier one is still
    under way, as with gathering ahead."""
    count = GroupCount("world")
    ahead, waited = Work(), Work()
    count.begin("all_gather", ahead)
    count.begin("reduce_scatter", waited)
    waited.is_over = True
    gone = weakref.ref(waited)
    count.ended(waited)
    del waited
    assert gone() is None
    assert count.look()["num_completed"] == 0, "they are over in order"
    ahead.is_over = True
    assert count.look() == {
        "group": "world",
        "kind": "reduce_scatter",
        "num_enqueued": 2,
        "num_completed": 2,
    }
