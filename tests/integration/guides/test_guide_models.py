"""The guide to models, as a reader follows it. See guides.py."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from muster.client import Client
from support.guides import last_id, run_guide, shell
from support.stack import Stack, wait_for

pytestmark = pytest.mark.torch


def test_the_best_of_a_search_is_registered_named_promoted_and_pulled(
    stack: Stack, tmp_path: Path
) -> None:
    experiment_id = last_id(stack) + 1
    run_guide(stack, "models.md", tmp_path)
    manifest = json.loads((tmp_path / "served/.muster-model.json").read_text())
    assert (manifest["model"], manifest["version"]) == ("digits", 1)
    header = (tmp_path / "served/model.safetensors").read_bytes()
    assert b'"dtype":"F32"' in header[: 8 + int.from_bytes(header[:8], "little")]
    assert list((tmp_path / "pulled-models").glob("*/*"))
    exported = json.loads((tmp_path / "for-onnx/.muster-model.json").read_text())
    assert (exported["format"], exported["version"]) == ("onnx", 1)
    for name, sha256 in exported["files"].items():
        content = (tmp_path / "for-onnx" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256
    with stack.client() as client:
        (job,) = client.model_exports("digits:1")
        verdicts = {e["format"]: e["comparison"]["verdict"] for e in job["exports"]}
    assert verdicts == {"safetensors": "equal", "pt2": "equal", "onnx": "within"}
    with stack.client() as client:

        def candidate() -> int | None:
            found = client.get("/models/digits")["aliases"]
            return next((a["version"] for a in found if a["name"] == "candidate"), None)

        assert wait_for("the rule is applied", candidate, 60) == 1, "the best was registered before"
        version = client.model_version("digits:1")
        assert version["lineage"]["experiment_id"] == experiment_id
        assert version["lineage"]["data"][0]["name"] == "digits"
        assert version["lineage"]["slot_hours"] > 0
        assert version["metrics"]["val/loss"] > 0
        assert version["notes"] == "Confuses 4 and 9."
        _is_judged_as_a_plain_computation_does(client, tmp_path / "served")
        wrong = shell(stack, "muster model evaluate digits:1 --data shakespeare", tmp_path)
        assert wrong.returncode != 0
        assert "ended without a result: it is FAILED" in wrong.stderr
        failed = client.model_lineage("digits:1")["uses"][0]
        (trial,) = client.trials(failed["experiment_id"])
        said = [event["message"] for event in client.pages(f"/trials/{trial['id']}/events")]
        assert any("shakespeare has samples of tokens in the shape [64]" in text for text in said)
    refused = shell(stack, f"muster delete {experiment_id} --yes", tmp_path)
    assert "version 1 of model digits" in refused.stderr


def _is_judged_as_a_plain_computation_does(client: Client, folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from muster.document.train_config import resolve
    from muster.training import data, models

    uses = client.model_lineage("digits:1")["uses"]
    (use,) = (use for use in uses if use["kind"] == "evaluation")
    assert (use["kind"], use["experiment_state"]) == ("evaluation", "COMPLETED")
    dataset = data.load(resolve({"trainer": {"data": "digits"}}, {}))
    trained = resolve({"trainer": {"model": "mlp", "data": "digits"}}, {})
    module = models.build(trained, inputs=(1, 8, 8), classes=10)
    module.load_state_dict(load_file(folder / "model.safetensors"))
    with torch.inference_mode():
        right = (module.eval()(dataset.test_x).argmax(-1) == dataset.test_y).float().mean().item()
    result = use["result"]
    assert result["metrics"]["accuracy"] == pytest.approx(right)
    assert result["num_samples"] == len(dataset.test_x)
    assert result["speed"]["latency_p50_ms"] > 0
    assert result["peak_memory_bytes"] > 0
    (trial,) = client.trials(use["experiment_id"])
    said = "".join(line["text"] for line in client.get(f"/trials/{trial['id']}/logs")["lines"])
    assert "[setup] model model: digits version 1" in said
    (board,) = client.model_leaderboards("digits")
    # Models of other guides may have been judged by the same samples.
    (own,) = [row for row in board["rows"] if row["model"] == "digits"]
    better = [
        row for row in board["rows"] if row["metrics"]["accuracy"] > own["metrics"]["accuracy"]
    ]
    assert (own["version"], own["rank"]) == (1, 1 + len(better))
    card = client.model_version("digits:1")["card"]
    assert "## Evaluations" in card
