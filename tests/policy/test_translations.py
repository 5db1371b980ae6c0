"""What the server says by code has a Chinese text: frontend/src/i18n/zh-CN/server.ts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from muster_server.domain.states import NodeState, Termination
from muster_server.services.cluster_counts import SCHEDULING

ROOT = Path(__file__).parents[2]
MADE_UP = {
    "checkpoints.pinned",
    "checkpoints.unpinned",
    "trial.kill_requested",
    "trial.stop_requested",
}
"""Types of events that the code puts together from what was done."""
NOT_IN_A_BROWSER = ("agent.", "cli.", "client.", "local.")
"""These are said to agents and to who types commands."""
SHARED = {
    "where": {"slot_type", "pool"},
    "took": {"ms", "step_ms", "pct"},
    "figures": {"limit", "spent", "unit"},
}
"""Parameters that several parts take from one place."""


CHINESE = ROOT / "frontend" / "src" / "i18n" / "zh-CN"


def texts_of(name: str, file: str = "server.ts") -> dict[str, str]:
    """Code → text of one table."""
    text = (CHINESE / file).read_text()
    found = re.search(rf"export const {name}\b[^{{]*\{{\n(.*?)\n\}};", text, re.DOTALL)
    assert found is not None
    rows = re.findall(r'^  (?:"([a-z_.-]+)"|([a-z_]+)): "(.*)",$', found[1], re.MULTILINE)
    return {quoted or bare: said for quoted, bare, said in rows}


def table(name: str) -> set[str]:
    return set(texts_of(name))


def texts(node: ast.expr) -> Iterator[str]:
    """Of a literal, and of both sides of a choice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def parts() -> dict[str, set[str]]:
    """Code → parameters of everything that the code says in parts."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "server" / "muster_server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
                code = next(texts(node.args[0]), "")
                if not re.fullmatch(r"[a-z]+\.[a-z_]+", code):
                    continue  # another function of this name
                names = {str(k.arg) for k in node.keywords if k.arg is not None}
                for k in node.keywords:
                    if k.arg is None:  # **where
                        names |= SHARED[ast.unparse(k.value)]
                assert found.setdefault(code, names) == names, f"{code}: parameters differ"
    return found


def event_types() -> set[str]:
    """Where the code shows what it gives to add_event or EventRow."""
    found: set[str] = set()
    for path in (ROOT / "server" / "muster_server").rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "add_event",
                "EventRow",
            ):
                found.update(*map(texts, node.args[1:2]))
                found.update(*(texts(k.value) for k in node.keywords if k.arg == "type"))
    return {text for text in found if re.fullmatch(r"[a-z_]+\.[a-z_]+", text)}


def test_every_error_that_a_page_may_show() -> None:
    reference = (ROOT / "docs" / "reference" / "errors.md").read_text()
    codes = set(re.findall(r"^\| `([a-z_.]+)` \|", reference, re.MULTILINE))
    wanted = {code for code in codes if not code.startswith(NOT_IN_A_BROWSER)}
    assert len(wanted) > 100
    assert table("errors") - {"http"} == wanted


def test_every_reason_for_an_end() -> None:
    assert table("terminations") == {str(reason) for reason in Termination}


def test_every_type_of_event() -> None:
    types = event_types()
    assert len(types) > 30
    assert sorted(types - table("events")) == []
    constants = "".join(p.read_text() for p in (ROOT / "server/muster_server").rglob("*.py"))
    gone = {text for text in table("events") - MADE_UP if f'"{text}"' not in constants}
    assert gone == set(), "translated, and said nowhere"


def test_every_part_of_a_sentence_with_its_parameters() -> None:
    said, chinese = parts(), texts_of("parts", "reasons.ts")
    assert len(said) > 60
    assert chinese.keys() - {"field.unusable"} == said.keys()
    for code, text in chinese.items():
        used = set(re.findall(r"\{\{(\w+)\}\}", text))
        assert used == said.get(code, set()), f"{code}: {text}"


def test_every_state_that_closes_a_node() -> None:
    states = {str(s).lower() for s in NodeState if s is not NodeState.ONLINE}
    closed = {s for s in SCHEDULING if s != "open"} | {"quarantined", "unhealthy"}
    assert set(texts_of("words", "reasons.ts")) == states | closed | {"slot-hours"}
