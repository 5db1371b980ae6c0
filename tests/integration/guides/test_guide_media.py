"""The guide to media, as a reader follows it. See guides.py."""

from __future__ import annotations

import json
from pathlib import Path

from support.guides import run_guide
from support.stack import Stack


def test_every_command_of_it_works_and_gives_what_was_logged(stack: Stack, tmp_path: Path) -> None:
    run_guide(stack, "media.md", tmp_path)
    (table,) = (tmp_path / "media/worst").glob("step-40-*")
    assert json.loads(table.read_text())["rows"] == [["a.png", 1.7]]
    assert (tmp_path / "media/answers/step-10-rank-0.txt").read_text() == "Q: 2 + 2?\nA: 5"
    assert (tmp_path / "media/voice/step-0-rank-0.wav").read_bytes()[:4] == b"RIFF"
    (only,) = {path.parent for path in tmp_path.glob("media-*/samples/*")}
    assert [path.name for path in only.iterdir()] == ["step-40-rank-0.png"]
    with stack.client() as client:
        (experiment,) = client.pages("/experiments", q="logs-media")
        (trial,) = client.trials(experiment["id"])
        found = client.get(f"/trials/{trial['id']}/media/series")
    assert [one["name"] for one in found["series"]] == [
        *("answers", "samples", "val/confusion", "val/pr", "voice", "weights/layer0", "worst")
    ]
    assert all(one["steps"] == [0, 10, 20, 30, 40] for one in found["series"])
    assert found["dropped"] == []
