"""Which rank the others wait for."""

import pytest

from muster_server.domain.guards.late import late_rank


@pytest.mark.parametrize(
    ("exposed_ms", "late"),
    [
        ({0: 60.0, 1: 5.0, 2: 62.0}, (1, 0.56)),
        ({0: 30.0, 1: 28.0, 2: 32.0}, (1, 0.03)),  # communication is slow for all
        ({0: 0.0}, None),
        ({}, None),
    ],
)
def test_the_rank_that_is_shortest_in_its_collectives(exposed_ms, late):
    assert late_rank(exposed_ms, dict.fromkeys(exposed_ms, 100.0)) == pytest.approx(late)


def test_a_rank_without_a_measured_step_is_left_out():
    assert late_rank({0: 60.0, 1: 5.0}, {0: 100.0}) is None
