"""One name, one meaning: no class name is defined twice, and states go by their enum."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from muster_server.domain import states

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "agent/muster_agent",
    "server/muster_server",
    "trainer/muster",
    "parts/models/muster_models",
)
ANSWERS = ROOT / "trainer" / "muster" / "client" / "schema.py"
"""Made of the server's models, and named as they are."""


def test_no_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted({*(ROOT / package).rglob("*.py")} - {ANSWERS}):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert twice == {}


def test_states_are_compared_with_their_enum() -> None:
    """A state that is renamed or gone then fails where it is compared, and not silently."""
    enums = (
        states.ExperimentState,
        states.TrialState,
        states.AttemptState,
        states.AllocationState,
        states.NodeState,
    )
    names = {str(state) for enum in enums for state in enum}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for package in ("server/muster_server", "parts/models/muster_models")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.parent.name != "cli"  # it knows the words of the API alone
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        for part in (node.left, *node.comparators)
        for text in ast.walk(part)
        if isinstance(text, ast.Constant) and text.value in names
    ]
    # The reports of agents have literal types of their own, as the statuses of other systems have.
    others = ("record.observed", "status == 'SUCCEEDED'")
    assert [line for line in found if not any(other in line for other in others)] == []
