"""Determined's Core API over Muster, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUNNER = [sys.executable, "-m", "muster.det_compat"]


def run(
    folder: Path, *arguments: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "RANK", "WORLD"))}
    given = {"MUSTER_REPORT_FILE": str(folder / "reports.jsonl"), "TMPDIR": str(folder)}
    return subprocess.run(
        [*RUNNER, *arguments],
        cwd=folder,
        env=kept | given | (environ or {}),
        capture_output=True,
        text=True,
        timeout=100,
    )


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "reports.jsonl").read_text().splitlines()]


SCRIPT = """
import determined as det
from determined import core

info = det.get_cluster_info()
with core.init() as context:
    context.train.report_training_metrics(steps_completed=1, metrics={"loss": 2.0})
    context.train.report_validation_metrics(1, {"loss": 1.5, "epochs": 1, "records": 64})
    context.train.report_metrics("inference", 1, {"speed": 9})
    context.train.set_metadata({"a": 1})
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
        (path / "state").write_text("weights")
    with context.checkpoint.restore_path(uuid) as path:
        assert (path / "state").read_text() == "weights"
    assert context.checkpoint.get_metadata(uuid) == {"steps_completed": 1}
    context.checkpoint.download(uuid, "copy", selector=lambda name: name == "state")
    other = context.checkpoint.upload("copy", {"steps_completed": 2})
    assert other != uuid
    assert not context.preempt.should_preempt()
    assert context.distributed.allgather("x") == ["x"]
    print(info, context.train.get_metadata())
"""


def test_a_script_outside_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "None {'a': 1}\n"
    assert sorted(p.name for p in (tmp_path / "copy").iterdir()) == ["state"]
    told = json.dumps(reports(tmp_path))
    for name in ("train/loss", "val/loss", "inference/speed", "progress/samples"):
        assert name in told


def test_the_place_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import determined as det, json\n"
        "info = det.get_cluster_info()\n"
        "print(json.dumps([info.trial.hparams, info.trial.trial_id, info.latest_checkpoint,\n"
        "    info.slot_ids, info.container_addrs, info.container_rank, info.user_data]))\n"
    )
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"hparams": {"lr": 0.1}, "config": {}, "seed": 3}))
    environ = {
        "MUSTER_TRIAL_ID": "57",
        "MUSTER_EXPERIMENT_ID": "12",
        "MUSTER_CONFIG_FILE": str(config),
        "MUSTER_RESUME_FROM": "/c/step-00000010",
        "MUSTER_NODE_RANK": "1",
        "NPROC_PER_NODE": "2",
        "NNODES": "2",
        "MASTER_ADDR": "10.0.0.1",
        "DET_USER_DATA": '{"a": 1}',
    }
    done = run(tmp_path, "script.py", environ=environ)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"lr": 0.1}, 57, "/c/step-00000010", [0, 1], ["10.0.0.1", "node1"], 1, {"a": 1},
    ]  # fmt: skip


WORKERS = """
import subprocess, sys
import determined as det

if len(sys.argv) == 1:
    commands = [
        ["python3", "-m", "determined.launch.wrap_rank", str(rank), "--",
         sys.executable, __file__, str(rank)]
        for rank in range(3)
    ]
    processes = [subprocess.Popen(command) for command in commands]
    sys.exit(max(process.wait() for process in processes))

rank = int(sys.argv[1])
distributed = det.core.DistributedContext(
    rank=rank, size=3, local_rank=rank, local_size=3, cross_rank=0, cross_size=1, chief_ip="::1")
with det.core.init(distributed=distributed) as context:
    assert distributed.allgather({"rank": rank}) == [{"rank": r} for r in range(3)]
    assert distributed.broadcast(f"from {rank}") == "from 0"
    assert distributed.gather(rank) == ([0, 1, 2] if rank == 0 else None)
    assert distributed.broadcast_local(rank) == 0
    assert context.preempt.should_preempt() is False
    with context.checkpoint.store_path({"steps_completed": 5}, shard=True) as (path, uuid):
        (path / f"shard-{rank}").write_text(str(rank))
    with context.checkpoint.restore_path(uuid) as path:
        assert len(list(path.glob("shard-*"))) == 3
    try:
        with context.checkpoint.store_path({"steps_completed": 6}):
            pass
        is_allowed = True
    except RuntimeError:
        is_allowed = False
    assert is_allowed == (rank == 0)
    print("done")
"""


def test_workers_that_the_script_starts_itself(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WORKERS.replace('"python3"', "sys.executable"))
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[rank={rank}] done" for rank in range(3)]
    ranks = {r.get("rank") for r in reports(tmp_path) if "world_size" in json.dumps(r)}
    assert ranks >= {0, 1, 2}


FAILING = WORKERS.replace("write_text(str(rank))", "write_text(str(1 // (rank - 1)))")


def test_no_checkpoint_is_made_when_a_shard_fails(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FAILING.replace('"python3"', "sys.executable"))
    done = run(tmp_path, "script.py")
    assert done.returncode != 0
    assert "another worker failed while it saved its shard" in done.stderr
    assert not list(tmp_path.glob("checkpoints/step-*"))


def test_commands_and_modules(tmp_path: Path) -> None:
    check = "import determined.core, sys; print(determined.core.init.__module__, sys.argv[1:])"
    (tmp_path / "module.py").write_text(check)
    expected = "muster.det_compat.core ['a']\n"
    assert run(tmp_path, "-m", "module", "a").stdout == expected
    assert run(tmp_path, "--", sys.executable, "module.py", "a").stdout == expected
    assert "usage:" in run(tmp_path).stderr


def test_what_is_not_there_says_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import determined as det\ndet.pytorch.init()\n")
    done = run(tmp_path, "script.py")
    assert done.returncode != 0
    assert "muster.det_compat has the Core API of Determined, and no 'pytorch'" in done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("context.checkpoint.store_path({}).__enter__()", "must have steps_completed"),
        ("context.checkpoint.restore_path('step-00000009').__enter__()", "there is no checkpoint"),
        ("context.train.report_progress(2)", "progress=2 is not between 0 and 1"),
        ("list(context.searcher.operations())", "set search.max_length"),
        ("core.DistributedContext(rank=2, size=2, local_rank=0, local_size=1, cross_rank=0,"
         " cross_size=1)", "rank=2 is not between 0 and 1"),
    ],
)  # fmt: skip
def test_misuse(tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "script.py").write_text(
        f"from determined import core\ncontext = core.init()\n{code}\n"
    )
    done = run(tmp_path, "script.py")
    assert done.returncode != 0
    assert message in done.stderr
