"""Scripts that know nothing of Muster, measured from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import muster
from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import analyse
from support.ports import free_port
from support.training.jobs import PARTS, Job, Start

pytestmark = pytest.mark.torch

PLAIN = Path(__file__).with_name("workers") / "plain"
SITE = Path(muster.__file__).parent / "launch" / "attach_site"
DELAY_MS = 200.0
"""Well above the 50 ms below which steps share a row, also where a rank waits for a processor."""
BUSY_MS = 20.0
OWN_WORK_MS = 60.0
"""What a phase may take beside its naps, and beside waiting for a processor."""


def told_loss(job: Job) -> list[str]:
    return [re.findall(r"loss (\S+)", w.communicate()[0])[0] for w in job.workers]


@pytest.fixture
def ddp(start: Start) -> Job:
    delay = f"{DELAY_MS / 1000}"
    return start(
        "ddp", workers=2, script=PLAIN / "ddp.py", DELAY_S=delay, MUSTER_ATTACH="steps"
    ).wait()


def test_a_plain_script_is_measured_and_trains_as_without(ddp: Job, start: Start) -> None:
    rows = {rank: ddp.rows(rank) for rank in (0, 1)}
    for rank in (0, 1):
        # 10 steps in each of two epochs; what lies before the end of the first is no step.
        assert set(rows[rank]) == set(range(2, 21))
        for row in rows[rank].values():
            parts = [row[name] for name in PARTS if name in row]
            assert sum(parts) == pytest.approx(row["time/step_ms"], rel=1e-6)
    full = [row for row in rows[0].values() if "comm/count" in row]
    assert full
    assert {"comm/world/all_reduce/bytes", "memory/rss_bytes"} <= set(full[-1])
    assert full[-1]["comm/world/all_reduce/bytes"] >= 4 * (16 * 3 + 3)
    # Who is late, and with what, is found as for a script that measures itself.
    slow = [row for step, row in rows[1].items() if step != 11]
    assert all(row["time/data_wait_ms"] >= DELAY_MS for row in slow)
    ranks = {
        rank: {
            name: {step: row[name] for step, row in of_rank.items() if name in row}
            for name in {n for row in of_rank.values() for n in row}
        }
        for rank, of_rank in rows.items()
    }
    groups = {
        g["name"]: ProcessGroup(name=g["name"], ranks=tuple(g["ranks"])) for g in ddp.lines("group")
    }
    culprit = analyse(ranks, list(groups.values())).culprit
    assert culprit is not None
    assert (culprit.rank, culprit.part) == (1, "time/data_wait_ms")
    # A validation of ten delays lies between the steps 10 and 11, and is in none of them.
    assert rows[0][11]["time/step_ms"] < 10 * DELAY_MS
    # Its sampler deals the samples out, so all ranks together are known.
    assert {row["throughput/samples_per_s"] for row in rows[0].values()}
    assert all("throughput/samples_per_s" not in row for row in rows[1].values())

    alone = start("alone", workers=2, script=PLAIN / "ddp.py", DELAY_S="0").wait()
    assert told_loss(ddp) == told_loss(alone)
    assert not (alone.folder / "reports.jsonl").exists()


def test_what_the_workers_say_of_themselves(ddp: Job) -> None:
    hellos = ddp.lines("hello")
    assert {(h["rank"], h["attached"]) for h in hellos} == {(0, True), (1, True)}
    assert {h["backend"] for h in hellos} == {"", "gloo"}
    (message,) = ddp.lines("message")
    assert "measured from outside" in message["text"]


def test_fsdp_on_a_mesh_without_a_loader(start: Start) -> None:
    job = start("fsdp", workers=2, script=PLAIN / "fsdp.py", MUSTER_ATTACH="steps").wait()
    rows = job.rows(0)
    assert max(rows) == 8  # rows of fast steps are averaged
    full = [row for row in rows.values() if "comm/count" in row]
    assert full
    for row in full:
        counts = {n: v for n, v in row.items() if n.endswith("/count") and n != "comm/count"}
        assert sum(counts.values()) == row["comm/count"]
        assert any("reduce_scatter" in name for name in counts)
        assert any("all_gather" in name for name in counts)
    assert all(row["time/forward_ms"] > 0 for row in rows.values())
    assert all(row["time/data_wait_ms"] == 0 for row in rows.values())
    # Nobody says whether the ranks see the same samples.
    assert all("throughput/samples_per_s" not in row for row in rows.values())
    assert {h["backend"] for h in job.lines("hello")} == {"", "gloo"}


def test_of_two_optimizers_one_ends_the_steps(start: Start) -> None:
    job = start("two", script=PLAIN / "two_optimizers.py", MUSTER_ATTACH="steps").wait()
    # 10 steps of both; then the second alone: its first one goes by before it is the one that ends steps.
    assert max(job.rows(0)) == 19
    assert {row["throughput/samples_per_s"] > 0 for row in job.rows(0).values()} == {True}


def test_a_script_that_measures_itself_is_left_alone(start: Start) -> None:
    job = start("itself", script=PLAIN / "measures_itself.py", MUSTER_ATTACH="steps").wait()
    steps = set(job.rows(0))
    assert steps >= set(range(100, 105))
    assert steps - set(range(100, 105)) <= {2, 3}
    assert [h["attached"] for h in job.lines("hello")][-1] is False


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_that_a_script_starts_itself_are_measured(tmp_path: Path, method: str) -> None:
    port = str(free_port())
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "PYTEST_"))},
        "PYTHONPATH": str(SITE),
        "OMP_NUM_THREADS": "1",
        "MUSTER_ATTACH": "steps",
        "MUSTER_ATTACH_UNRANKED": "1",
        "MUSTER_REPORT_FILE": str(tmp_path / "reports.jsonl"),
    }
    script = [sys.executable, str(PLAIN / "spawns.py"), method, port]
    done = subprocess.run(script, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    job = Job(tmp_path, [])
    places = {(h["rank"], h["local_rank"], h["world_size"]) for h in job.lines("hello")}
    assert places == {(0, 0, 2), (1, 1, 2)}
    for rank in (0, 1):
        assert max(job.rows(rank)) == 10
        assert any("comm/world/all_reduce/bytes" in row for row in job.rows(rank).values())


def test_nothing_is_measured_where_the_document_says_so(start: Start) -> None:
    job = start(
        "off",
        script=PLAIN / "two_optimizers.py",
        document={"measure": {"steps": False}},
        MUSTER_ATTACH="steps",
    ).wait()
    assert not job.rows(0)


def test_a_new_interpreter_finds_us_and_its_own_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    script = (
        "import os, subprocess, sys\n"
        "print('muster.launch.attach' in sys.modules, 'torch' in sys.modules, flush=True)\n"
        "print(os.environ['PYTHONPATH'], flush=True)\n"
        "print('attach_site' in ' '.join(sys.path))\n"
        "print(len([f for f in sys.meta_path if type(f).__name__ == 'AfterImport']))\n"
    )
    path = f"{SITE}{os.pathsep}{tmp_path}"
    environ = {**os.environ, "PYTHONPATH": path, "MUSTER_ATTACH": "steps"}

    def run(**more: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environ | more,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert not done.stderr
        return done.stdout.splitlines()

    # A worker: what it starts itself is not to be measured.
    assert run(LOCAL_RANK="0") == ["theirs", "True False", str(tmp_path), "False", "1"]
    # What it starts logs for it.
    logs = run(LOCAL_RANK="0", MUSTER_ATTACH="steps tensorboard")
    assert logs == ["theirs", "True False", path, "False", "1"]
    # The launcher, whose workers need the path.
    assert run() == ["theirs", "False False", environ["PYTHONPATH"], "False", "0"]


def test_an_interpreter_without_muster_runs_the_script_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "muster.py").write_text("raise ImportError('another muster')\n")
    done = subprocess.run(
        [sys.executable, "-c", "print('trained')"],
        env={**os.environ, "PYTHONPATH": f"{SITE}{os.pathsep}{tmp_path}", "LOCAL_RANK": "0"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "muster: nothing is measured: ImportError: another muster" in done.stderr


def told(job: Job) -> list[list[str]]:
    """What the workers said, without torch's warnings."""
    said = [w.communicate()[0].splitlines() for w in job.workers]
    return [[line for line in lines if line.startswith("told ")] for lines in said]


@pytest.mark.parametrize(
    ("script", "workers"), [("every_call", 2), ("compiled", 1), ("every_module", 1)]
)
def test_what_torch_offers_does_what_it_does_without_us(
    start: Start, script: str, workers: int
) -> None:
    """Every call of torch.distributed; what torch.compile captures."""
    path = PLAIN / f"{script}.py"
    with_us = start("with", workers=workers, script=path, MUSTER_ATTACH="steps").wait()
    without = start("without", workers=workers, script=path).wait()
    for mine, theirs in zip(told(with_us), told(without), strict=True):
        for said, expected in zip(mine, theirs, strict=True):
            assert said == expected
    assert len(told(without)[0]) > 3


def test_every_phase_of_an_unchanged_script_takes_what_it_takes(start: Start) -> None:
    job = start("phases", script=PLAIN / "phases.py", MUSTER_ATTACH="steps").wait()
    (line,) = re.findall(r"truth (.*)", job.workers[0].communicate()[0])
    truth = {int(step): parts for step, parts in json.loads(line).items()}
    rows = job.rows(0)
    assert set(rows) == set(range(2, 10))
    for step, row in rows.items():
        true = truth[step] | {"other": truth[step]["idle"] + truth[step]["busy"]}
        most = OWN_WORK_MS + true["held"]
        for phase in ("forward", "backward", "no_grad", "checkpoint", "other"):
            said = row[f"time/{phase}_ms"] - true.get(phase, 0.0)
            assert -1 <= said <= most, (step, phase)
        assert sum(row[name] for name in PARTS if name in row) == pytest.approx(row["time/step_ms"])
        assert row["time/other_idle_ms"] >= true["idle"] - 1  # less what a sleep takes to begin
        assert row["time/other_ms"] - row["time/other_idle_ms"] >= 0.9 * BUSY_MS
    assert [s for s, row in rows.items() if row.get("time/validation_ms")] == [6]
    most = OWN_WORK_MS + truth[6]["held"]
    assert 0 <= rows[6]["time/validation_ms"] - truth[6]["validation"] <= most
    assert "time/validation_ms" not in rows[5]
    assert rows[7]["time/validation_ms"] == 0
