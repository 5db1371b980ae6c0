"""What people get wrong, through REST and through the command: one sentence, and nothing breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client, Refused
from support.stack import Stack, scripted

GOOD: dict[str, Any] = {
    "name": "x",
    "entrypoint": "train.py",
    "launcher": "direct",
    "resources": {"slots": 1},
}
REFUSED = [
    pytest.param({"resorces": {"slots": 1}}, "resorces", "resources", id="unknown key"),
    pytest.param({"resources": {"slotz": 1}}, "resources.slotz", "slots", id="unknown nested key"),
    pytest.param({"resources": {"slots": "two"}}, "resources.slots", "", id="wrong type"),
    pytest.param({"resources": {"slots": 10_000}}, "resources.slots", "", id="10,000 slots"),
    pytest.param({"resources": {"slots": 0}}, "resources.slots", "", id="no slots"),
    pytest.param({"entrypoint": "missing.py"}, "entrypoint", "train.py", id="missing entry point"),
    pytest.param({"name": ""}, "name", "", id="no name"),
]


@pytest.mark.parametrize(("change", "path", "hint"), REFUSED)
def test_it_is_refused_with_its_path(
    stack: Stack, tmp_path: Path, change: dict[str, Any], path: str, hint: str
) -> None:
    (tmp_path / "train.py").write_text("")
    document = tmp_path / "experiment.yaml"
    document.write_text(json.dumps({**GOOD, **change}))

    result = stack.cli("submit", str(document), "--json")
    assert result.returncode == 1, result.stdout
    error = json.loads(result.stderr)["error"]
    (field,) = (f for f in error["fields"] if f["path"] == path)
    assert hint in f"{field['message']} {field['hint']}"

    for_people = stack.cli("validate", str(document))
    assert for_people.returncode == 1
    assert path in for_people.stderr
    assert "Traceback" not in for_people.stderr


@pytest.mark.parametrize(
    "document", ["", ":", "a: [", "- 1", "null", "a: 1\na: 2", "x: &a [*a]", "\x01", "{" * 5000]
)
def test_text_that_is_no_document_is_refused_over_rest(client: Client, document: str) -> None:
    with pytest.raises(Refused) as caught:
        client.submit(document)
    assert caught.value.status == 422
    assert caught.value.message


def test_a_diverged_loss_is_shown_and_the_training_completes(client: Client) -> None:
    script = [{"train": {"epochs": 1, "steps_per_epoch": 6, "nan_at_step": 4}}]
    experiment = client.submit(scripted("diverged", script))
    assert client.wait(experiment["id"], timeout_s=60)["state"] == "COMPLETED"
    (trial,) = client.trials(experiment["id"])
    (series,) = client.get(f"/trials/{trial['id']}/series", name="train/loss", rank=0)["series"]
    assert series["last"][3] == "NaN"
    assert series["last"][4] == pytest.approx(0.2)


def test_a_log_line_of_50_mb_is_cut_and_the_rest_is_there(client: Client) -> None:
    script = [
        {"log": "before"},
        {"log": "x" * 1000, "raw": True, "repeat": 50_000},
        {"log": ""},
        {"log": "after"},
    ]
    experiment = client.submit(scripted("long-line", script))
    assert client.wait(experiment["id"], timeout_s=100)["state"] == "COMPLETED"
    (trial,) = client.trials(experiment["id"])
    lines = list(client.log_lines(trial["id"], ranks=[0], follow=True))
    texts = [line["text"] for line in lines]
    assert texts[0] == "before"
    assert texts[-1] == "after"
    assert any(line["cut"] for line in lines)
    assert max(map(len, texts)) <= 16_384


@pytest.mark.parametrize(
    ("action", "termination", "said"),
    [
        ({"exit": 7}, "user_error", "7"),
        ({"signal": "SIGABRT"}, "killed_by_signal", "SIGABRT"),
        ({"signal": "SIGKILL"}, "worker_killed", "SIGKILL"),
        ({"raise": "no such layer"}, "user_error", "no such layer"),
    ],
)
def test_a_worker_that_fails_is_named_with_its_cause(
    client: Client, action: dict[str, Any], termination: str, said: str
) -> None:
    script = [{**action, "ranks": [1]}, {"wait_for_stop": 60, "ranks": [0]}]
    restarts = {"user": 0, "infra": 0}
    experiment = client.submit(scripted("fails", script, slots=2, restarts=restarts))
    assert client.wait(experiment["id"], timeout_s=60)["state"] == "FAILED"
    (trial,) = client.trials(experiment["id"])
    assert trial["termination"] == termination
    detail = client.get(f"/trials/{trial['id']}")
    assert detail["attempts"][0]["root_rank"] == 1
    assert said in trial["reason"] + "\n".join(detail["attempts"][0]["root_log_tail"])


def test_more_slots_than_there_are_wait_with_a_reason(client: Client) -> None:
    experiment = client.submit(scripted("too-many", [], slots=64))
    try:
        preview = client.preview(scripted("too-many", [], slots=64))
        assert not preview["fits_now"]
        assert "64" in preview["fit_reason"]
    finally:
        client.stop(experiment["id"])
    assert client.wait(experiment["id"], timeout_s=60)["state"] == "CANCELED"
