"""What is written twice is the same: maps of the code and its folders, rules in two languages."""

from __future__ import annotations

import re
import subprocess
import sys
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
