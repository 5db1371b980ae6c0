"""Images, texts and histograms that a real job writes into event files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from muster import wire

TESTS = Path(__file__).resolve().parents[2]
SCRIPT = f"""
import os, sys, pathlib
os.chdir(os.environ["MUSTER_WORK_DIR"])
sys.path.insert(0, {str(TESTS)!r})
from support.nodes import event_files as made
from tensorboardX import SummaryWriter
with SummaryWriter("runs") as writer:
    writer.add_histogram("weights", [1.0, 2.0, 2.5], 3)
    writer.add_text("notes", "*hello*", 4)
    for loss in (0.6, 0.5):  # As after each epoch: one run with these hyperparameters.
        writer.add_hparams({{"lr": 0.1, "bs": 32}}, {{"loss": loss}})
    writer.add_hparams({{"lr": 0.2, "bs": 32}}, {{"loss": 0.4}})
png = made.block(4, b"\\x89PNG\\r\\n\\x1a\\n" + bytes(50_000))
broken = made.block(4, made.block(4, b"no image"))
made.write(pathlib.Path("runs") / made.NAME, made.event(5, made.block(1, b"sample") + made.block(4, png)))
made.write(pathlib.Path("runs") / made.NAME, made.event(6, made.block(1, b"broken") + broken))
"""


def test_media_of_event_files_are_kept(shims: Any) -> None:
    shim = shims(SCRIPT, slots=[0], world_size=1)
    shim.start()
    assert shim.wait_exit().cause == "success"
    found = {record.name: record for record in shim.of(wire.MediaRecord)}
    assert set(found) == {"weights", "notes", "hparams", "sample"}
    assert (found["weights"].kind, found["weights"].step) == ("histogram", 3)
    assert sum(json.loads(base64.b64decode(found["weights"].data))["counts"]) == 3
    assert base64.b64decode(found["notes"].data) == b"*hello*"
    assert json.loads(base64.b64decode(found["hparams"].data))["rows"][1][0] == "lr"
    params = {run.label: (run.name, run.params) for run in shim.of(wire.TrackedRunRecord)}
    assert params == {
        "": ("add_hparams", {"lr": "0.1", "bs": "32"}),
        "add_hparams-2": ("add_hparams-2", {"lr": "0.2", "bs": "32"}),
    }
    assert (found["sample"].mime, found["sample"].step) == ("image/png", 5)
    kept = shim.folder.path.parent.parent / "work/7/files" / found["sample"].file
    assert kept.stat().st_size == found["sample"].size_bytes
    drops = [record.num for record in shim.of(wire.MediaDropsRecord)]
    assert drops == [{"invalid": 1}]
