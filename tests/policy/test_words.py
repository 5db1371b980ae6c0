"""Docstrings are sentences: none begins in the middle of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agent/muster_agent", "server/muster_server", "trainer/muster", "parts")
FRAGMENT = re.compile(
    r"(?:Of|By|From|As|With|Without|Whether|How|What|Why|Who|Whose|Which|When|Where|That|Those|"
    r"Both|Likewise|Also|The same|Needs|Has|Is|Are|Was|Does)\b(?!`)|[a-z_]+: |`?None`?[:;,.]"
)
"""Beginnings that leave out what the docstring is about. Question words are allowed to attributes,
properties and classes; a docstring that begins with a parameter's name lacks a summary."""
ASKING = re.compile(r"(?:Whether|How|What|Why|Who|Which|When|Where)\b")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, bool, str]]:
    """Yield line, whether it belongs to a function that is called, and text of every docstring."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for position, statement in enumerate(body):
            if not isinstance(statement, ast.Expr):
                continue
            if not isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement.value.value, str):
                is_first = position == 0 and isinstance(
                    node, ast.FunctionDef | ast.AsyncFunctionDef
                )
                yield statement.lineno, is_first and not is_property(node), statement.value.value


def is_property(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any("property" in ast.unparse(decorator) for decorator in decorators)


def is_fragment(text: str, *, of_function: bool) -> bool:
    text = text.strip()
    if not of_function and ASKING.match(text):
        return False
    return bool(FRAGMENT.match(text))


def fragments() -> list[str]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, of_function, text in docstrings(ast.parse(path.read_text())):
                if is_fragment(text, of_function=of_function):
                    found.append(f"{path.relative_to(ROOT)}:{line}: {text.strip()[:60]}")
    return found


def test_docstrings_do_not_begin_as_fragments() -> None:
    wrong = fragments()
    assert not wrong, "\n".join(wrong)


def test_a_fragment_is_recognized() -> None:
    assert is_fragment("Of its metrics, by retention.", of_function=True)
    assert is_fragment("None: nobody may.", of_function=False)
    assert is_fragment("Whether it is there.", of_function=True)
    assert not is_fragment("Whether it is there.", of_function=False)
    assert not is_fragment("Return whether it is there.", of_function=True)
