"""Slots that an agent does not have any more: they go when they are free, and nobody gets them again."""

from sqlalchemy import select

from muster.wire import SlotInfo
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


def devices(*uuids):
    return [
        SlotInfo(index=i, slot_type="cuda", name="GPU", uuid=uuid) for i, uuid in enumerate(uuids)
    ]


def holders(database):
    with database.read() as session:
        return {
            (row.device["uuid"], row.idx): row.allocation_id
            for row in session.scalars(select(NodeSlotRow))
        }


def test_a_device_stays_with_its_job_when_its_index_moves(controller, agent, submit, database):
    node = agent(slots=1, slot_type="cuda")
    node.slots = devices("GPU-a")
    node.register()
    submit(slots=1, slot_type="cuda")
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.slots = devices("GPU-new", "GPU-a")  # as on a machine that was given another one
    node.register()
    assert holders(database) == {("GPU-new", 0): None, ("GPU-a", 1): allocation_id}
    # It was not started before, so that it gets its device by the new index.
    assert node.only().spec.slots == [1]
    submit(slots=1, slot_type="cuda")
    controller.tick()
    assert holders(database)["GPU-a", 1] == allocation_id
    assert holders(database)["GPU-new", 0] not in (None, allocation_id)


def test_a_device_that_fell_off_is_given_to_nobody_under_the_name_of_another(
    controller, agent, submit, database
):
    node = agent(slots=3, slot_type="cuda")
    node.slots = devices("GPU-a", "GPU-b", "GPU-c")
    node.register()
    submit(slots=2, slot_type="cuda")
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    node.slots = devices("GPU-b", "GPU-c")
    node.register(running=[node.running(allocation_id, "READY")])
    assert holders(database) == {
        ("GPU-a", 2): allocation_id,  # gone, out of the way of the others
        ("GPU-b", 0): allocation_id,
        ("GPU-c", 1): None,
    }
    end(controller, node, allocation_id)
    assert holders(database) == {("GPU-b", 0): None, ("GPU-c", 1): None}


def test_a_device_in_the_place_of_another_is_another_slot(controller, agent, submit, database):
    node = agent(slots=1, slot_type="cuda")
    node.slots = devices("GPU-a")
    node.register()
    submit(slots=1, slot_type="cuda")
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    node.slots = devices("GPU-b")
    node.register(running=[node.running(allocation_id, "READY")])
    assert holders(database) == {("GPU-a", 1): allocation_id, ("GPU-b", 0): None}
