"""What a script's libraries log, captured without a changed line."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import muster
from muster.capture.libraries import LIBRARIES, MODULES
from muster.document.running import CAPTURE_ROUTES
from support.training.jobs import Job

PLAIN = Path(__file__).with_name("workers") / "plain"
SITE = Path(muster.__file__).parent / "launch" / "attach_site"


def run(
    folder: Path, script: str, *arguments: str, attach: str, **variables: str
) -> tuple[Job, str]:
    """Run a script as `launcher: plain` does; return its reports and what it printed."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    environ |= {
        "PYTHONPATH": f"{SITE}:{Path(muster.__file__).parents[1]}",
        "MUSTER_ATTACH": attach,
        "MUSTER_ATTACH_UNRANKED": "1",
        "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, str(PLAIN / script), *arguments],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Job(folder, []), done.stderr


def test_scalars_of_writers_keep_their_names_steps_and_values(tmp_path: Path) -> None:
    job, errors = run(tmp_path, "writes_scalars.py", attach="steps tensorboard")
    assert "muster" not in errors
    loss = job.series("loss")
    assert {step: loss[step] for step in (0, 5, 10)} == {
        0: float(_f32(1 / 3)), 5: float(_f32(1 / 8)), 10: float(_f32(1 / 13)),
    }  # fmt: skip
    assert math.isnan(float(loss[15]))
    # A second writer with the same tag is told by its folder.
    assert job.series("held out/loss") == {0: 2 / 3, 5: 0.25, 10: 2 / 13}
    assert job.series("error/top1") == {0: 0.5, 5: 0.5, 10: 0.5}
    assert job.series("error/top5") == {0: 0.25, 5: 0.25, 10: 0.25}
    # Names under which Muster measures stay its own.
    assert job.series("tensorboard/time/epoch") == {15: 2.5}
    (message,) = job.lines("message")
    assert "logs with TensorBoard are captured" in message["text"]
    assert {line["attached"] for line in job.lines("hello")} == {True}


def _f32(value: float) -> Any:
    import numpy as np

    return np.float32(value)


def test_folds_whose_writers_share_a_folder_are_runs_of_their_own(tmp_path: Path) -> None:
    job, _ = run(tmp_path, "folds_write.py", attach="tensorboard")
    assert job.series("loss") == {0: 0.0, 1: 0.1}
    assert job.series("run-2/loss") == {0: 1.0, 1: 1.1}
    assert job.series("run-3/loss") == {0: 2.0, 1: 2.1, 2: 7.0}
    assert [line["label"] for line in job.lines("child_run")] == ["run-2", "run-3"]
    assert [job.series(f"{run}accuracy") for run in ("", "run-2/", "run-3/")] == [
        {0: 0.0}, {0: 0.1}, {0: 0.2}
    ]  # fmt: skip


def test_a_name_that_the_script_logs_itself_is_its_own(tmp_path: Path) -> None:
    job, _ = run(tmp_path, "writes_scalars.py", "own", attach="tensorboard")
    assert job.series("mine") == {0: 1.0, 5: 1.0, 10: 1.0, 20: 7.0}


def test_nothing_is_captured_where_the_document_says_so(tmp_path: Path) -> None:
    run(tmp_path, "writes_scalars.py", attach="steps lightning")
    assert not (tmp_path / "reports.jsonl").exists()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_what_the_processes_of_a_ranked_worker_log_is_captured(tmp_path: Path, method: str) -> None:
    place = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    errors = {"MUSTER_WORKER_LOGS": str(tmp_path)}
    job, _ = run(tmp_path, "children_log.py", method, attach="steps tensorboard", **place, **errors)
    assert {line["rank"] for line in job.lines("hello")} == {1}
    assert len({line["pid"] for line in job.lines("hello")}) == 3
    assert sum(len(each["steps"]) for line in job.lines("metrics") for each in line["series"]) == 9
    assert not (tmp_path / "exception.json").exists(), "a process of the worker is not the worker"


def test_scores_of_a_search(tmp_path: Path) -> None:
    job, _ = run(tmp_path, "searches.py", attach=" ".join(CAPTURE_ROUTES))
    told = [float(line) for line in (tmp_path / "scores.txt").read_text().split()]
    assert list(job.series("mean_test_score").values()) == told
    assert len(told) == 3


def test_a_library_that_is_built_in_another_way_is_said_once(tmp_path: Path) -> None:
    package = tmp_path / "tensorboardX"
    package.mkdir()
    (package / "__init__.py").write_text("from tensorboardX.writer import SummaryWriter\n")
    (package / "writer.py").write_text("class SummaryWriter:\n    pass\n")
    (tmp_path / "script.py").write_text("import tensorboardX\nprint('trained')\n")
    job, errors = run(tmp_path, str(tmp_path / "script.py"), attach="tensorboard")
    assert errors.count("are not captured: AttributeError") == 1
    assert not (job.folder / "reports.jsonl").exists()


def test_every_route_of_the_document_has_an_adapter() -> None:
    of_a_server = {"mlflow"}  # Its client talks to the node.
    assert set(CAPTURE_ROUTES) - of_a_server == set(LIBRARIES) == set(MODULES.values())
