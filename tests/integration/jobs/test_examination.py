"""`muster doctor --gpu` on a machine without one: it trains over gloo, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.preloaded import COMMANDS, run

CHECKS = ["reference", "others", "scripts", "hang", "warm", "walls"]
"""The others train what the tests of strategies, of restarts and of compiled models train."""


@pytest.mark.torch
@pytest.mark.timeout(900)
def test_checks_are_made_on_processors(tmp_path: Path) -> None:
    chosen = [word for name in CHECKS for word in ("--check", name)]
    done = run(
        [
            COMMANDS, "doctor", "--gpu", *chosen, "--minutes", "14",
            "--out", str(tmp_path / "found"), "--json",
        ],
        environment={"MUSTER_AGENT_ISOLATION": "none", "OMP_NUM_THREADS": "1"},
        timeout_s=880,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "found" / "doctor.json").read_text())
    assert found["backend"] == "gloo"
    assert found["summary"] == (
        "4 passed, 0 failed, 2 not done; over gloo on processors, not on a GPU"
    )
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert list(by_name) == CHECKS
    assert by_name["hang"]["figures"]["blamed"] == [1]
    assert "all_gather" in by_name["scripts"]["figures"]["fsdp2"]
    page = (tmp_path / "found" / "doctor.md").read_text()
    assert all(finding["sentence"].split()[0] in page for finding in found["findings"])
