"""`muster doctor --gpu` on a machine without one: it trains over gloo, and says so."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from muster.cli.doctor.checks import CHECKS
from support.preloaded import COMMANDS, run, start
from support.processes import wait_until

LEFT_OUT = {"strategies", "cost"}
"""They train for as long as all others together: the first what the tests of strategies train, and the second
judges nothing."""
MADE = [name for name, _ in CHECKS if name not in LEFT_OUT]
NOT_DONE = {
    "others": "there is no GPU that somebody else could use",
    "walls": "there is no GPU to keep from a job",
    "memory": "there is no GPU whose memory could stay taken",
}


@pytest.mark.torch
def test_checks_are_made_on_processors_or_say_why_not(tmp_path: Path) -> None:
    chosen = [word for name in MADE for word in ("--check", name)]
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
        "6 passed, 0 failed, 3 not done; over gloo on processors, not on a GPU"
    )
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert list(by_name) == MADE
    assert {
        name: finding["sentence"]
        for name, finding in by_name.items()
        if finding["outcome"] == "not done"
    } == NOT_DONE
    assert by_name["hang"]["figures"]["blamed"] == [1]
    assert "all_gather" in by_name["scripts"]["figures"]["fsdp2"]
    assert "graphs need a GPU" in by_name["compiled"]["sentence"]
    assert by_name["restart"]["figures"]["after_s"] > 0
    page = (tmp_path / "found" / "doctor.md").read_text()
    assert all(finding["sentence"].split()[0] in page for finding in found["findings"])


@pytest.mark.torch
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda it: it.name)
def test_whoever_ends_the_examination_ends_its_nodes_too(
    tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    doctor = start(
        [COMMANDS, "doctor", "--gpu", "--check", "hang"],
        environment={"MUSTER_AGENT_ISOLATION": "none", "TMPDIR": str(temporary)},
        output=tmp_path / "said",
    )

    def nodes() -> list[psutil.Process]:
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if any(str(temporary) in word for word in process.info["cmdline"] or ())
        ]

    wait_until("the start of its nodes", lambda: nodes() or None, 120)
    doctor.send_signal(number)
    assert doctor.wait(60) == 128 + number, (tmp_path / "said").read_text()
    assert nodes() == []
    assert list(temporary.glob("mdoc-*")) == []
