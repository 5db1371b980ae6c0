"""docs/concepts/protocol.md: every rule names code and a test that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "concepts" / "protocol.md"
ROW = re.compile(
    r"^\| (?P<no>\d+) \| [^|]{20,} \| [^|]{20,} \| (?P<where>[^|]+) \| (?P<tests>[^|]+) \|$",
    re.MULTILINE,
)


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer(PAGE.read_text()))


def test_rules_are_numbered_and_none_is_malformed() -> None:
    numbers = [int(row["no"]) for row in rows()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == len(re.findall(r"^\| \d+ \|", PAGE.read_text(), re.MULTILINE)) >= 11


def test_the_code_of_every_rule_is_there() -> None:
    for row in rows():
        paths = re.findall(r"`([^`]+)`", row["where"])
        assert paths, row[0]
        assert [p for p in paths if not (ROOT / p).is_file()] == [], row[0]


def test_the_test_of_every_rule_is_there() -> None:
    for row in rows():
        tests = re.findall(r"`([^`]+)`", row["tests"])
        assert tests, row[0]
        for test in tests:
            path, _, name = test.partition("::")
            found = {
                node.name
                for node in ast.walk(ast.parse((ROOT / path).read_text()))
                if isinstance(node, ast.FunctionDef)
            }
            assert name in found, test
