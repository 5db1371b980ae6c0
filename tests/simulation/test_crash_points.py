"""A process that dies between any two statements leaves nothing half done: another one goes on."""

import dataclasses
import os

import pytest
from crash_points import Replay, record
from sqlalchemy import text

from support.simulation.scenario import Mishap, draw

pytestmark = pytest.mark.timeout(1800)
EVERY = int(os.environ.get("MUSTER_CRASH_POINTS_EVERY", "13"))
"""Of the statements every so many is tried, another one in each piece of work; 1 tries them all."""


def eventful():
    """Two nodes, a gang over both that fails once and starts again, and beside it a search that goes by the
    slots there are."""
    base = draw(1).without_faults()
    node = dataclasses.replace(base.nodes[0], num_slots=2, skew_s=0.0, rate=1.0)
    nodes = tuple(dataclasses.replace(node, name=f"node-{i}") for i in (1, 2))
    script = dataclasses.replace(
        base.submissions[0].script,
        num_steps=6,
        step_s=1.0,
        report_every=3,
        checkpoint_every=3,
        stops="quick",
        peers_notice=True,
        logs=True,
        mishaps=((1, Mishap(kind="raise", at_step=3)),),
    )
    common = {
        "entrypoint": ["train.py"],
        "code": {"installed": "/srv/code"},
        "launcher": "direct",
        "restarts": {"user": 1, "infra": 1},
    }
    gang = common | {"name": "gang", "resources": {"slots": 2, "nodes": 2}}
    search = common | {
        "name": "search",
        "hyperparameters": {"lr": {"log": [1e-4, 1e-1]}},
        "search": {
            "method": "asha",
            "metric": "train/loss",
            "goal": "min",
            "trials": 3,
            "max_length": {"steps": 6},
            "divisor": 2,
        },
    }
    submission = dataclasses.replace(base.submissions[0], script=script)
    return dataclasses.replace(
        base,
        nodes=nodes,
        num_controllers=1,
        interleaving=0.0,
        submissions=(
            dataclasses.replace(submission, at_s=2.0, document=gang),
            dataclasses.replace(submission, at_s=2.5, document=search),
        ),
    )


@pytest.fixture(scope="module")
def recorded():
    return record(eventful())


@pytest.fixture(scope="module")
def replay():
    replay = Replay()
    yield replay
    replay.close()


@pytest.mark.parametrize("kind", ["tick", "request"])
def test_whoever_dies_at_any_statement_another_one_ends_where_it_would_have(recorded, replay, kind):
    num_points = 0
    for number, work in enumerate(w for w in recorded if w.name == kind):
        num, expected = replay.undisturbed(work)
        known = set()
        for at in range(number % EVERY, num, EVERY):
            # Deaths between the same two commits leave the same, and it is all another one knows.
            left = replay.crashed(work, at)
            if left not in known:
                assert replay.done_again(work, left) == expected, (work.now_s, at)
            known.add(left)
            num_points += 1
    print(f"{num_points} crash points")
    assert num_points > 600 / EVERY


def test_what_was_done_and_not_answered_is_done_once(recorded, replay):
    for work in (w for w in recorded if w.name == "request"):
        assert replay.done_twice(work) == 0


def test_work_that_can_be_left_half_done_is_found_out(recorded, replay):
    def torn():
        for table in ("nodes", "experiments"):
            with replay.database.transaction() as session:
                session.execute(text(f"UPDATE {table} SET state = state || '!'"))

    work = dataclasses.replace(recorded[-1], do=torn)
    num, expected = replay.undisturbed(work)
    lefts = [replay.crashed(work, at) for at in range(num)]
    assert any(replay.done_again(work, left) != expected for left in lefts)
