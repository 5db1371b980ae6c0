"""A whole control plane in this process: the real application, a controller, and fake agents."""

from pathlib import Path

import pytest

from muster_server import clock
from muster_server.loops.runner import Controller
from support.agent import start

ON_BOTH = frozenset(
    {
        "test_agent_batches",
        "test_backup",
        "test_batching",
        "test_gangs",
        "test_lock_order",
        "test_races",
        "test_reuse",
        "test_search",
    }
)
"""Files about what databases do differently: they run on both kinds always."""


@pytest.fixture
def database_url(any_database_url):
    """A database of either kind; see `pytest_collection_modifyitems` of all tests."""
    return any_database_url


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.stem not in ON_BOTH:
            item.add_marker("either_database")


UNREACHED_S = 3600.0


@pytest.fixture
def settings(settings, request):
    """Fake agents beat when they are told to. Where a test does not move the clock itself, no time
    that it really takes makes a node SUSPECT, however busy the machine is."""
    timings = {"controller_lease_s": 300.0, "takeover_grace_s": 0.0}
    moves_clock = "time_machine" in request.fixturenames or hasattr(request.module, "time_machine")
    if not moves_clock:
        timings |= {
            "heartbeat_s": UNREACHED_S,
            "node_lost_s": 4 * UNREACHED_S,
        }
    return settings.model_copy(update=timings)


@pytest.fixture
def controller(database, settings):
    """Its clocks follow time_machine, both of them."""
    return Controller(database, settings, monotonic=lambda: clock.now().timestamp())


@pytest.fixture
def agent(connect, join_token):
    """`agent("node-1", slots=2)` registers one more fake agent."""
    from support.agent import FakeAgent

    def make(name="node-1", *, slots=2, **kwargs):
        fake = FakeAgent(
            lambda token: connect(token=token), join_token, name, slots=slots, **kwargs
        )
        fake.register()
        return fake

    return make


@pytest.fixture
def submit(member_client):
    """`submit(slots=2, …)` creates an experiment and returns its id."""

    def make(document="", **resources):
        lines = "".join(f"  {key}: {value}\n" for key, value in resources.items())
        text = "name: test\nentrypoint: train.py\ncode: {installed: /srv/code}\n" + document
        if lines:
            text += f"\nresources:\n{lines}"
        reply = member_client.post("/api/v1/experiments", json={"document": text})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    return make


@pytest.fixture
def show(viewer_client):
    """`show("/experiments/1")` is what the REST API says."""

    def get(path):
        reply = viewer_client.get(f"/api/v1{path}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    return get


@pytest.fixture
def ended_on_one(controller, agent, submit):
    """A trial that has run on one node and exited: (node, experiment id, allocation id)."""
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    node.exit(allocation_id, "success")
    controller.tick()
    return node, experiment_id, allocation_id


@pytest.fixture
def ended_on_two(controller, agent, submit):
    """A trial that has ended on two nodes: [(node, allocation id)], by rank."""
    nodes = [agent(f"node-{n}", slots=1) for n in (1, 2)]
    submit(slots=2, nodes=2)
    controller.tick()
    ids = [node.only().spec.allocation_id for node in nodes]
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.get_ready(allocation_id, port=29500)
    controller.tick()
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.run(allocation_id)
    controller.tick()
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.exit(allocation_id, "success")
    controller.tick()
    return sorted(
        zip(nodes, ids, strict=True), key=lambda pair: pair[0].specs[pair[1]].spec.node_rank
    )
