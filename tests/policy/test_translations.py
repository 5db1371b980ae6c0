"""What the server says by code has a Chinese text: frontend/src/i18n/zh-CN/server.ts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_server.domain.catalogue import ARRANGEMENTS, SENTENCES
from muster_server.domain.insight.bottleneck import CAUSES, PART_NAMES, WHOLE
from muster_server.domain.lifecycle.restarts import Failure, RestartPolicy, decide_restart
from muster_server.domain.messages import template_parameters
from muster_server.domain.states import NodeState, Termination
from muster_server.services.nodes.counts import SCHEDULING

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
COMPOSED = {
    "guard.fired": {"why"},
    "pending.after": {"experiments"},
    "pending.coming_free": {"givers"},
    "pending.files": {"nodes"},
    "placed.next": {"placement"},
    "placed.slots": {"nodes"},
    "preempt.shrink": {"request"},
    "preempt.stop": {"request"},
}
"""Parameters that are messages: they follow as parts of their own."""
SHARED = {
    "beside": {"next", "next_pct", "steps"},
    "took": {"cause", "pct", "whole", "whole_ms"},
    "was": {"rank", "late", "num", "ms"},
    "why": {"slots", "own_priority", "trial_no", "experiment", "priority", "request"},
}
"""Keyword arguments that several messages take from one mapping."""


CHINESE = ROOT / "frontend" / "src" / "i18n" / "zh-CN"


def texts_of(name: str, file: str = "server.ts") -> dict[str, str]:
    """Code → text of one table."""
    text = (CHINESE / file).read_text()
    found = re.search(rf"export const {name}\b[^{{]*\{{\n(.*?)\n\}};", text, re.DOTALL)
    assert found is not None
    rows = re.findall(r'^  (?:"([^"]+)"|([a-z_]+)):\s+"(.*)",$', found[1], re.MULTILINE)
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


def server_modules() -> Iterator[Path]:
    """Yield the modules of the server and of its optional parts."""
    for folder in (ROOT / "server/muster_server", ROOT / "parts"):
        yield from folder.rglob("*.py")


def messages() -> Iterator[tuple[str, set[str]]]:
    """(code, parameters) of every message that the code makes."""
    for path in server_modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Message":
                continue
            names: set[str] = set()
            for keyword in node.keywords:
                names |= {keyword.arg} if keyword.arg else SHARED[ast.unparse(keyword.value)]
            codes = list(texts(node.args[0]))
            assert codes, f"{path}:{node.lineno}: the code must be a literal"
            for code in codes:
                yield code, names


def event_types() -> set[str]:
    """Where the code shows what it gives to add_event or EventRow."""
    found: set[str] = set()
    for path in server_modules():
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
    # The types that jobs name are constants of the wire.
    wire = (ROOT / "trainer/muster/wire").rglob("*.py")
    constants = "".join(path.read_text() for path in (*server_modules(), *wire))
    gone = {text for text in table("events") - MADE_UP if f'"{text}"' not in constants}
    assert gone == set(), "translated, and said nowhere"


def test_every_message_of_the_code_is_in_the_catalogue_and_the_other_way_round() -> None:
    catalogue = {**SENTENCES, **ARRANGEMENTS}
    assert len(catalogue) == len(SENTENCES) + len(ARRANGEMENTS)
    used = set()
    for code, names in messages():
        assert code in catalogue, f"{code} is in no catalogue"
        assert names == set(template_parameters(catalogue[code])), code
        used.add(code)
    assert len(used) > 100
    assert catalogue.keys() == used, "in the catalogue, and used nowhere"


def test_every_message_is_in_chinese_with_its_parameters() -> None:
    chinese = texts_of("parts", "reasons.ts")
    assert chinese.keys() - {"field.unusable"} == SENTENCES.keys()
    for code, template in SENTENCES.items():
        used = set(re.findall(r"\{\{(\w+)\}\}", chinese[code]))
        named = set(template_parameters(template)) - COMPOSED.get(code, set())
        assert used == named, f"{code}: {chinese[code]}"


def test_reasons_are_sentences() -> None:
    """A field's problem follows its name; what is listed is no sentence of its own."""
    for code, template in SENTENCES.items():
        kind = code.partition(".")[0]
        if kind in ("bound", "budget", "help", "node", "plan", "scaling", "search"):
            assert re.match(r"[A-Z{`0-9]", template), f"{code}: {template}"
        if kind in ("bound", "help", "node", "plan", "scaling", "search"):
            assert template.endswith("."), f"{code}: {template}"
        assert " %" not in template, f"{code}: {template}"


def test_every_word_within_a_sentence() -> None:
    states = {str(s).lower() for s in NodeState if s is not NodeState.ONLINE}
    closed = {s for s in SCHEDULING if s != "open"} | {"quarantined", "unhealthy"}
    verdicts = {*CAUSES.values(), *PART_NAMES.values(), *WHOLE}
    words = set(texts_of("words", "reasons.ts"))
    assert words >= states | closed | verdicts | {"slot-hours"}
    # What else is there is a whole reason that names no particulars, as the server has it.
    lifecycle = ROOT / "server/muster_server/domain/lifecycle"
    said_by = (*lifecycle.glob("*.py"), ROOT / "agent/muster_agent/node/health.py")
    said_by = (*said_by, ROOT / "agent/muster_agent/jobs/exits.py")
    source = "\n".join(re.sub(r'"\n\s+f?"', "", file.read_text()) for file in said_by)
    reasons = words - states - closed - verdicts - {"slot-hours"}
    unknown = set()
    for one in reasons:
        whole = one.removesuffix(" the searcher")
        # Of one with particulars the code puts the pieces together.
        pieces = re.findall(r"[a-z]{4,}", PARTICULAR.sub("", one)) if "{{" in one else [whole]
        unknown |= {piece for piece in pieces if piece not in source}
    assert not unknown, f"the server gives no such reason: {', '.join(sorted(unknown))}"


PARTICULAR = re.compile(r"\{\{\w+\}\}")


def known_clauses() -> list[re.Pattern[str]]:
    """What the dashboard has a Chinese text for, as clausesOf in frontend/src/i18n/server.ts reads it."""
    return [
        re.compile(".+?".join(re.escape(one) for one in PARTICULAR.split(words)), re.DOTALL)
        for words in texts_of("words", "reasons.ts")
    ]


@pytest.mark.parametrize("termination", list(Termination))
@pytest.mark.parametrize("budget", [0, 1, 3])
@pytest.mark.parametrize("leaves_out", ["", "n1, n2"])
def test_what_becomes_of_a_failed_attempt_is_said_in_chinese(
    termination: Termination, budget: int, leaves_out: str
) -> None:
    clauses = known_clauses()
    for failures, no_progress in ((0, 0), (1, 0), (3, 0), (0, 9)):
        decided = decide_restart(
            Failure(
                termination=termination,
                failures_user=failures,
                failures_infra=failures,
                no_progress=no_progress,
                has_trained=True,
                has_progressed=False,
                budget_user=budget,
                budget_infra=budget,
                leaves_out=leaves_out,
            ),
            policy=RestartPolicy(),
        )
        for clause in decided.reason.split("; "):
            assert any(one.fullmatch(clause) for one in clauses), clause
