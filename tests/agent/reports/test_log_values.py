"""Metrics of a real job that only prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster_agent.records.points import NameRoutes, Route

PRINTS = """
import time
for step in range(0, 30, 10):
    print(f"iter {step}: loss {3 - step / 100:.4f}, time 1.00ms, mfu -100.00%", flush=True)
print("step 30: train loss 2.5, val loss 2.75", end="")
"""


def test_what_a_script_prints_is_recorded_by_itself_for_rank_0(shims: Any) -> None:
    shim = shims(PRINTS)
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == {
        (0, "loss"): {0: 3.0, 10: 2.9, 20: 2.8},
        (0, "train_loss"): {30: 2.5},
        (0, "val_loss"): {30: 2.75},
    }
    (said,) = [text for text in shim.messages() if "log" in text]
    assert said == (
        "Values are read from the log: loss, train_loss, val_loss. "
        "metrics.from_log: [] switches it off."
    )
    # Before the end of the attempt, which is the last record.
    assert shim.records[-1].record.observed == "EXITED"


def test_patterns_apply_to_every_rank_and_while_the_job_runs(
    shims: Any, wait_for: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    shim = shims(
        "import os, time\n"
        "print('mean=' + os.environ['RANK'], flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "print('mean=oops')\n",
        config={"name": "x", "metrics": {"from_log": [{"pattern": "mean=(.+)", "name": "mean"}]}},
    )
    shim.start()
    expected: dict[tuple[int, str], dict[int, Any]] = {(0, "mean"): {0: 0.0}, (1, "mean"): {0: 1.0}}
    wait_for(lambda: shim.series() == expected, what="values of the running job")
    go.touch()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == expected
    assert (
        "metrics.from_log: 2 matches in the log are no values. 'mean': 'oops' is not a number."
        in shim.messages()
    )


def test_a_name_that_the_script_reports_is_not_read_from_the_log(shims: Any) -> None:
    script = (
        "from muster.sdk.run import init\n"
        "run = init()\n"
        "print('loss=1.5 acc=0.5', flush=True)\n"
        "run.log({'loss': 1.25}, step=7)\n"
        "run.close()\n"
    )
    patterns = [{"pattern": "(?P<name>\\w+)=(?P<value>\\S+)"}]
    shim = shims(
        script,
        slots=[0],
        world_size=1,
        config={"name": "x", "metrics": {"from_log": patterns}},
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == {(0, "loss"): {7: 1.25}, (0, "acc"): {0: 0.5}}
    assert any(text.startswith("loss is reported by the script") for text in shim.messages())


def test_nothing_is_read_by_itself_where_the_document_says_so(shims: Any) -> None:
    for number, config in enumerate([{"metrics": {"from_log": []}}, {"measure": {"capture": []}}]):
        shim = shims(PRINTS, allocation_id=f"b{number}", config={"name": "x", **config})
        shim.start()
        assert shim.wait_exit().cause == "success"
        assert "loss" not in {name for _, name in shim.series()}


def test_a_printed_curve_goes_on_when_a_library_begins_to_log(
    shims: Any, wait_for: Any, tmp_path: Path
) -> None:
    """makemore prints a loss every 10 steps and writes its first scalar, of another loss, at step 500."""
    go = tmp_path / "go"
    script = (
        "import os, time\n"
        "from muster.sdk.run import init\n"
        "run = init()\n"
        "print('step 0 | loss 3.5 | err: 3 | step time 9.87ms')\n"
        "print('step 0 | val loss 4.5', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "run.log({'Loss/train': 2.5, 'val/loss': 2.25}, step=500)\n"
        "run.log({'err': 0.25}, step=500)\n"
        "print('step 500 train loss: 2.5', flush=True)\n"
        "print('step 510 | loss 2.4 | loss/train 2.5 | err: 4', flush=True)\n"
        "run.close()\n"
    )
    shim = shims(script, slots=[0], world_size=1, config={"name": "x"})
    shim.start()
    wait_for(lambda: (0, "loss") in shim.series(), what="values of the running job")
    go.touch()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == {
        (0, "loss"): {0: 3.5, 510: 2.4},
        (0, "val_loss"): {0: 4.5},
        (0, "train_loss"): {500: 2.5},
        (0, "err"): {0: 3.0, 500: 0.25},
        # The library's, which the log spells loss/train: that is not charted twice.
        (0, "Loss/train"): {500: 2.5},
        (0, "val/loss"): {500: 2.25},
    }
    (said,) = [text for text in shim.messages() if "from here on" in text]
    assert said.startswith("err is reported by the script or a library from here on")


def test_a_pattern_that_finds_nothing_is_said(shims: Any) -> None:
    shim = shims(
        PRINTS,
        slots=[0],
        world_size=1,
        config={"name": "x", "metrics": {"from_log": [{"pattern": "lss (.+)", "name": "loss"}]}},
    )
    shim.start()
    shim.wait_exit()
    assert "metrics.from_log found no value in the log: 'lss (.+)'." in shim.messages()


def test_each_name_has_one_route_and_the_better_one_takes_it() -> None:
    names = NameRoutes()
    assert names.allows("loss", Route.LOG)
    assert names.allows("loss", Route.TRACKING)
    assert not names.allows("loss", Route.LOG)
    assert names.allows("accuracy", Route.LOG), "another name"
    # The log gets no other spelling of what is reported, but goes on with what it has begun.
    assert names.allows("val_loss", Route.LOG)
    names.report(["train/loss", "val/loss"], Route.PROCESS)
    assert not names.allows("Train_loss", Route.LOG)
    assert names.allows("val_loss", Route.LOG)
    # What Muster measures is nobody's.
    names.report(["time/step_ms"], Route.PROCESS)
    assert names.allows("time/step_ms", Route.LOG)
