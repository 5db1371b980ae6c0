"""What real libraries record, value by value, in scripts that know nothing of Muster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import muster
from muster.document.running import CAPTURE_ROUTES
from support.jobs import Job

SCRIPTS = Path(__file__).with_name("scripts")
SITE = Path(muster.__file__).parent / "launch" / "attach_site"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("use_*.py")), ids=lambda path: path.stem)
def test_the_library_and_muster_record_the_same(script: Path, tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "WANDB_"))}
    environ |= {
        "PYTHONPATH": os.pathsep.join(
            [str(SITE), str(Path(muster.__file__).parents[1]), environ.get("PYTHONPATH", "")]
        ),
        "MUSTER_ATTACH": " ".join(["steps", *CAPTURE_ROUTES]),
        "MUSTER_ATTACH_UNRANKED": "1",
        "MUSTER_REPORT_FILE": str(tmp_path / "reports.jsonl"),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "muster:" not in done.stderr
    expected = json.loads((tmp_path / "expected.json").read_text())
    job = Job(tmp_path, [])
    assert sum(len(values) for values in expected.values()) >= 5
    for name, values in expected.items():
        assert {str(k): v for k, v in job.series(name).items()} == pytest.approx(values, rel=1e-6)
    captured = [line["text"] for line in job.lines("message") if "are captured" in line["text"]]
    assert len(captured) == 1, "each value by one route"
