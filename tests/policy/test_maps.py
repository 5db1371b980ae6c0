"""What is written twice is the same: maps of the code and its folders, rules in two languages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.code.bundle import ALWAYS_LEFT_OUT, EDITOR_LOCKS

ROOT = Path(__file__).resolve().parents[2]
MAPS = {
    "server/README.md": "server/muster_server",
    "server/muster_server/services/README.md": "server/muster_server/services",
    "agent/README.md": "agent/muster_agent",
    "trainer/README.md": "trainer/muster",
    "parts/models/README.md": "parts/models/muster_models",
    "frontend/README.md": "frontend/src",
}


def rows_of(page: str) -> list[str]:
    return [line for line in (ROOT / page).read_text().splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("page", MAPS)
def test_every_folder_is_on_its_map(page: str) -> None:
    folders = {
        folder.name
        for folder in (ROOT / MAPS[page]).iterdir()
        if folder.is_dir()
        and folder.name not in {"__pycache__", "static"}
        and any(folder.iterdir())
    }
    named = re.findall(r"[\w/.]+", " ".join(row.split("|")[1] for row in rows_of(page)))
    missing = folders - {name.rstrip("/").split("/")[-1] for name in named}
    assert not missing, f"{page} does not say what {', '.join(sorted(missing))} is"


@pytest.mark.parametrize("page", MAPS)
def test_every_module_of_a_map_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`([\w/]+/[\w./]+\.(?:py|tsx?)|\w+\.py)`", text))
    assert named or page == "server/muster_server/services/README.md"
    places = [ROOT / MAPS[page], (ROOT / page).parent]
    gone = {name for name in named if not any((place / name).exists() for place in places)}
    assert not gone, f"{page} names {', '.join(sorted(gone))}"


def test_the_browser_leaves_out_of_code_what_the_command_line_does() -> None:
    source = (ROOT / "frontend/src/features/submit/code/ignore.ts").read_text()
    listed = re.search(r"const ALWAYS = \[(.*?)\];", source, re.DOTALL)
    assert listed is not None
    assert re.findall(r'"(.*?)"', listed[1]) == [*ALWAYS_LEFT_OUT, *EDITOR_LOCKS]


def test_every_benchmark_is_listed_with_its_question() -> None:
    bench = ROOT / "bench"
    scripts = {
        str(script.relative_to(bench).with_suffix("")): script.read_text()
        for script in bench.rglob("[a-z]*.py")
    }
    listed = subprocess.run(
        [sys.executable, "-m", "bench", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    questions = {line.split()[0]: line for line in listed}
    assert all(line.endswith("?") or "? " in line for line in listed)
    assert questions.keys() <= scripts.keys()
    # Others are parts of those, which name them.
    for name in scripts.keys() - questions.keys():
        assert any(name in text for other, text in scripts.items() if other != name), name


def audited() -> Iterator[str]:
    """The actions of the audit log that the code spells out, and the beginnings of those it puts together."""
    parts = (ROOT / "server/muster_server", ROOT / "parts")
    trees = [ast.parse(file.read_text()) for part in parts for file in part.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    takes: dict[str, set[int]] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            if "action" in {*names, *(argument.arg for argument in node.args.kwonlyargs)}:
                takes.setdefault(node.name, set()).update(
                    place for place, name in enumerate(names) if name == "action"
                )
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        given = [keyword.value for keyword in node.keywords if keyword.arg == "action"]
        given += [node.args[at] for at in takes.get(called, ()) if at < len(node.args)]
        for value in (value for action in given for value in ast.walk(action)):
            if isinstance(value, ast.Constant) and re.fullmatch(
                r"[a-z_]+\.[a-z_]*", str(value.value)
            ):
                yield str(value.value)


def test_every_action_of_the_audit_log_has_a_text() -> None:
    text = (ROOT / "frontend/src/i18n/en/administration.ts").read_text()
    listed = text[text.index("    action: {") : text.index("  installation: {")]
    known = {
        f"{group}.{name}"
        for group, body in re.findall(r"^      (\w+): \{(.*?)\},$", listed, re.S | re.M)
        for name in re.findall(r"(\w+):\s*\"", body)
    }
    actions = set(audited())
    assert len(actions) > 90
    missing = {action for action in actions if not any(one.startswith(action) for one in known)}
    assert not missing, f"the audit log shows these as identifiers: {', '.join(sorted(missing))}"
