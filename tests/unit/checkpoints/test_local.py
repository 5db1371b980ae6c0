"""Which copies on a node's disk an attempt is offered."""

import random

import pytest

from muster_server.domain.checkpoints.local import OFFERED_MAX, LocalCopy, LocalOffer, offer


def copies(*steps, nodes=("node-1",), abandoned=()):
    return [
        LocalCopy(id=step, step=step, nodes=nodes, is_abandoned=step in abandoned) for step in steps
    ]


@pytest.mark.parametrize(
    ("given", "nodes", "stored_step", "wanted", "dropped"),
    [
        (copies(20, 30), ["node-1"], 10, (30, 20), ()),
        (copies(20, 30), ["node-1"], None, (30, 20), ()),
        (copies(20, 30), ["node-1"], 20, (30,), (20,)),
        (copies(20, 30), ["node-1"], 40, (), (30, 20)),
        (copies(20, 30, abandoned=[30]), ["node-1"], 10, (20,), (30,)),
        (copies(20, 30), ["node-2"], 10, (), ()),
        (copies(20, 30), ["node-1", "node-2"], 10, (), ()),
        ([], ["node-1"], 10, (), ()),
    ],
)
def test_newer_copies_on_the_only_node_are_offered(given, nodes, stored_step, wanted, dropped):
    assert offer(given, nodes=nodes, stored_step=stored_step) == LocalOffer(
        wanted=wanted, dropped=dropped
    )


@pytest.mark.parametrize(
    ("nodes", "is_exchanged", "wanted", "dropped"),
    [
        (["node-1", "node-2"], True, (30,), ()),
        (["node-2", "node-1", "node-3"], True, (30,), ()),
        (["node-1", "node-2"], False, (), ()),
        (["node-1", "node-3"], True, (), (30,)),
        (["node-1"], True, (), (30,)),
        (["node-3", "node-4"], True, (), ()),
    ],
)
def test_parts_on_several_nodes_are_offered_where_all_of_them_are(
    nodes, is_exchanged, wanted, dropped
):
    given = copies(30, nodes=("node-1", "node-2"))
    assert offer(given, nodes=nodes, stored_step=10, is_exchanged=is_exchanged) == LocalOffer(
        wanted=wanted, dropped=dropped
    )


def test_an_offer_is_bounded_and_never_touches_other_nodes():
    rng = random.Random(48)
    for _ in range(2000):
        nodes = [f"node-{no}" for no in range(1, 4)]
        given = [
            LocalCopy(
                id=id_,
                step=rng.randrange(50),
                nodes=tuple(rng.sample(nodes, rng.choice([1, 1, 2]))),
                is_abandoned=rng.random() < 0.2,
            )
            for id_ in range(rng.randrange(12))
        ]
        stored = rng.choice([None, rng.randrange(50)])
        placed = rng.sample(nodes, rng.choice([1, 1, 2]))
        is_exchanged = rng.random() < 0.5
        found = offer(given, nodes=placed, stored_step=stored, is_exchanged=is_exchanged)
        by_id = {copy.id: copy for copy in given}
        assert len(found.wanted) <= OFFERED_MAX
        steps = [by_id[id_].step for id_ in found.wanted]
        assert steps == sorted(steps, reverse=True)
        assert all(stored is None or step > stored for step in steps)
        assert not any(by_id[id_].is_abandoned for id_ in found.wanted)
        assert all(set(by_id[id_].nodes) <= set(placed) for id_ in found.wanted)
        touched = {*found.wanted, *found.dropped}
        here = {c.id for c in given if set(placed) & set(c.nodes)}
        assert touched == (here if len(placed) == 1 or is_exchanged else set())
        assert not set(found.wanted) & set(found.dropped)
