"""Slots that an agent does not have any more: they go when they are free, and nobody gets them again."""

from sqlalchemy import select

from muster_server.db.models import NodeSlotRow


def slots_of(database):
    with database.read() as session:
        rows = session.execute(select(NodeSlotRow.idx, NodeSlotRow.allocation_id))
        return dict(rows.all())


def end(controller, node, allocation_id):
    controller.tick()
    node.run(allocation_id)
    controller.tick()
    node.exit(allocation_id)
    controller.tick()


def test_a_ghost_slot_vanishes_when_its_trial_ends_after_the_registration(
    controller, agent, submit, database, show
):
    node = agent(slots=2)
    submit(slots=2)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    node.slots = node.slots[:1]
    node.register(running=[node.running(allocation_id, "READY")])
    assert slots_of(database) == {0: allocation_id, 1: allocation_id}
    second = submit(slots=2)
    end(controller, node, allocation_id)
    assert slots_of(database) == {0: None}
    controller.tick()
    assert [t["state"] for t in show(f"/experiments/{second}/trials")["items"]] == ["QUEUED"]
    submit(slots=1)
    controller.tick()
    assert list(slots_of(database)) == [0]
    assert slots_of(database)[0] is not None


def test_a_ghost_slot_vanishes_when_its_trial_ends_before_the_registration(
    controller, agent, submit, database
):
    node = agent(slots=2)
    submit(slots=2)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    end(controller, node, allocation_id)
    assert slots_of(database) == {0: None, 1: None}
    node.slots = node.slots[:1]
    node.register()
    assert slots_of(database) == {0: None}


def test_a_slot_that_comes_back_in_time_is_no_ghost(controller, agent, submit, database):
    node = agent(slots=2)
    submit(slots=2)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    all_slots = node.slots
    for slots in (all_slots[:1], all_slots):
        node.slots = slots
        node.register(running=[node.running(allocation_id, "READY")])
    end(controller, node, allocation_id)
    assert slots_of(database) == {0: None, 1: None}
