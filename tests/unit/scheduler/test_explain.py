"""Why trials wait: every reason has a code, says it in both languages, and ends with what would help."""

import ast
import re
from pathlib import Path

import pytest

from muster_server.domain.budgets import waiting_reason
from muster_server.domain.impossible import NEVER, is_impossible
from muster_server.domain.saying import Said, parts_of, say
from muster_server.domain.scheduler import ProjectView, Wait
from muster_server.testing.scheduling import make_node, make_queued, make_running, run

ROOT = Path(__file__).parents[3]
CPU = ("default", "cpu")
TWO_NODES = [make_node("a", 2), make_node("b", 2)]
RACKS = [make_node("a", 2, labels={"rack": "1"}), make_node("b", 2, labels={"rack": "2"})]


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
        "it has 4. Ask for at most 4 slots, or add nodes.",
    ),
    "no such slots": (
        TWO_NODES, [make_queued(1, 1, slot_type="cuda")], {},
        "pending.no_such_slots", "help.other_slots", True,
        "Choose a resources.slot_type and pool that has slots, or add a node.",
    ),
    "labels": (
        TWO_NODES, [make_queued(1, 1, labels={"net": "eth"})], {},
        "pending.none_allowed", "help.loosen", True,
        "or add a node that fits them.",
    ),
    "3 on 2 + 2": (
        TWO_NODES, [make_queued(1, 3)], {},
        "pending.indivisible", "help.uneven_now", True,
        "its 2 nodes cannot be divided that way. resources.uneven: true would start it at once.",
    ),
    "3 on 2 + 2, one held": (
        TWO_NODES, [make_queued(1, 3)],
        {"running": [make_running(9, {"a": 2})]},
        "pending.indivisible", "help.uneven", True,
        "resources.uneven: true makes it possible.",
    ),
    "exact nodes": (
        [make_node("a", 4)], [make_queued(1, 4, nodes=2)], {},
        "pending.indivisible", "help.any_nodes", True,
        "Without resources.nodes and max_nodes it is possible.",
    ),
    "within a rack": (
        RACKS, [make_queued(1, 4, topology_key="rack", topology_mode="require")], {},
        "pending.no_domain", "help.prefer", True,
        "With topology.mode: prefer it may spread over several racks.",
    ),
    "busy": (
        TWO_NODES,
        [make_queued(1, 2), make_queued(2, 4, nodes=2)],
        {"running": [make_running(9, {"a": 2}), make_running(8, {"b": 2})]},
        "pending.none_free", "help.wait", False,
        "a higher priority or fewer slots start it sooner.",
    ),
    "scattered": (
        [make_node("a", 3), make_node("b", 3)], [make_queued(1, 3)],
        {"running": [make_running(9, {"a": 1}), make_running(8, {"b": 2})]},
        None, None, False, ".",
    ),
    "closed": (
        [make_node("a", 2, scheduling="cordoned")], [make_queued(1, 1)], {},
        "pending.on_shut_node", "help.open_nodes", False,
        "It starts when closed nodes are back or open again (muster node open).",
    ),
    "avoided": (
        TWO_NODES, [make_queued(1, 4, nodes=2, avoid_nodes=("b",), avoid_reason="no way")], {},
        "pending.avoids", "help.avoided", False,
        "another node that fits would start it sooner.",
    ),
    "quota": (
        [*TWO_NODES, make_node("c", 1)], [make_queued(1, 2, project_id=1)],
        {"projects": quota(2), "running": [make_running(9, {"c": 1}, project_id=1)]},
        "pending.quota_held", "help.quota", False,
        "It starts when trials of the project end, or when its quota is raised.",
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
        codes = [part["code"] for part in parts_of(wait.reason)]
        assert wait.reason[0].isupper()
        assert codes[-1].startswith("help."), wait.reason
        assert is_impossible(parts_of(wait.reason)) is is_never
    last = found[0]
    codes = [part["code"] for part in parts_of(last.reason)]
    assert last.reason.endswith(ending), last.reason
    assert cause is None or cause in codes
    assert help_ is None or codes[-1] == help_


def test_the_budget_of_a_project_is_a_reason_with_help_too():
    reason = waiting_reason(say("budget.used_up", "the budget of project p is used up"))
    assert reason == "The budget of project p is used up. It starts when that is raised."
    assert [part["code"] for part in parts_of(reason)] == ["budget.used_up", "help.budget"]


def test_what_is_without_parts_is_not_impossible():
    assert not is_impossible(parts_of("whatever"))
    assert not is_impossible(parts_of(Said()))


def test_every_pending_code_is_followed_by_help_in_both_languages():
    """Each function that says why something waits says what helps."""
    chinese = (ROOT / "frontend/src/i18n/zh-CN/reasons.ts").read_text()
    said = set()
    for path in (ROOT / "server" / "muster_server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
                code = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
                said.add(code)
    ours = {code for code in said if code.startswith(("pending.", "help."))}
    assert len(ours) > 30
    for code in ours:
        assert re.search(
            rf'^  "{re.escape(code)}": "[^"]*[\u4e00-\u9fff]', chinese, re.MULTILINE
        ), code
    assert ours >= NEVER
