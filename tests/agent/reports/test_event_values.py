"""Event files of a real job, and who reports their scalars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster import wire
from support.nodes import event_files as made

TESTS = Path(__file__).resolve().parents[2]
WRITES = f"""
import os, sys, time, pathlib
os.chdir(os.environ["MUSTER_WORK_DIR"])
sys.path.insert(0, {str(TESTS)!r})
from support.nodes import event_files as made
def write(folder, step, tag="loss", name=made.NAME):
    made.write(pathlib.Path(folder) / name, made.event(step, made.scalar(tag, step / 2)))
"""


def test_event_files_of_any_writer_are_read_while_the_job_runs(
    shims: Any, wait_for: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = WRITES + (
        "if os.environ['RANK'] == '0':\n"
        "    for step in (0, 5): write('runs/train', step)\n"
        "    write('runs/validation', 5)\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        # What a writer of rank 1's process would have in its name.
        "    write('runs/train', 10)\n"
        "    write('runs/train', 10, tag='time/epoch')\n"
        "    with open('runs/train/' + made.NAME, 'ab') as file: file.write(made.event(11)[:-3])\n"
        "else:\n"
        "    name = f'events.out.tfevents.1732000001.host.{os.getpid()}.0'\n"
        "    write('mine', 3, name=name, tag='speed')\n"
    )
    shim = shims(script)
    shim.start()
    first = {
        (0, "loss"): {0: 0.0, 5: 2.5},
        (0, "validation/loss"): {5: 2.5},
        (1, "speed"): {3: 1.5},
    }
    wait_for(lambda: shim.series() == first, what="values of the running job")
    go.touch()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == {
        **first,
        (0, "loss"): {0: 0.0, 5: 2.5, 10: 5.0},
        (0, "tensorboard/time/epoch"): {10: 5.0},
    }
    (record,) = [r for r in shim.of(wire.MetricsRecord) if r.series[0].name == "speed"]
    assert record.series[0].times_ms == [1_732_000_000_500]
    said = shim.messages()
    assert any(text.startswith("Values are read from TensorBoard's event files: ") for text in said)
    assert any("ends within a record" in text for text in said)


def test_scalars_that_the_process_captures_are_not_read_again(shims: Any) -> None:
    script = WRITES + (
        "from muster.sdk.reporter import current\n"
        "run = current()\n"
        "run.captures_folder(os.path.realpath('runs'))\n"
        "run.log_captured({'loss': 7.0}, route='tensorboard', library='TensorBoard', step=0)\n"
        "write('runs', 1)\n"
        "write('runs', 1, tag='other')\n"
        "write('theirs', 2)\n"
        "write('theirs', 2, tag='accuracy')\n"
        "run.close()\n"
    )
    shim = shims(script, slots=[0], world_size=1)
    shim.start()
    assert shim.wait_exit().cause == "success"
    # Of another writer: what the process has not reported under this name.
    assert shim.series() == {(0, "loss"): {0: 7.0}, (0, "accuracy"): {2: 1.0}}


def test_a_later_attempt_reads_only_what_is_new(shims: Any) -> None:
    first = shims(WRITES + "write('runs', 1)\n", slots=[0], world_size=1)
    first.start()
    assert first.wait_exit().cause == "success"
    assert first.series() == {(0, "loss"): {1: 0.5}}
    script = WRITES + (
        "made.write(pathlib.Path('runs') / (made.NAME + '.2'), made.restart(1))\n"
        "write('runs', 2, name=made.NAME + '.2')\n"
        "made.write(pathlib.Path('runs') / (made.NAME + '.3'), made.restart(2))\n"
    )
    second = shims(script, allocation_id="a2", trial_id=7, attempt_no=2, slots=[0], world_size=1)
    second.start()
    assert second.wait_exit().cause == "success"
    assert second.series() == {(0, "loss"): {2: 1.0}}
    (said,) = [text for text in second.messages() if "began again" in text]
    assert "at step 2: values at later steps from before are kept." in said


def test_models_trained_one_after_another_have_series_of_their_own(
    shims: Any, wait_for: Any, tmp_path: Path
) -> None:
    go = [tmp_path / "1", tmp_path / "2"]
    # As CatBoost does: it writes the file of each model in place of the one before.
    script = WRITES + (
        "for model, steps in enumerate((2, 4)):\n"
        "    events = [made.event(s, made.scalar('RMSE', model + s), wall_time=1e9 + model)"
        " for s in range(steps)]\n"
        "    os.makedirs('info', exist_ok=True)\n"
        "    (pathlib.Path('info') / made.NAME).write_bytes(b''.join(events))\n"
        f"    while not os.path.exists({str(tmp_path)!r} + f'/{{model + 1}}'): time.sleep(0.02)\n"
        "write('runs/1732000000.25', 0, tag='hparam/accuracy')\n"
        "made.write(pathlib.Path('runs') / made.NAME, made.event(0, made.scalar('hp_metric', -1)))\n"
    )
    shim = shims(script, slots=[0], world_size=1)
    shim.start()
    model = {(0, "RMSE"): {0: 0.0, 1: 1.0}}
    wait_for(lambda: shim.series() == model, what="the first model")
    go[0].touch()
    model |= {(0, "run-2/RMSE"): {step: step + 1.0 for step in range(4)}}
    wait_for(lambda: shim.series() == model, what="the second model")
    go[1].touch()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == model | {(0, "hparam/accuracy"): {0: 0.0}}
    assert any("another run from then on, 'run-2/RMSE'" in text for text in shim.messages())


def test_folds_that_begin_in_one_second_are_runs_of_their_own(
    shims: Any, wait_for: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    # Two writers of one folder at a time; a third goes on where the first has ended.
    script = WRITES + (
        "def fold(no, steps, folder='runs'):\n"
        "    for step in steps:\n"
        "        event = made.event(step, made.scalar('loss', 10 * no + step))\n"
        "        made.write(pathlib.Path(folder) / f'{made.NAME}.{no}', event)\n"
        "for no in (1, 2): fold(no, range(2))\n"
        "for no in (1, 2): fold(no, [0], folder='single')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "for no in (1, 2): fold(no, range(2, 4))\n"
        "fold(3, range(4, 6))\n"
    )
    shim = shims(script, slots=[0], world_size=1)
    shim.start()
    wait_for(lambda: len(shim.series()) == 4, what="two folds in two folders")
    go.touch()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == {
        (0, "loss"): {**{s: 10.0 + s for s in range(4)}, **{s: 30.0 + s for s in (4, 5)}},
        (0, "run-2/loss"): {s: 20.0 + s for s in range(4)},
        (0, "single/loss"): {0: 10.0},
        (0, "run-3/single/loss"): {0: 20.0},
    }
    assert [run.label for run in shim.of(wire.TrackedRunRecord)] == ["run-2", "run-3"]


def test_nothing_is_read_where_the_document_says_so(shims: Any) -> None:
    config = {"name": "x", "measure": {"capture": ["lightning"]}}
    shim = shims(WRITES + "write('runs', 1)\n", slots=[0], world_size=1, config=config)
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert shim.series() == {}


def test_the_made_files_are_as_the_format_has_them() -> None:
    assert (
        made.crc(b"123456789") == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) % 2**32
    )
