"""Media that a script logs: what is sent of it, and what a script never notices."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import struct
import time
import wave
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muster import media
from muster.sdk.env import RankInfo, Surroundings, TrialConfig
from muster.sdk.media import QUEUED_MAX
from muster.sdk.reporter import Reporter
from muster.sdk.run import Run
from muster.sdk.sinks import AgentSink


@pytest.fixture
def run(shim: Any, tmp_path: Path) -> Iterator[Run]:
    shim.start()
    sink = AgentSink(shim.path, rank=3, local_rank=1, flush_interval_s=0.02)
    around = Surroundings(info=RankInfo(rank=3), output_dir=str(tmp_path / "muster-outputs"))
    made = Run(Reporter(around, sink, TrialConfig(hparams={}, config={}, seed=0)))
    yield made
    made.close(0.1)


def drain(shim: Any, run: Run) -> None:
    """Wait until all media have been read: they are handed over after what is sent directly."""
    assert run.flush(20.0)
    shim.drain(run)


def logged(shim: Any, run: Run) -> dict[str, Any]:
    """Return the only item that has arrived."""
    drain(shim, run)
    (item,) = shim.of("media")
    return dict(item)


def content_of(item: dict[str, Any], folder: Path) -> bytes:
    content = (
        base64.b64decode(item["data"]) if item["data"] else (folder / item["file"]).read_bytes()
    )
    assert hashlib.sha256(content).hexdigest() == item["sha256"]
    assert len(content) == item["size_bytes"]
    return content


def decoded(png: bytes) -> Any:
    """Return the pixels of a PNG as this SDK writes it, of shape (H, W, C)."""
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        if kind == b"IHDR":
            width, height, _, color = struct.unpack(">IIBB", body[:10])
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    channels = {0: 1, 2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, width * channels + 1)
    assert (rows[:, 0] == 2).all()
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, channels)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (np.full((5, 7, 3), 0.5, np.float32), (5, 7, 3)),
        (np.full((5, 7), 128, np.int64), (5, 7, 1)),
        (torch.full((3, 5, 7), 0.5, dtype=torch.bfloat16), (5, 7, 3)),
        (torch.full((4, 1, 5, 7), 0.5), (11, 15, 1)),
    ],
)
def test_an_array_becomes_a_png(
    shim: Any, run: Run, tmp_path: Path, value: Any, shape: tuple[int, ...]
) -> None:
    run.log_image("val/x", value, step=4, caption="c")
    item = logged(shim, run)
    assert (item["kind"], item["name"], item["step"], item["rank"]) == ("image", "val/x", 4, 3)
    assert (item["mime"], item["caption"]) == ("image/png", "c")
    pixels = decoded(content_of(item, tmp_path))
    assert pixels.shape == shape
    assert (item["height"], item["width"]) == shape[:2]
    assert pixels[0, 0, 0] == 128


def test_an_image_is_the_one_at_the_time_of_the_call(shim: Any, run: Run, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    before = noise.copy()
    run.log_image("val/x", noise, step=1)
    noise[:] = 0
    item = logged(shim, run)
    assert item["data"] == ""
    assert item["file"] == f"muster-outputs/media/{item['sha256']}.png"
    assert (decoded(content_of(item, tmp_path)) == before).all()


def test_the_step_is_that_of_the_last_log(shim: Any, run: Run) -> None:
    run.log({"train/loss": 1.0}, step=41)
    run.log_text("sample", "once upon a time")
    item = logged(shim, run)
    assert item["step"] == 41
    assert base64.b64decode(item["data"]) == b"once upon a time"


def test_a_histogram_counts_what_is_finite(shim: Any, run: Run, tmp_path: Path) -> None:
    values = torch.tensor([0.0, 1.0, 1.0, 4.0, float("nan"), float("inf")])
    run.log_histogram("grad", values, bins=4, step=0)
    found = json.loads(content_of(logged(shim, run), tmp_path))
    assert found == {"counts": [1, 2, 0, 1], "edges": [0, 1, 2, 3, 4], "num_non_finite": 2}


def test_a_curve_has_the_precision_and_recall_of_each_threshold(
    shim: Any, run: Run, tmp_path: Path
) -> None:
    run.log_pr_curve("pr", [1, 0, 1, 0], [0.9, 0.8, 0.8, 0.1], step=0)
    found = json.loads(content_of(logged(shim, run), tmp_path))
    assert found["thresholds"] == [0.9, 0.8, 0.1]
    assert found["precision"] == [1.0, pytest.approx(2 / 3), 0.5]
    assert found["recall"] == [0.5, 1.0, 1.0]


def test_a_table_keeps_the_first_rows_and_the_number_of_all(
    shim: Any, run: Run, tmp_path: Path
) -> None:
    rows = [{"no": no, "p": float("nan")} for no in range(media.ROWS_MAX + 5)]
    run.log_table("wrong", rows, step=0)
    found = json.loads(content_of(logged(shim, run), tmp_path))
    assert found["columns"] == ["no", "p"]
    assert (len(found["rows"]), found["num_rows"]) == (media.ROWS_MAX, media.ROWS_MAX + 5)
    assert found["rows"][1] == [1, "NaN"]


def test_sound_and_frames_become_files_that_browsers_play(
    shim: Any, run: Run, tmp_path: Path
) -> None:
    run.log_audio("tone", np.sin(np.arange(800) / 5), sample_rate=8000, step=0)
    run.log_video("walk", np.zeros((4, 6, 8, 3), np.uint8), fps=4, step=0)
    drain(shim, run)
    tone, walk = shim.of("media")
    with wave.open(io.BytesIO(content_of(tone, tmp_path))) as found:
        assert (found.getframerate(), found.getnchannels(), found.getnframes()) == (8000, 1, 800)
    content = content_of(walk, tmp_path)
    assert walk["mime"] == "image/apng"
    at = content.index(b"acTL")
    assert struct.unpack(">II", content[at + 4 : at + 12]) == (4, 0)
    assert (content.count(b"fcTL"), content.count(b"fdAT")) == (4, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda run: run.log_image("x", object()), "log_image('x'): image: "),
        (lambda run: run.log_image("x", np.zeros((2, 5, 7))), "image: shape (2, 5, 7)"),
        (lambda run: run.log_image("x", b"<html>"), "image: these bytes are no image"),
        (lambda run: run.log_image("x", "no-such.png"), "image: no-such.png cannot be read"),
        (lambda run: run.log_histogram("x", [float("nan")]), "values: none of them is finite"),
        (lambda run: run.log_histogram("x"), "values: give either"),
        (lambda run: run.log_text("x", 3), "text: builtins.int is not text"),
        (lambda run: run.log_table("x", [[1]]), "columns: rows need"),
        (lambda run: run.log_audio("x", np.zeros(9)), "sample_rate: None"),
        (lambda run: run.log_video("x", np.zeros(9)), "video: numpy.ndarray"),
        (lambda run: run.log_pr_curve("x", [2], [0.5]), "labels: every label"),
        (lambda run: run.log_confusion_matrix("x", [[1, 2]]), "counts: must have 1 rows"),
        (lambda run: run.log_text("x", "y", step=-1), "step: -1"),
    ],
)
def test_bad_input_is_one_warning_and_is_counted(
    shim: Any, run: Run, capsys: pytest.CaptureFixture[str], call: Callable[[Run], None], said: str
) -> None:
    for _ in range(3):
        call(run)
    drain(shim, run)
    assert shim.of("media") == []
    assert shim.of("media_drops")[-1] == {"type": "media_drops", "rank": 3, "num": {"invalid": 3}}
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_what_comes_too_fast_is_counted(shim: Any, run: Run) -> None:
    for no in range(media.ITEMS_BURST + 300):
        run.log_text("t", f"{no}", step=no)
        if no % (QUEUED_MAX // 2) == 0:
            assert run.flush(20)
    drain(shim, run)
    num = len(shim.of("media"))
    assert media.ITEMS_BURST <= num < media.ITEMS_BURST + 300
    dropped = shim.of("media_drops")[-1]["num"]
    assert num + sum(dropped.values()) == media.ITEMS_BURST + 300
    assert set(dropped) == {"rate"}


def test_a_call_does_not_wait_for_the_thread(run: Run) -> None:
    image = np.zeros((16, 16, 3), np.uint8)
    took_s = []
    for no in range(200):
        began = time.perf_counter()
        run.log_image("x", image, step=no)
        took_s.append(time.perf_counter() - began)
    # Making the PNG alone takes longer.
    assert sorted(took_s)[len(took_s) // 2] < 500e-6
