"""`muster doctor --gpu` on a machine without one: every check made, over gloo, and said to be so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.cli.doctor.checks import CHECKS
from support.preloaded import COMMANDS, run


@pytest.mark.timeout(1300)
def test_every_check_is_made_on_processors(tmp_path: Path) -> None:
    done = run(
        [
            COMMANDS,
            "doctor",
            "--gpu",
            "--minutes",
            "20",
            "--out",
            str(tmp_path / "found"),
            "--json",
        ],
        environment={"MUSTER_AGENT_ISOLATION": "none", "OMP_NUM_THREADS": "1"},
        timeout_s=1280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "found" / "doctor.json").read_text())
    assert found["backend"] == "gloo"
    assert found["summary"].endswith("over gloo on processors, not on a GPU")
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert list(by_name) == [name for name, _ in CHECKS]
    assert all(f["outcome"] in ("passed", "not done") for f in by_name.values())
    assert by_name["hang"]["figures"]["blamed"] == [1]
    assert "all_gather" in by_name["scripts"]["figures"]["fsdp2"]
    page = (tmp_path / "found" / "doctor.md").read_text()
    assert all(finding["sentence"].split()[0] in page for finding in found["findings"])
