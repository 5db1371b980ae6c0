"""What real libraries record, value by value, in scripts that know nothing of Muster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import muster
from muster.document.running import CAPTURE_ROUTES
from support.training.jobs import Job

SCRIPTS = Path(__file__).with_name("scripts")
SITE = Path(muster.__file__).parent / "launch" / "attach_site"


OWN = ("use_accelerate", "use_lightning", "use_transformers")
"""Scripts that use a class of muster.integrations when they are asked to."""


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("use_*.py")), ids=lambda path: path.stem)
def test_the_library_and_muster_record_the_same(script: Path, tmp_path: Path) -> None:
    captured = run(script, tmp_path, routes=CAPTURE_ROUTES)
    assert len(captured) == 1, "each value by one route"


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("routes", [(), CAPTURE_ROUTES], ids=["alone", "beside capturing"])
def test_classes_of_muster_record_the_same_once(
    name: str, routes: Sequence[str], tmp_path: Path
) -> None:
    captured = run(SCRIPTS / f"{name}.py", tmp_path, "own", routes=routes)
    assert len(captured) == (1 if routes else 0)


def run(script: Path, folder: Path, *arguments: str, routes: Sequence[str]) -> list[str]:
    """Run a script and compare what was reported with what it expects. Return the messages about
    what is captured."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "WANDB_"))}
    environ |= {
        "PYTHONPATH": os.pathsep.join(
            [str(SITE), str(Path(muster.__file__).parents[1]), os.environ["MUSTER_LIBRARIES"]]
        ),
        "MUSTER_ATTACH": " ".join(["steps", *routes]),
        "MUSTER_ATTACH_UNRANKED": "1",
        "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
        "HOME": str(folder),
    }
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder, env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "muster:" not in done.stderr
    expected = json.loads((folder / "expected.json").read_text())
    job = Job(folder, [])
    assert sum(len(values) for values in expected.values()) >= 5
    reported = Counter(
        each["name"]
        for line in job.lines("metrics")
        for each in line["series"]
        for _ in each["values"]
    )
    for name, values in expected.items():
        assert {str(k): v for k, v in job.series(name).items()} == pytest.approx(values, rel=1e-6)
        assert reported[name] == len(values), "each value once"
    return [line["text"] for line in job.lines("message") if "are captured" in line["text"]]
