"""The guide to the Python client as its reader follows it, on a real stack."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from support.guides import GUIDES, write_files
from support.stack import Stack

ROOT = GUIDES.parents[1]


@pytest.fixture
def reader(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with the address of the stack in the environment."""
    monkeypatch.setenv("MUSTER_URL", stack.url)
    monkeypatch.setenv("MUSTER_TOKEN", stack.access["token"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_of_the_guide_runs(
    reader: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (GUIDES / "python.md").read_text()
    write_files(text, reader)
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if not code.startswith("# train.py"):
            exec(compile(code, "python.md", "exec"), names)
    names["client"].close()
    names["estimator"].client.close()
    output = capsys.readouterr().out
    assert "COMPLETED" in output
    assert "['COMPLETED', 'COMPLETED']" in output, "both experiments of the asynchronous client"
    assert "experiments.invalid_document 422" in output
    assert (reader / "model.safetensors").stat().st_size > 1000
    # The estimator: arguments, channel, model and metrics of an unchanged script.
    assert "epoch 2 loss=0.0333" in output
    newest = client.experiments(name="train", limit=2)
    tuned, trained = newest
    trial = client.best_trial(trained["id"])
    assert client.series(trial["id"], "loss")["value"] == pytest.approx([0.1, 0.05, 0.1 / 3])
    assert trial["num_slots"] == 2
    tried = client.compare(tuned["id"], metrics=["loss"])
    assert len(tried) == 2
    assert tried["loss"] == pytest.approx([lr / 3 for lr in tried["lr"]])
    best = min(zip(tried["loss"], tried["lr"], strict=True))
    assert f"{{'epochs': 3, 'lr': {best[1]}}}" in output


def test_the_cells_of_the_notebook_run(reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads((ROOT / "examples/notebook/search.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "search.ipynb", "exec"), names)
    names["client"].close()
    assert "COMPLETED" in capsys.readouterr().out
