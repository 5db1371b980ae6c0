"""The guide to models, as a reader follows it. See guides.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from guides import last_id, run_guide, shell

from support.stack import Stack, wait_for

pytestmark = [pytest.mark.timeout(300), pytest.mark.torch]


def test_the_best_of_a_search_is_registered_named_promoted_and_pulled(
    open_stack: Stack, tmp_path: Path
) -> None:
    experiment_id = last_id(open_stack) + 1
    run_guide(open_stack, "models.md", tmp_path)
    manifest = json.loads((tmp_path / "served/.muster-model.json").read_text())
    assert (manifest["model"], manifest["version"]) == ("digits", 1)
    header = (tmp_path / "served/model.safetensors").read_bytes()
    assert b'"dtype":"F32"' in header[: 8 + int.from_bytes(header[:8], "little")]
    assert list((tmp_path / "pulled-models").glob("*/*"))
    with open_stack.client() as client:

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
    refused = shell(open_stack, f"muster delete {experiment_id} --yes", tmp_path)
    assert "version 1 of model digits" in refused.stderr
