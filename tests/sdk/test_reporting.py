from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.sdk.checkpoints import verify_checkpoint
from muster.sdk.env import RankInfo, Surroundings, TrialConfig
from muster.sdk.metrics import Row
from muster.sdk.reporter import Reporter
from muster.sdk.run import Run
from muster.sdk.sinks import AgentSink, FileSink, NullSink, Sink

Until = Callable[..., None]
MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[MakeRun]:
    runs: list[Run] = []

    def make(sink: Sink, **info: Any) -> Run:
        around = Surroundings(info=RankInfo(**info), checkpoint_dir=str(tmp_path / "checkpoints"))
        trial = TrialConfig(hparams={}, config={}, seed=0)
        runs.append(Run(Reporter(around, sink, trial)))
        return runs[-1]

    yield make
    for run in runs:
        run.close(0.1)


def agent_sink(path: str, **options: Any) -> AgentSink:
    return AgentSink(path, rank=3, local_rank=1, flush_interval_s=0.02, **options)


def test_two_ranks_that_save_at_once_are_told_so(tmp_path: Path) -> None:
    saving = """
import sys
from pathlib import Path
import muster

run, step = muster.init(), int(sys.argv[1])
with run.checkpoint(step=step) as folder:
    (folder / "a").write_text("a")
    print("begun", flush=True)
    sys.stdin.readline()
    (folder / "b").write_text("b")
"""
    environ = {**os.environ, "MUSTER_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    ranks = []
    for _ in range(2):
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-c", saving, "7"],
                env=environ, cwd=tmp_path, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        assert ranks[-1].stdout is not None
        assert ranks[-1].stdout.readline() == "begun\n"
    # The second one has begun while the first had not ended.
    (_, first), (_, second) = [rank.communicate("\n", timeout=30) for rank in ranks]
    assert "RuntimeError: step 7 is not saved: another process has begun to save" in first
    assert "`if run.info.rank == 0:`" in first
    assert (ranks[1].returncode, second) == (0, "")
    folder = tmp_path / "checkpoints" / "step-00000007"
    assert set(verify_checkpoint(folder).files) == {"a", "b"}


def test_says_hello_first_with_its_place(shim: Any, make_run: MakeRun) -> None:
    shim.start()
    run = make_run(
        agent_sink(shim.path), rank=3, local_rank=1, world_size=4, node_rank=1, master_addr="n0"
    )
    run.log({"train/loss": 1.0}, step=1)
    shim.drain(run)
    hello = wire.load(wire.WorkerRecord, {**shim.lines[0], "type": "worker"})
    assert shim.lines[0]["type"] == "hello"
    assert (hello.rank, hello.local_rank, hello.world_size, hello.node_rank) == (3, 1, 4, 1)
    assert hello.pid == os.getpid()
    assert hello.reports


def test_progress_is_not_told_before_hello(shim: Any, make_run: MakeRun, until: Until) -> None:
    """The thread looks for it from its first moment on, the training thread says hello later."""
    shim.start()
    sink = agent_sink(shim.path, progress=lambda: {"step": None, "phase": ""})
    until(lambda: shim.num_connections)
    time.sleep(0.2)
    run = make_run(sink)
    shim.drain(run)
    until(lambda: shim.of("progress"))
    assert shim.lines[0]["type"] == "hello"


def test_rows_travel_as_one_columnar_record_and_keep_their_order(
    shim: Any, make_run: MakeRun
) -> None:
    run = make_run(agent_sink(shim.path), rank=3, local_rank=1)
    for step in range(5):
        run.log({"train/loss": float(step), "train/lr": 0.1}, step=step)
    shim.start()
    shim.drain(run)
    (line,) = shim.of("metrics")
    record = wire.load(wire.MetricsRecord, line)
    assert (record.rank, record.local_rank, record.step) == (3, 1, 4)
    assert [s.name for s in record.series] == ["train/loss", "train/lr"]
    assert shim.points("train/loss") == [(s, float(s)) for s in range(5)]


def test_nan_and_infinity_arrive(shim: Any, make_run: MakeRun) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))
    for step, value in enumerate([math.nan, math.inf, -math.inf]):
        run.log({"train/loss": value}, step=step)
    shim.drain(run)
    values = [v for _, v in shim.points("train/loss")]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


def test_metrics_come_before_the_checkpoint_they_belong_to(shim: Any, make_run: MakeRun) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))
    run.log({"val/loss": 0.5}, step=10)
    with run.checkpoint(step=10, epoch=1.0, metrics={"val/loss": 0.5}) as folder:
        (folder / "model.bin").write_bytes(b"weights")
    run.log({"train/loss": 0.4}, step=11)
    shim.drain(run)
    kinds = [line["type"] for line in shim.lines]
    assert kinds[-3:] == ["metrics", "checkpoint", "metrics"]
    record = wire.load(wire.CheckpointRecord, shim.of("checkpoint")[0])
    assert (record.path, record.size_bytes, list(record.files)) == (
        "step-00000010",
        7,
        ["model.bin"],
    )


def test_a_failed_checkpoint_is_neither_visible_nor_registered(
    shim: Any, make_run: MakeRun
) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))

    def write_half() -> None:
        with run.checkpoint(step=1) as folder:
            (folder / "model.bin").write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_half()
    shim.drain(run)
    assert shim.of("checkpoint") == []
    assert list(run.checkpoint_dir.glob("step-*")) == []


def test_a_stop_request_is_seen(shim: Any, make_run: MakeRun, until: Until) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))
    until(lambda: shim.num_connections)
    assert run.should_stop() is None
    deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + 30
    shim.send(
        wire.Control(
            should_stop=True, reason="behind at rung 1", kind="early", deadline_boot_s=deadline
        )
    )
    until(run.should_stop)
    notice = run.should_stop()
    assert notice is not None
    assert (notice.kind, notice.reason) == (
        "early",
        "behind at rung 1",
    )
    assert notice.seconds_left is not None
    assert 0 < notice.seconds_left <= 30
    assert not notice.continues
    shim.drain(run)
    assert len(shim.of("stopping")) == 1  # said once: the agent then leaves it time to save


def test_a_stop_of_an_older_shim_has_no_kind_and_no_deadline(
    shim: Any, make_run: MakeRun, until: Until
) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))
    until(lambda: shim.num_connections)
    shim.send({"type": "control", "should_stop": True, "reason": "", "from": "the future"})
    until(run.should_stop)
    notice = run.should_stop()
    assert notice is not None
    assert (notice.kind, notice.reason, notice.seconds_left) == ("", "asked to stop", None)


def test_reconnects_and_loses_and_repeats_nothing(
    shim: Any, make_run: MakeRun, until: Until
) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))
    for step in range(200):
        run.log({"train/loss": float(step)}, step=step)
        if step in (50, 120):
            shim.drain(run)  # what was sent and not read goes down with it
            shim.stop()
            shim.start()
    shim.drain(run)
    assert shim.num_connections >= 3
    assert len(shim.of("hello")) >= 3
    assert [s for s, _ in shim.points("train/loss")] == list(range(200))


def test_what_does_not_fit_is_dropped_counted_and_said(
    shim: Any, make_run: MakeRun, capfd: pytest.CaptureFixture[str]
) -> None:
    run = make_run(agent_sink(shim.path, max_queued_values=100), rank=3)
    for step in range(130):
        run.log({"train/loss": 1.0}, step=step)
    said, deadline = "", time.monotonic() + 10
    while "no connection" not in said:  # its thread has tried once
        assert time.monotonic() < deadline
        said += capfd.readouterr().err
    shim.start()
    shim.drain(run)
    assert [s for s, _ in shim.points("train/loss")] == list(range(100))
    (message,) = shim.of("message")
    assert message["text"] == (
        "rank 3: 30 reported values were dropped between steps 100 and 129: "
        "the agent did not read them in time"
    )
    said += capfd.readouterr().err
    assert said.count("no connection to the agent") == 1


def test_log_does_not_wait_for_a_shim_that_does_not_read(shim: Any, make_run: MakeRun) -> None:
    shim.reading.clear()
    shim.start()
    run = make_run(agent_sink(shim.path))
    values = {f"group/metric_{i}": float(i) for i in range(20)}
    slowest = 0.0
    for step in range(2000):
        began = time.perf_counter()
        run.log(values, step=step)
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 0.25  # a scheduler's hiccup on a loaded machine, never a network's timeout
    shim.reading.set()
    shim.drain(run)
    assert len(shim.points("group/metric_0")) == 2000


def test_nothing_a_script_logs_can_raise(
    make_run: MakeRun, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken(NullSink):
        def row(self, row: Row) -> None:
            raise RuntimeError("broken sink")

    run = make_run(Broken())
    for _ in range(3):
        run.log({"a\nb": 1.0, "c": "text", "d": [1, 2], "e": None}, step=1)
        run.log({"x": 1.0}, step="not a step")  # type: ignore[arg-type]
        run.report_group("g", ["a"])  # type: ignore[list-item]
    said = capfd.readouterr().err
    assert said.count("broken sink") == 1
    assert "metric name 'a\\nb' is reported as 'a_b~" in said
    assert "metric 'c' is not one number and is left out" in said


def test_one_bad_value_costs_that_value_and_is_said_once(
    shim: Any, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.sdk.reporter._warned", set())
    shim.start()
    run = make_run(agent_sink(shim.path), rank=3)
    for step in range(-2, 50):
        run.log({"train/loss": 0.5, "space": 10**400}, step=step, epoch=math.nan)
        values = {"acc>0.5": 1, "acc<0.5": 2, "space": 10**400}
        run.reporter.log_captured(
            values, route="wandb", library="W", step=step, num_steps_planned=-1
        )
    run.log({"train/loss": 1.0}, step=10**30)
    shim.drain(run)
    assert [step for step, _ in shim.points("train/loss")] == list(range(50))
    assert {value for _, value in shim.points("acc>0.5")} == {1.0}
    assert {value for _, value in shim.points("acc<0.5")} == {2.0}
    assert [m["text"] for m in shim.of("message") if m["level"] == "warning"] == [
        "rank 3: values are left out: step -2 lies outside 0 to 9007199254740991 (said once)",
        "rank 3: values that the script logs with W are left out: step -2 lies outside 0 to "
        "9007199254740991 (said once)",
        "rank 3: metric 'space' is too large to be a number and is left out",
    ]


def test_a_row_of_many_names_arrives_whole(shim: Any, make_run: MakeRun) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path))
    run.log({f"layer/{no}": float(no) for no in range(5_100)}, step=1)
    shim.drain(run)
    assert sum(len(line["series"]) for line in shim.of("metrics")) == 5_100
    assert max(len(line["series"]) for line in shim.of("metrics")) <= wire.SERIES_PER_RECORD_MAX


def test_numpy_scalars_and_one_element_tensors_are_numbers(
    tmp_path: Path, make_run: MakeRun
) -> None:
    np = pytest.importorskip("numpy")

    class Tensor:
        """Behaves as torch's does: float() of one that requires grad would warn."""

        def detach(self) -> float:
            return 0.25

    path = tmp_path / "reports.jsonl"
    run = make_run(FileSink(str(path), rank=0, local_rank=0))
    run.log({"a": np.float32(0.5), "b": Tensor(), "c": np.array([2.0])[0], "d": 3}, step=1)
    (line,) = [x for x in map(json.loads, path.read_text().splitlines()) if x["type"] == "metrics"]
    assert [s["values"] for s in line["series"]] == [[0.5], [0.25], [2.0], [3.0]]


def test_steps_count_on_when_not_given(tmp_path: Path, make_run: MakeRun) -> None:
    path = tmp_path / "reports.jsonl"
    run = make_run(FileSink(str(path), rank=0, local_rank=0))
    run.log({"a": 1})
    run.log({"a": 2}, step=10)
    run.log({"a": 3})
    lines = [x for x in map(json.loads, path.read_text().splitlines()) if x["type"] == "metrics"]
    assert [line["step"] for line in lines] == [0, 10, 11]


def test_only_the_first_member_reports_a_group(shim: Any, make_run: MakeRun) -> None:
    shim.start()
    run = make_run(agent_sink(shim.path), rank=2, world_size=4)
    run.report_group("dp0", [0, 2], "dp")
    run.report_group("tp1", [2, 3], "tp")
    shim.drain(run)
    assert [(g["name"], g["kind"], g["ranks"]) for g in shim.of("group")] == [("tp1", "tp", [2, 3])]


SCRIPT = """
import muster
run = muster.init()
for step in range(1000):
    muster.log({"train/loss": step}, step=step)
"""


def script(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    return subprocess.run(
        [sys.executable, "-c", code], env={**clean, **environ}, capture_output=True, text=True
    )


def test_a_script_that_ends_at_once_delivers_everything(shim: Any) -> None:
    shim.start()
    done = script(SCRIPT, MUSTER_REPORT_SOCKET=shim.path, RANK="0", WORLD_SIZE="1")
    assert (done.returncode, done.stderr) == (0, "")
    shim.wait_closed()
    assert [s for s, _ in shim.points("train/loss")] == list(range(1000))


def test_exit_waits_a_bounded_time_for_an_absent_agent(shim: Any) -> None:
    began = time.monotonic()
    done = script(SCRIPT, MUSTER_REPORT_SOCKET=shim.path)
    assert done.returncode == 0
    assert time.monotonic() - began < 12
    assert "some reports were not taken within 5 s" in done.stderr


def test_an_uncaught_exception_is_reported(shim: Any, until: Until) -> None:
    shim.start()
    done = script(
        "import muster; muster.init(); raise ValueError('bad batch')",
        MUSTER_REPORT_SOCKET=shim.path,
    )
    assert done.returncode == 1
    assert "ValueError: bad batch" in done.stderr
    until(lambda: shim.of("message"))
    assert shim.of("message")[0]["text"] == "rank 0: ValueError: bad batch"


HANGING = """
import threading, muster
timer = muster.StepTimer(max_rows_per_s=0.001)
for step in range(1, 41):
    with timer.forward():
        pass
    timer.end_step(step)
with timer.forward():
    threading.Event().wait()
"""


def test_a_script_that_hangs_has_told_its_last_step(shim: Any, until: Until) -> None:
    """Its rows are of many steps, and nobody on the training thread ends the one under way."""
    shim.start()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    hanging = subprocess.Popen(
        [sys.executable, "-c", HANGING], env={**clean, "MUSTER_REPORT_SOCKET": shim.path}
    )
    try:
        until(lambda: any(p["step"] == 40 for p in shim.of("progress")), timeout_s=30.0)
        until(lambda: 40 in [step for step, _ in shim.points("time/step_ms")])
        assert shim.of("progress")[-1]["phase"] == "forward"
    finally:
        hanging.kill()
        hanging.wait()


def test_a_forked_child_connects_if_it_reports(shim: Any) -> None:
    shim.start()
    code = (
        "import muster, multiprocessing\n"
        "run = muster.init(); muster.log({'a': 1}, step=1)\n"
        "def train(): run.log({'a': 2}, step=2); muster.log({'b': 3})\n"
        "context = multiprocessing.get_context('fork')\n"
        "for target in (train, print):\n"
        "    process = context.Process(target=target); process.start(); process.join()\n"
        "muster.log({'a': 4}, step=4)\n"
    )
    done = script(code, MUSTER_REPORT_SOCKET=shim.path)
    assert (done.returncode, done.stderr) == (0, "")
    shim.wait_closed()
    assert sorted(shim.points("a")) == [(1, 1.0), (2, 2.0), (4, 4.0)]
    assert shim.points("b") == [(3, 3.0)]
    assert shim.num_connections == 2


def test_a_second_run_in_the_process_has_its_own_series(tmp_path: Path, make_run: MakeRun) -> None:
    path = tmp_path / "reports.jsonl"
    run = make_run(FileSink(str(path), rank=0, local_rank=0))
    for fold in range(2):
        for step in range(3):
            run.log({"loss": fold + step / 10, "time/step_ms": 1}, step=step)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [line for line in lines if line["type"] == "metrics"]
    values = [(s["name"], s["steps"][0]) for row in rows for s in row["series"]]
    assert [v for v in values if v[0] != "time/step_ms"] == [
        *[("loss", step) for step in range(3)],
        *[("run-2/loss", step) for step in range(3)],
    ]
    (said,) = [line["text"] for line in lines if line["type"] == "message"]
    assert "such as 'run-2/loss', from step 0 on" in said
    assert [line["label"] for line in lines if line["type"] == "child_run"] == ["run-2"]


def test_another_init_begins_another_run_where_no_steps_are_given(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    code = (
        "import muster\n"
        "for fold in range(2):\n"
        "    muster.init()\n"
        "    for epoch in range(3): muster.log({'loss': fold})\n"
        "    if fold: muster.log({'loss': 9, 'late': 1}, step=7)\n"
    )
    done = script(code, MUSTER_REPORT_FILE=str(path))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    series = [s for row in rows if row["type"] == "metrics" for s in row["series"]]
    found = [(s["name"], step) for s in series for step in s["steps"]]
    assert [step for name, step in found if name == "loss"] == [0, 1, 2]
    assert [step for name, step in found if name == "run-2/loss"] == [0, 1, 2, 7]
    assert ("late", 7) in found


def test_what_follows_a_close_is_reported(shim: Any) -> None:
    shim.start()
    code = (
        "import muster\n"
        "for fold in range(2):\n"
        "    run = muster.init()\n"
        "    for epoch in range(3): run.log({'loss': fold}, step=epoch)\n"
        "    run.log_text('notes', 'fold', step=fold)\n"
        "    run.close()\n"
        "muster.log({'accuracy': 0.5}, step=3)\n"
        "run.close(); run.log({'accuracy': 0.75}, step=4)\n"
    )
    done = script(code, MUSTER_REPORT_SOCKET=shim.path)
    assert (done.returncode, done.stderr) == (0, "")
    shim.wait_closed()
    assert shim.points("loss") == [(0, 0.0), (1, 0.0), (2, 0.0)]
    assert shim.points("run-2/loss") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    # Each run reports through a connection of its own, and nothing orders what two of them carry.
    assert sorted(shim.points("accuracy")) == [(3, 0.5), (4, 0.75)]
    assert sorted(item["step"] for item in shim.of("media")) == [0, 1]
    assert shim.num_connections == len(shim.of("hello")) == 4


def test_what_is_logged_after_the_end_of_the_script_is_said_to_be_lost(shim: Any) -> None:
    shim.start()
    code = (
        "import atexit\n"
        "atexit.register(lambda: run.log({'late': 1}, step=2))\n"
        "import muster\n"
        "run = muster.init(); run.log({'loss': 1}, step=1)\n"
    )
    done = script(code, MUSTER_REPORT_SOCKET=shim.path)
    assert done.returncode == 0
    assert "muster: values logged after the script's end are lost" in done.stderr
    shim.wait_closed()
    assert (shim.points("loss"), shim.points("late")) == ([(1, 1.0)], [])


def test_a_script_that_asks_for_its_run_each_time_is_one_run(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    code = "import muster\nfor _ in range(3): muster.init().log({'loss': 1})\n"
    assert script(code, MUSTER_REPORT_FILE=str(path)).returncode == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    series = [s for row in rows if row["type"] == "metrics" for s in row["series"]]
    assert [(s["name"], step) for s in series for step in s["steps"]] == [
        ("loss", step) for step in range(3)
    ]


def test_workers_share_one_report_file(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    for rank in ("0", "1"):
        done = script(SCRIPT, MUSTER_REPORT_FILE=str(path), RANK=rank, WORLD_SIZE="2")
        assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line["type"] == "metrics" for line in lines) == 2000
    assert {line["rank"] for line in lines if line["type"] == "metrics"} == {0, 1}


def test_hyperparameters_of_the_trial_win_over_the_script_s(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"hparams": {"lr": 0.5}, "config": {"name": "x"}, "seed": 3}))
    code = (
        "import muster\n"
        "run = muster.init(hparams={'lr': 0.1, 'width': 8})\n"
        "print(muster.hparams(), muster.config(), run.seed)\n"
    )
    done = script(code, MUSTER_CONFIG_FILE=str(config))
    assert done.stdout.strip() == "{'lr': 0.5, 'width': 8} {'name': 'x'} 3"
