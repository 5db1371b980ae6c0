"""Why trials wait: every reason has a code, says it in both languages, and ends with what would help."""

import pytest

from muster_server.domain.catalogue import SENTENCES
from muster_server.domain.messages import Message, Rendered
from muster_server.domain.quota.budgets import waiting_reason
from muster_server.domain.scheduling import ProjectView, Wait
from muster_server.domain.scheduling.resources import PoolImages
from muster_server.domain.scheduling.unsatisfiable import NEVER, is_impossible
from support.scheduling import make_node, make_queued, make_running, run

CPU = ("default", "cpu")
TWO_NODES = [make_node("a", 2), make_node("b", 2)]
RACKS = [make_node("a", 2, labels={"rack": "1"}), make_node("b", 2, labels={"rack": "2"})]
USED_BY_ANN = "GPU 1 is used by ann (pid 4242, 31 GiB) outside Muster"


def waits(nodes, *queue, running=(), projects=()):
    decisions = run(nodes, list(queue), list(running), projects=list(projects))
    return [d for d in decisions if isinstance(d, Wait)]


def quota(slots):
    return [ProjectView(id=1, name="vision", quotas={CPU: slots})]


CASES = {
    # name: (nodes, queue, more, code of the cause, code of the help, can never start, ends with)
    "too few": (
        TWO_NODES, [make_queued(1, 6)], {},
        "pending.too_few", "help.fewer_slots", True,
        "only 4 in total. Ask for at most 4 slots, or add nodes.",
    ),
    "no such slots": (
        TWO_NODES, [make_queued(1, 1, slot_type="cuda")], {},
        "pending.no_such_slots", "help.other_slots", True,
        "Choose a `resources.slot_type` and pool that has slots, or add a node.",
    ),
    "labels": (
        TWO_NODES, [make_queued(1, 1, labels={"net": "eth"})], {},
        "pending.none_allowed", "help.loosen", True,
        "or add a node that meets them.",
    ),
    "isolation": (
        [make_node("a", 2), make_node("b", 2, isolation="user")],
        [make_queued(1, 1, isolation="sandbox")], {},
        "pending.no_isolation", "help.isolation", True,
        "on a node that meets the other conditions.",
    ),
    "no container engine": (
        TWO_NODES, [make_queued(1, 1, images=("a/b",))], {},
        "pending.no_container", "help.container", True,
        "or name no image (`environment.image`, of the job or of a role).",
    ),
    "containers of the pool": (
        [make_node("a", 2, container_runtime="podman", pool_images=PoolImages(is_required=True))],
        [make_queued(1, 1)], {},
        "pending.pool_containers", "help.pool_containers", True,
        "Set `environment.image`, of the job or of each role, or choose another pool than default.",
    ),
    "containers of the pool, and no engine": (
        [make_node("a", 2, pool_images=PoolImages(is_required=True))],
        [make_queued(1, 1, images=("a/b",))], {},
        "pending.no_container", "help.container", True,
        "or name no image (`environment.image`, of the job or of a role).",
    ),
    "images of the pool": (
        [make_node("a", 2, container_runtime="podman", pool_images=PoolImages(allowed=("ghcr.io",)))],
        [make_queued(1, 1, images=("a/b",))], {},
        "pending.pool_images", "help.pool_images", True,
        "or have an administrator allow it (`muster pool containers`).",
    ),
    "isolation of the pool": (
        [make_node("a", 2, pool_isolation="user"), make_node("b", 2, pool_isolation="user")],
        [make_queued(1, 1)], {},
        "pending.pool_isolation", "help.pool_isolation", True,
        "lower the level of pool default (`muster pool isolation`).",
    ),
    "3 on 2 + 2": (
        TWO_NODES, [make_queued(1, 3)], {},
        "pending.indivisible", "help.uneven_now", True,
        "the slots of 2 nodes cannot be divided that way. Set `resources.uneven: true` to start it now.",
    ),
    "3 on 2 + 2, one held": (
        TWO_NODES, [make_queued(1, 3)],
        {"running": [make_running(9, {"a": 2})]},
        "pending.indivisible", "help.uneven", True,
        "Set `resources.uneven: true` to make it fit.",
    ),
    "exact nodes": (
        [make_node("a", 4)], [make_queued(1, 4, nodes=2)], {},
        "pending.indivisible", "help.any_nodes", True,
        "Remove `resources.nodes` and `max_nodes` to make it fit.",
    ),
    "within a rack": (
        RACKS, [make_queued(1, 4, topology_key="rack", topology_mode="require")], {},
        "pending.no_domain", "help.prefer", True,
        "Set `topology.mode: prefer` to let it spread over several racks.",
    ),
    "busy": (
        TWO_NODES,
        [make_queued(1, 2), make_queued(2, 4, nodes=2)],
        {"running": [make_running(9, {"a": 2}), make_running(8, {"b": 2})]},
        "pending.none_free", "help.wait", False,
        "raise its priority or ask for fewer slots to start sooner.",
    ),
    "scattered": (
        [make_node("a", 3), make_node("b", 3)], [make_queued(1, 3)],
        {"running": [make_running(9, {"a": 1}), make_running(8, {"b": 2})]},
        None, None, False, ".",
    ),
    "closed": (
        [make_node("a", 2, scheduling="cordoned")], [make_queued(1, 1)], {},
        "pending.on_shut_node", "help.open_nodes", False,
        "Starts when unavailable nodes are back or open again (`muster node open`).",
    ),
    "used outside": (
        [make_node("n7", 2, slot_type="cuda", problems={0: "GPU 0 is lost", 1: USED_BY_ANN})],
        [make_queued(1, 1, slot_type="cuda")], {},
        "pending.on_slot", "help.slots", False,
        "none free, GPU 0 of n7 is lost, GPU 1 of n7 is used by ann (pid 4242, 31 GiB) outside Muster. "
        "Starts when these slots take work again (`muster node show` says why they do not).",
    ),
    "avoided": (
        TWO_NODES, [make_queued(1, 4, nodes=2, avoid_nodes=("b",), avoid_reason="no way")], {},
        "pending.avoids", "help.avoided", False,
        "add another node that fits to start sooner.",
    ),
    "quota": (
        [*TWO_NODES, make_node("c", 1)], [make_queued(1, 2, project_id=1)],
        {"projects": quota(2), "running": [make_running(9, {"c": 1}, project_id=1)]},
        "pending.quota_held", "help.quota", False,
        "Starts when trials of the project end or the quota is raised.",
    ),
    "more than the quota": (
        TWO_NODES, [make_queued(1, 4, project_id=1)], {"projects": quota(2)},
        "pending.quota", "help.within_quota", False,
        "Ask for at most 2 slots, or have the quota raised.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_reason_names_its_cause_and_ends_with_what_helps(case):
    nodes, queue, more, cause, help_, is_never, ending = case
    found = waits(nodes, *queue, **more)
    assert found
    for wait in found:
        codes = [part["code"] for part in wait.reason.parts]
        assert wait.reason.english[0].isupper()
        assert codes[-1].startswith("help."), wait.reason.english
        assert is_impossible(wait.reason.parts) is is_never
    last = found[0]
    codes = [part["code"] for part in last.reason.parts]
    assert last.reason.english.endswith(ending), last.reason.english
    assert cause is None or cause in codes
    assert help_ is None or codes[-1] == help_


def test_the_budget_of_a_project_is_a_reason_with_help_too():
    used_up = Message("budget.project_used_up", project="p", limit="1", spent="2", unit="USD")
    reason = waiting_reason(used_up)
    assert reason.english == (
        "Project p has used up its budget of 1 USD: 2 USD spent. Starts when that budget is raised."
    )
    codes = ["budget.project_used_up", "help.budget"]
    assert [part["code"] for part in reason.parts] == codes
    stored = Rendered(used_up.english, used_up.parts)
    assert waiting_reason(stored).parts == reason.parts


def test_what_is_without_parts_is_not_impossible():
    assert not is_impossible(Rendered("whatever").parts)
    assert not is_impossible(None)


def test_codes_that_mean_never_exist():
    assert SENTENCES.keys() >= NEVER
