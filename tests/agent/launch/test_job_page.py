"""docs/reference/job.md against the environment of real jobs: neither lists what the other lacks."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from muster import wire

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "job.md"
TELL = """
import json, os
if os.environ.get("RANK", "0") == "0":
    open("seen", "w").write(json.dumps(dict(os.environ)))
"""
ELSEWHERE = {"LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_", "__CF_USER_TEXT_ENCODING"}
"""Variables that a shell, Python or the system sets."""


def rows(title: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    section = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def expected(launcher: str, num_nodes: int) -> set[str]:
    """The variables that the page promises a job with a data set and a model named `train`."""
    holds = {
        "always": True,
        # One process has all of this node.
        "always; one process: `launcher: plain`, and `shell` on one slot": launcher != "plain"
        and (launcher, num_nodes) != ("shell", 1),
        "CPU slots": True,
        "GPU slots": False,
        "always, unless `measure.capture` is empty and the launcher `torchrun` or `direct`": True,
        "`measure.capture` is not empty and the launcher `torchrun` or `direct`": launcher
        in ("torchrun", "direct"),
        "the job sets none itself": True,
        "with Muster's `MLFLOW_TRACKING_URI`": True,
        "several nodes": num_nodes > 1,
        "not `plain`": launcher != "plain",
        "the document names one": True,
        "the document has `session`": False,
        "the document has `roles`": False,
        "the folder is in a git repository": False,
        "the project uses setuptools_scm or hatch-vcs": False,
        "it is in one": sys.prefix != sys.base_prefix,
        "`launcher: plain` or `shell`": launcher in ("plain", "shell"),
    }
    found = {name.strip("`") for name, _, when in rows("Variables of every job") if holds[when]}
    for name, what, launchers in rows("Variables of a launcher"):
        if launcher in re.findall(r"`(\w+)`", launchers) and (
            num_nodes > 1 or "on several nodes" not in what
        ):
            found.add(name.strip("`"))
    return {name.replace("<NAME>", "TRAIN") for name in found}


@pytest.mark.parametrize(
    ("launcher", "num_nodes"),
    [
        pytest.param("torchrun", 1, marks=pytest.mark.torch),
        ("direct", 1),
        ("direct", 2),
        ("plain", 1),
        ("shell", 1),
        ("shell", 2),
    ],
)
def test_a_job_finds_what_the_page_lists(
    shims: Any, tmp_path: Path, launcher: str, num_nodes: int
) -> None:
    shim = shims(
        TELL,
        launcher=launcher,
        num_nodes=num_nodes,
        slots=[0],
        world_size=num_nodes,
        config={"name": "x", "data": {"train": str(tmp_path)}},
        models={"train": wire.ModelSpec(model="digits", version=1, digest="sha256:0")},
        environment={"PYTHONPATH": ""},
    )
    shim.start(shim.wait_state("READY").rendezvous)
    assert shim.wait_exit(timeout_s=150).cause == "success"
    seen = json.loads((shims.code / "seen").read_text())
    of_the_agent = os.environ.keys() - {"PATH", "VIRTUAL_ENV"}
    promised = expected(launcher, num_nodes)
    found = {name for name, value in seen.items() if value or name != "PYTHONPATH"}
    assert found - of_the_agent - ELSEWHERE == promised - of_the_agent
    assert promised <= found

    folders = [name for row in rows("Folders") for name in re.findall(r"`([A-Z_]+)`", row[0])]
    assert set(folders) <= promised
    for name in (*folders, "MUSTER_WORK_DIR", "MUSTER_OUTPUT_DIR"):
        assert Path(seen[name]).is_dir(), name
    config = json.loads(Path(seen["MUSTER_CONFIG_FILE"]).read_text())
    assert list(config) == [row[0].strip("`") for row in rows("Files")]
