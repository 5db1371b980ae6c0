"""The guide to batch inference, as a reader follows it. See guides.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.guides import run_guide
from support.stack import Stack

pytestmark = pytest.mark.torch


def test_rows_are_predicted_by_a_model_and_by_a_function(stack: Stack, tmp_path: Path) -> None:
    run_guide(stack, "batch-inference.md", tmp_path)
    folder = tmp_path / "results/muster-outputs/predictions"
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert manifest["model"] == {
        "name": "reader",
        "version": 1,
        "digest": manifest["model"]["digest"],
    }
    first = json.loads((folder / manifest["parts"][0]["part"]).read_text().splitlines()[0])
    assert first["id"] == "scan-0"
    assert first["prediction"].keys() == {"label", "score"}
