"""Tables that say what tests do have a row for each, in both languages; CONTRIBUTING names what is generated."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from muster.document.train_config import TrainConfig
from support.training.strategies import CASES, Case
from support.training.training_faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
CONCEPTS = ROOT / "docs" / "concepts"
GENERATED = [
    f"docs/reference/{maker.stem.replace('_', '-')}.md"
    for maker in sorted((ROOT / "scripts" / "reference").glob("*.py"))
]
ENGLISH = {"完全相同": "equal", "在容差内": "within it", "未试": "not tried", "来自": "from"}


def test_what_is_made_from_the_code_is_not_in_git_and_contributing_names_it() -> None:
    made = [*GENERATED, "frontend/src/api/schema.gen.ts", "trainer/muster/client/schema.py"]
    git = ["git", "-C", str(ROOT), "ls-files"]
    assert subprocess.run([*git, *made], capture_output=True, check=True).stdout == b""
    ignored = [*git, "--others", "--ignored", "--exclude-standard", *made]
    assert subprocess.run(
        ignored, capture_output=True, text=True, check=True
    ).stdout.split() == sorted(made)
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Generated files")[2]
    named = set(re.findall(r"^\| `([^`]+)`", table.partition("\n## ")[0], re.MULTILINE))
    assert set(made) <= named
    for name in named:
        assert list(ROOT.glob(name)), f"{name} does not exist"


def test_pages_for_a_code_host_link_to_none_that_is_made_at_build() -> None:
    """A page outside of docs/ is read where only files in git are; docs/README.md says how to make them."""
    generated = {ROOT / name for name in GENERATED}
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "*.md", ":!docs"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    links = [
        (name, link)
        for name in listed
        for link in re.findall(r"\]\(([^)#\s]+)", (ROOT / name).read_text())
        if ((ROOT / name).parent / link).resolve() in generated
    ]
    assert links == []
    assert "scripts/generate" in (ROOT / "docs" / "README.md").read_text()


def row(case: Case) -> str:
    strategy = re.sub(r"['\"]", "", str({"kind": "ddp", **case.strategy}))
    strategy = strategy.replace("True", "true").replace("False", "false")
    tolerance = f"{case.tolerance:g}" if case.tolerance else "equal"
    resumed = ("equal" if case.is_exact else "within it") if case.resumed else "not tried"
    if case.origin is not None:
        (origin,) = (other for other in CASES if other.name == case.origin)
        resumed = f"from `{origin.strategy['kind']}`"
    optimizer = case.trainer.get("optimizer", TrainConfig.optimizer)
    return f"| {case.world} | `{strategy}` | `{optimizer}` | {tolerance} | {resumed} |"


@pytest.mark.parametrize("page", ["strategies.md", "strategies.zh-CN.md"])
def test_the_page_of_strategies_lists_every_comparison(page: str) -> None:
    rows = re.findall(
        r"^\| \d+ \| `\{kind: [^|]* \| `\w+` \|.*$", (CONCEPTS / page).read_text(), re.MULTILINE
    )
    for chinese, english in ENGLISH.items():
        rows = [row.replace(chinese, english) for row in rows]
    assert rows == [row(case) for case in CASES if case.stopped_rank is None]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("checkpoints.md", {"agents": "agents", "workers": "workers"}),
        ("checkpoints.zh-CN.md", {"agents": "代理", "workers": "工作进程"}),
    ],
)
def test_the_page_of_checkpoints_lists_every_fault(page: str, words: dict[str, str]) -> None:
    for kind, word in words.items():
        rows = re.findall(
            rf"^\| (.+) \| .+ \| {word} \|$", (CONCEPTS / page).read_text(), re.MULTILINE
        )
        if page == "checkpoints.md":
            assert rows == list(FAULTS[kind].values())
        assert len(rows) == len(FAULTS[kind])
