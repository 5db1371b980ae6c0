"""The tables of states, and the diagrams that show them."""

import re
from pathlib import Path

import pytest

from muster_server.domain import states
from muster_server.domain.states import RetryClass, Termination, TrialState, is_legal

PAGE = Path(__file__).parents[2] / "docs/concepts/states.md"
MACHINES = {
    "Experiment": (states.EXPERIMENT_TRANSITIONS, states.ExperimentState, "TERMINAL_EXPERIMENT"),
    "Trial": (states.TRIAL_TRANSITIONS, states.TrialState, "TERMINAL_TRIAL"),
    "Attempt": (states.ATTEMPT_TRANSITIONS, states.AttemptState, "TERMINAL_ATTEMPT"),
    "Allocation": (states.ALLOCATION_TRANSITIONS, states.AllocationState, "TERMINAL_ALLOCATION"),
    "Node": (states.NODE_TRANSITIONS, states.NodeState, None),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_documented_diagram_is_the_table(machine):
    section = PAGE.read_text().split(f"## {machine}\n")[1].split("\n## ")[0]
    edges = re.findall(r"^    (\w+) --> (\w+): (.+)$", section, flags=re.MULTILINE)
    # A semicolon would end a statement of the diagram.
    expected = [(a, b, why.replace(";", ",")) for (a, b), why in MACHINES[machine][0].items()]
    assert edges == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_edges_join_known_states_and_leave_a_terminal_one_only_to_continue(machine):
    table, names, terminal = MACHINES[machine]
    known = {state.value for state in names}
    ends = getattr(states, terminal) if terminal else frozenset({"REMOVED"})
    assert ends <= known
    for (before, after), why in table.items():
        assert {before, after} <= known
        if before in ends:
            assert machine in ("Experiment", "Trial")
            assert (after, why) == ("QUEUED", "continued by a user")


def test_staying_is_legal_and_an_unknown_edge_is_not():
    assert is_legal(states.TRIAL_TRANSITIONS, "COMPLETED", "COMPLETED")
    assert not is_legal(states.TRIAL_TRANSITIONS, "COMPLETED", "RUNNING")


def test_every_termination_has_a_terminal_state_and_a_retry_class():
    assert set(states.TERMINATIONS) == set(Termination)
    for state, retry_class in states.TERMINATIONS.values():
        assert TrialState(state).value in states.TERMINAL_TRIAL
        assert retry_class in RetryClass
