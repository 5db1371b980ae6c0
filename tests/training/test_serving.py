"""The worker of a deployment, without a network: what it answers, and when it refuses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import save_file

import muster
from muster.document.experiment import ExperimentConfig
from muster.document.inference import ServeSection, UsedModel
from muster.document.model_config import ModelConfig
from muster.document.train_config import TrainConfig
from muster.inference.launching import ModelJob
from muster.inference.loading import load
from muster.inference.serve import ServingEngine, load_engine, make_app
from support.client import make_client, running

KEY = "secret"


def write(folder: Path, **settings: Any) -> Path:
    from muster.training.models import build

    config = ModelConfig.of(TrainConfig(width=16, depth=1, heads=2, **settings))
    assert config.shape is not None
    assert config.classes is not None
    module = build(config.train_config(), inputs=config.shape, classes=config.classes)
    save_file(module.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(config.text())
    return folder


def engine(folder: Path, **section: Any) -> ServingEngine:
    key = hashlib.sha256(KEY.encode()).hexdigest()
    found = load_engine(
        ModelJob(
            run=muster.init(),
            section=ServeSection(model="m:3", name="digits", key_sha256=key, **section),
            used=UsedModel(model="m", version=3),
            folder=folder,
            config=ExperimentConfig(name="serve"),
        )
    )
    found.is_ready = True
    return found


@contextmanager
def asking(found: ServingEngine) -> Iterator[httpx.Client]:
    app = make_app(found)
    with running(app) as portal, make_client(app, portal) as client:
        client.headers["x-muster-key"] = KEY
        yield client


@pytest.fixture
def images(tmp_path: Path) -> Iterator[tuple[httpx.Client, ServingEngine, Path]]:
    found = engine(write(tmp_path, model="mlp", data="digits"), max_body_bytes=20_000)
    with asking(found) as client:
        yield client, found, tmp_path


def infer(rows: torch.Tensor, datatype: str = "FP32") -> dict[str, Any]:
    tensor = {"name": "input", "shape": list(rows.shape), "datatype": datatype}
    return {"inputs": [{**tensor, "data": rows.flatten().tolist()}]}


def test_an_inference_is_that_of_the_module(
    images: tuple[httpx.Client, ServingEngine, Path],
) -> None:
    client, _, folder = images
    rows = torch.rand(3, 1, 8, 8)
    with torch.inference_mode():
        expected = load(folder).module(rows)
    answer = client.post("/v2/models/digits/infer", json=infer(rows))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["model_name"], found["model_version"]) == ("digits", "3")
    (output,) = found["outputs"]
    torch.testing.assert_close(torch.tensor(output["data"]).view(output["shape"]), expected)
    by_version = client.post("/v2/models/digits/versions/3/infer", json=infer(rows))
    assert by_version.json()["outputs"] == found["outputs"]
    assert client.get("/v2/models/digits").json()["inputs"][0]["shape"] == [-1, 1, 8, 8]


def test_what_cannot_be_answered_is_refused(
    images: tuple[httpx.Client, ServingEngine, Path],
) -> None:
    client, found, _ = images
    path = "/v2/models/digits/infer"
    assert client.post(path, content=b"{").status_code == 400
    assert client.post(path, json=infer(torch.rand(1, 3))).status_code == 400
    assert client.post(path, content=b" " * 20_001).status_code == 413
    assert client.post("/v2/models/other/infer", json={}).status_code == 404
    assert client.post("/v2/models/digits/versions/2/infer", json={}).status_code == 404
    assert client.get("/v2/models/digits", headers={"x-muster-key": "wrong"}).status_code == 401
    assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 404
    assert client.get("/v2/health/ready", headers={"x-muster-key": ""}).status_code == 200
    found.is_ready = False
    assert client.get("/v2/health/ready").status_code == 503
    assert client.get("/v2/health/live").status_code == 200
    assert found.stats.num_errors == 0


def test_a_language_model_completes_and_streams_the_same_text(tmp_path: Path) -> None:
    folder = write(tmp_path, model="gpt", data="shakespeare", context=8)
    with asking(engine(folder)) as client:
        assert client.get("/v1/models").json()["data"][0]["id"] == "digits"
        wanted = {"prompt": "To be, or not", "max_tokens": 12, "temperature": 0}
        whole = client.post("/v1/completions", json=wanted)
        assert whole.status_code == 200, whole.text
        assert whole.json()["usage"]["completion_tokens"] == 12
        module = load(folder).module
        tokens = list(b"To be, or not")
        for _ in range(12):
            with torch.inference_mode():
                tokens.append(int(module(torch.tensor([tokens[-8:]]))[0, -1].argmax()))
        text = bytes(tokens[13:]).decode("utf-8", "replace")
        assert whole.json()["choices"][0]["text"] == text
        streamed = client.post("/v1/completions", json={**wanted, "stream": True}).text
        frames = [line[6:] for line in streamed.splitlines() if line]
        assert frames[-1] == "[DONE]"
        pieces = [json.loads(frame)["choices"][0] for frame in frames[:-1]]
        assert "".join(piece["text"] for piece in pieces) == text
        assert pieces[-1]["finish_reason"] == "length"
        rows = torch.randint(0, 256, (2, 5))
        answer = client.post("/v2/models/digits/infer", json=infer(rows, "INT64"))
        assert answer.json()["outputs"][0]["shape"] == [2, 5, 256]
        too_long = infer(torch.zeros(1, 9, dtype=torch.int64), "INT64")
        assert client.post("/v2/models/digits/infer", json=too_long).status_code == 400
