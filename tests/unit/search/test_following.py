"""A search that goes by the room there is: how many trials it lets live as slots come and go."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from muster_server.domain.scheduling.resources import NodeView, Request
from muster_server.domain.scheduling.room import num_fitting
from muster_server.domain.search import (
    Action,
    CreateTrial,
    Enqueued,
    Event,
    Finish,
    Limited,
    PauseTrial,
    ResumeTrial,
    Roomed,
    Searcher,
    SearchSpec,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    event_from_json,
    event_to_json,
    initial_state,
    on_event,
)
from muster_server.domain.search.population import Explore
from support import search_specs

SPACE = {"lr": {"log": [1e-4, 1e-1]}}


def random_search(**changes: Any) -> SearchSpec:
    given: dict[str, Any] = {"space": SPACE, "seed": 7, "trials": 400, "concurrent": None}
    return SearchSpec(method="random", **{**given, **changes})


def asha(**changes: Any) -> SearchSpec:
    given: dict[str, Any] = {"space": SPACE, "trials": 9, "max_units": 9, "divisor": 3}
    return search_specs.asha(**{**given, "concurrent": None, **changes})


def created(actions: list[Action]) -> list[int]:
    return [a.no for a in actions if isinstance(a, CreateTrial)]


def begun(spec: SearchSpec, room: int | None) -> tuple[Searcher, list[int]]:
    searcher = Searcher(spec)
    if room is not None:
        assert searcher.apply(Roomed(room=room)) == []
    return searcher, created(searcher.apply(Started()))


@pytest.mark.parametrize(
    ("concurrent", "room", "alive"),
    [
        (None, None, 2),  # nothing was told yet
        (None, 0, 2),
        (None, 1, 2),
        (None, 7, 8),
        (None, 255, 256),
        (None, 1000, 256),
        (3, 0, 3),
        (3, 1000, 3),
    ],
)
def test_as_many_live_as_fit_and_one_more_unless_a_number_is_given(
    concurrent: int | None, room: int | None, alive: int
) -> None:
    searcher, numbers = begun(random_search(concurrent=concurrent), room)
    assert searcher.num_live == len(numbers) == alive


def test_room_that_grows_is_filled_and_room_that_shrinks_ends_nobody() -> None:
    searcher, _ = begun(random_search(), 2)
    assert created(searcher.apply(Roomed(room=4))) == [4, 5]
    assert searcher.apply(Roomed(room=1)) == []
    for no in (1, 2, 3):
        assert searcher.apply(TrialEnded(trial_no=no, outcome="completed")) == []
    assert created(searcher.apply(TrialEnded(trial_no=4, outcome="completed"))) == [6]
    assert searcher.num_live == 2


def test_scarce_slots_finish_trials_before_they_begin_others() -> None:
    searcher, _ = begun(asha(rule="promotion", trials=20), 3)
    searcher.apply(Roomed(room=0))
    actions: list[Action] = []
    for no, value in ((1, 0.3), (2, 0.2), (3, 0.1), (4, 0.4)):
        actions += searcher.apply(Validated(trial_no=no, units=1, value=value))
    # Of four that rest, one is among the best third: it goes on, and only then is one begun.
    went_on = [a for a in actions if isinstance(a, (ResumeTrial, CreateTrial))]
    assert sum(isinstance(a, PauseTrial) for a in actions) >= 3
    assert searcher.num_live == 2
    assert 3 in searcher.live
    assert [a.no for a in went_on if isinstance(a, CreateTrial)] == [5]


def test_a_number_set_by_a_user_holds_until_the_room_counts_again() -> None:
    searcher, _ = begun(random_search(), 3)
    searcher.apply(Limited(concurrent=5))
    assert searcher.num_live == 5
    assert searcher.apply(Roomed(room=9)) == []
    assert searcher.apply(Limited(trials=300)) == []
    searcher.apply(Limited(follows=True))
    assert searcher.num_live == 10
    fixed, _ = begun(random_search(concurrent=2), None)
    fixed.apply(Roomed(room=4))
    fixed.apply(Limited(follows=True))
    assert fixed.num_live == 5


def test_room_before_the_first_trial_or_after_the_end_changes_nothing() -> None:
    searcher = Searcher(random_search(trials=1))
    assert searcher.apply(Roomed(room=50)) == []
    searcher.apply(Started())
    ended = searcher.apply(TrialEnded(trial_no=1, outcome="completed"))
    assert any(isinstance(a, Finish) for a in ended)
    assert searcher.apply(Roomed(room=60)) == []


def test_points_from_outside_are_tried_as_room_allows() -> None:
    searcher, numbers = begun(random_search(sampler="external"), 1)
    assert numbers == []
    made = [created(searcher.apply(Enqueued(hparams={"lr": 0.01}))) for _ in range(4)]
    assert made == [[1], [2], [], []]
    assert created(searcher.apply(Roomed(room=2))) == [3]


EXPLORE = Explore(size=4, quantile=0.25, resample=0.25, factors=(0.8, 1.2), names=None)
SPECS = {
    "grid": SearchSpec(
        method="grid", space={"lr": {"choice": [1, 2, 3, 4, 5]}}, seed=1, trials=5, concurrent=None
    ),
    "tpe": random_search(sampler="tpe", trials=12, metric="val/loss"),
    "stopping": asha(),
    "promotion": asha(rule="promotion"),
    "hyperband": search_specs.hyperband(space=SPACE, max_units=9, concurrent=None),
    "pbt": search_specs.pbt(space=SPACE, explore=EXPLORE, max_units=6, interval=2, concurrent=None),
}


@pytest.mark.parametrize("name", SPECS)
def test_every_method_ends_while_slots_come_and_go_and_decides_the_same_again(name: str) -> None:
    """Trials report rung after rung; the room changes before every event."""
    from muster_server.domain.search import Rested

    spec = SPECS[name]
    searcher, state = Searcher(spec), initial_state(spec)
    log: list[tuple[Event, list[Action]]] = []

    def hear(event: Event) -> list[Action]:
        actions = searcher.apply(event)
        log.append((event, actions))
        return actions

    def rest(actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, PauseTrial) and spec.rule == "population":
                rest(hear(Rested(trial_no=action.no, checkpoint_id=action.no)))
            if isinstance(action, StopTrial):
                rest(hear(TrialEnded(trial_no=action.no, outcome="stopped")))

    rooms = [3, 0, 5, 1, 8, 2]
    rest(hear(Roomed(room=3)))
    rest(hear(Started()))
    for turn in range(500):
        if searcher.is_finished:
            break
        most = max(searcher.num_live, spec.at_once(rooms[turn % 6]))
        rest(hear(Roomed(room=rooms[turn % 6])))
        assert searcher.num_live <= most
        no = sorted(searcher.live)[turn % searcher.num_live]
        trial = searcher.live[no]
        if trial.next_rung < trial.end:
            units = searcher.standings.units[trial.next_rung]
            rest(hear(Validated(trial_no=no, units=units, value=(no * 7 % 11) / 10)))
            if no not in searcher.live or units != spec.max_units:
                continue
        rest(hear(TrialEnded(trial_no=no, outcome="completed", value=no / 10)))
    assert searcher.is_finished
    assert searcher.num_created == spec.trials
    for event, actions in log:
        state, again = on_event(state, event_from_json(event_to_json(event)))
        assert again == actions
    assert state == searcher.state()


def test_a_state_of_before_keeps_its_number() -> None:
    searcher, _ = begun(random_search(concurrent=16), None)
    stored = searcher.state()
    del stored["room"]
    again = Searcher.from_state(stored)
    assert again.at_once == 16
    assert event_from_json({"type": "limited", "trials": 5, "concurrent": None, "key": ""}) == (
        Limited(trials=5)
    )


def node(name: str, **changes: Any) -> NodeView:
    given: dict[str, Any] = {"id": name, "name": name, "pool": "default"}
    return NodeView(**{**given, **changes})


@pytest.mark.parametrize(
    ("request_", "slots", "found"),
    [
        (Request(slots=1), {"a": 3, "b": 2}, 5),
        (Request(slots=2), {"a": 3, "b": 3}, 3),  # one on each, and one over both
        (Request(slots=2, max_nodes=1), {"a": 3, "b": 3}, 2),
        (Request(slots=4, nodes=2), {"a": 4, "b": 4, "c": 2}, 2),
        (Request(slots=8), {"a": 4, "b": 3}, 0),
        (Request(slots=4, min_slots=1), {"a": 6}, 1),  # elastic: with all of its slots
        (Request(slots=1, deny_nodes=("a",)), {"a": 3, "b": 2}, 2),
        (Request(slots=1, labels={"rack": "r1"}), {"a": 3, "b": 2}, 3),
        (Request(slots=2, topology_key="rack", topology_mode="require"), {"a": 1, "b": 1}, 0),
        (Request(slots=2, topology_key="rack"), {"a": 1, "b": 1}, 1),
        (Request(slots=1, pool="other"), {"a": 3}, 0),
        (Request(slots=1), {"a": 900}, 256),
        (Request(slots=1), {}, 0),
    ],
)
def test_how_many_trials_fit_beside_each_other(
    request_: Request, slots: dict[str, int], found: int
) -> None:
    nodes = [node("a", labels={"rack": "r1"}), node("b", labels={"rack": "r2"}), node("c")]
    assert num_fitting(request_, nodes, slots, at_most=256) == found


@pytest.mark.parametrize(
    "shut", [{"state": "LOST"}, {"scheduling": "draining"}, {"health": "quarantined"}]
)
def test_nodes_on_which_nothing_may_be_placed_do_not_count(shut: dict[str, str]) -> None:
    nodes = [node("a"), dataclasses.replace(node("b"), **shut)]
    assert num_fitting(Request(slots=1), nodes, {"a": 2, "b": 8}, at_most=256) == 2
