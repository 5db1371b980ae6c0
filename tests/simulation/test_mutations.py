"""Without any of its safeguards the system breaks a promise, and the witness notices."""

import pytest

from support.simulation import world
from support.simulation.mutations import MUTATIONS, Mutation, applied
from support.simulation.reports import run_one
from support.simulation.scenario import draw

pytestmark = pytest.mark.timeout(1800)
SEEDS = sorted({mutation.seed for mutation in MUTATIONS})
MORE_SEEDS = range(12)
"""Where a mutation's own seed draws another history since something else was changed."""


@pytest.fixture(autouse=True)
def give_up_early(monkeypatch):
    """What has not ended by then never will: none of these seeds takes half as long undisturbed."""
    monkeypatch.setattr(world, "GIVE_UP_AFTER_S", 900.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_every_safeguard_the_promises_are_kept(seed):
    history = run_one(seed)
    assert history.violations == []
    assert history.virtual_s < draw(seed).faults_end_at_s + 450


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_missing_safeguard_is_noticed(mutation):
    seeds = (mutation.seed, *MORE_SEEDS)
    noticed = any(run_one(seed, mutation=mutation.name).violations for seed in seeds)
    assert noticed, f"{mutation.what}: nobody noticed in the seeds {seeds}"


def answer():
    return 41


def test_a_mutation_ends_and_one_that_no_longer_applies_is_an_error(monkeypatch):
    def use(before):
        made = Mutation("one", "", 0, answer, before, "return 42")
        monkeypatch.setattr("support.simulation.mutations.MUTATIONS", (made,))

    use("return 41")
    before = answer
    with applied("one"):
        assert before() == 42
    assert answer() == 41
    use("return 40")
    with (
        pytest.raises(ValueError, match="does not contain 'return 40' exactly once"),
        applied("one"),
    ):
        pass
    with pytest.raises(KeyError, match="there are: one"), applied("two"):
        pass
