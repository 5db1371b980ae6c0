"""What event files hold beside scalars, written by a real writer and by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from muster_agent.event_files.events import BadEvent, EventValue, read_event
from muster_agent.event_files.media import BINS_MAX, EventMedia, media_of
from muster_agent.event_files.records import records
from support.nodes import event_files as made

PNG = b"\x89PNG\r\n\x1a\n rest"


def items(folder: Path) -> dict[str, list[EventMedia]]:
    found: dict[str, list[EventMedia]] = {}
    for path in folder.rglob("*tfevents*"):
        for _, data in records(path.read_bytes()):
            assert data is not None
            for value in read_event(data).values:
                if media := media_of(value, value.plugin):
                    found.setdefault(value.tag, []).extend(media)
    return found


def test_what_a_real_writer_has_written(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=1_000)
    from tensorboardX import SummaryWriter  # It imports torch, boto3 and grpc.

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("weights", values, 2)
        writer.add_text("notes", "*hello*", 3)
        labels, scores = np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])
        writer.add_pr_curve("curve", labels, scores, 4, num_thresholds=11)
        writer.add_hparams({"lr": 0.1, "name": "adam", "bias": True}, {"loss": 0.5})
        writer.add_scalar("loss", 1.0, 1)
    found = items(tmp_path)
    (histogram,) = found["weights"]
    assert sum(histogram.counts) == 1_000
    assert histogram.counts[0] > 0 < histogram.counts[-1]
    assert histogram.edges == sorted(histogram.edges)
    assert histogram.edges[0] >= values.min() - 1e-9
    assert histogram.edges[-1] <= values.max() + 1e-9
    (notes,) = (items for tag, items in found.items() if tag.startswith("notes"))
    assert (notes[0].kind, notes[0].data, notes[0].mime) == ("text", b"*hello*", "text/markdown")
    (curve,) = found["curve"]
    assert (len(curve.precision), len(curve.recall)) == (11, 11)
    assert curve.thresholds[:2] == [0.0, 0.1]
    assert curve.recall[0] == 1.0
    (table,) = found["_hparams_/session_start_info"]
    assert table.rows == [("bias", True), ("lr", 0.1), ("name", "adam")]
    assert "loss" not in found


def value_of(data: bytes) -> EventValue:
    ((_, record),) = records(made.event(1, data))
    assert record is not None
    (value,) = read_event(record).values
    return value


def strings(*texts: bytes) -> bytes:
    return made.number(1, 7) + b"".join(made.block(8, each) for each in texts)


def doubles(*numbers: float) -> bytes:
    return made.number(1, 2) + made.block(4, struct.pack(f"<{len(numbers)}d", *numbers))


def test_images_of_writers() -> None:
    encoded = made.number(1, 4) + made.number(2, 6) + made.number(3, 3) + made.block(4, PNG)
    (image,) = media_of(value_of(made.block(1, b"x") + made.block(4, encoded)), "")
    assert (image.kind, image.mime, image.width, image.height) == ("image", "image/png", 6, 4)
    assert image.data == PNG


def test_tensors_of_newer_writers() -> None:
    images = value_of(made.tensor("x", strings(b"6", b"4", PNG, PNG), made.plugin("images")))
    assert [(i.kind, i.width, i.height) for i in media_of(images, "images")] == [
        ("image", 6, 4)
    ] * 2
    bins = value_of(made.tensor("x", doubles(0, 1, 2, 1, 3, 5), made.plugin("histograms")))
    (histogram,) = media_of(bins, "histograms")
    assert (histogram.counts, histogram.edges) == ([2, 5], [0, 1, 3])
    sound = value_of(made.tensor("x", strings(b"RIFFwav", b"label"), made.plugin("audio")))
    assert [(i.kind, i.mime) for i in media_of(sound, "audio")] == [("audio", "audio/wav")]
    old_sound = value_of(made.block(1, b"x") + made.block(6, made.block(4, b"RIFFwav")))
    assert media_of(old_sound, "")[0].data == b"RIFFwav"
    mesh = value_of(made.tensor("x", doubles(1), made.plugin("mesh")))
    assert media_of(mesh, "mesh") == []


def test_wide_histograms_are_joined() -> None:
    numbers = [n for at in range(2_000) for n in (at, at + 1, 1.0)]
    (histogram,) = media_of(
        value_of(made.tensor("x", doubles(*numbers), made.plugin("histograms"))), "histograms"
    )
    assert len(histogram.counts) <= BINS_MAX
    assert len(histogram.edges) == len(histogram.counts) + 1
    assert sum(histogram.counts) == 2_000
    assert (histogram.edges[0], histogram.edges[-1]) == (0, 2_000)


@pytest.mark.parametrize(
    ("data", "plugin"),
    [
        (made.block(1, b"x") + made.block(4, made.block(4, b"no image")), ""),
        (made.block(1, b"x") + made.block(6, made.block(4, b"no sound")), ""),
        (made.block(1, b"x") + made.block(5, b""), ""),
        (made.tensor("x", strings(b"6")), "images"),
        (made.tensor("x", strings(b"wide", b"4", PNG)), "images"),
        (made.tensor("x", doubles(1, 2, 3)), "pr_curves"),
        (made.tensor("x", doubles(0, float("nan"), 3)), "histograms"),
    ],
)
def test_broken_media_are_refused(data: bytes, plugin: str) -> None:
    with pytest.raises(BadEvent):
        media_of(value_of(data), plugin)
