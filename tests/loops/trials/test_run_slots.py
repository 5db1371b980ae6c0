"""A command line that names no kind of slot gets what the pool has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("kinds", "options", "kind"),
    [
        (["cuda"], [], "cuda"),
        (["cuda"], ["--slot-type", "cpu"], "cpu"),
        (["cuda"], ["--set", "resources.slot_type=cpu"], "cpu"),
        (["cpu"], [], "cpu"),
        (["cpu", "cuda"], [], "cpu"),
        ([], [], "cpu"),
    ],
)
def test_a_machine_of_gpus_gives_one(
    kinds: list[str],
    options: list[str],
    kind: str,
    agent: Any,
    muster: Any,
    show: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, slot_type in enumerate(kinds):
        agent(f"node-{number}", slots=2, slot_type=slot_type)
    (tmp_path / "x.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    done = muster("run", "-d", *options, "--", "python", "x.py")
    assert done.exit_code == 0, (done.output, done.exception)
    assert show("/experiments/1")["slot_type"] == kind
    assert ("Every slot of this pool is a GPU" in done.output) == (kind == "cuda")
