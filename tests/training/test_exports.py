"""Exports of checkpoints of every kind: loaded again as their users do, and compared with the checkpoint."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import muster
from muster.document.model_config import CONFIG_FILE, WEIGHTS_FILE, ModelConfig
from muster.document.train_config import TrainConfig, resolve
from muster.inference import export, graphs, loading
from muster.inference.comparing import recorded_inputs
from muster.sdk import shards
from muster.training import models
from muster.training.saving import files
from support.training import forked
from support.training.jobs import Job, wait_for
from support.training.strategies import Case, document

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).with_name("workers") / "strategies.py"
SOURCES = str(Path(muster.__file__).parents[1])
GPT = {
    "model": "gpt", "data": "shakespeare", "width": 16, "depth": 2, "heads": 4, "context": 8,
    "steps": 3, "test": False, "validate_every": {"steps": 10},
}  # fmt: skip
CASES = [
    Case("single", 1, {"kind": "single"}, trainer=GPT),
    Case("ddp", 2, {"kind": "ddp"}, trainer=GPT),
    Case("fsdp-of-four", 4, {"kind": "fsdp"}, trainer=GPT),
    Case("tp", 2, {"kind": "tp"}, trainer=GPT),
    Case("pp", 2, {"kind": "pp", "schedule": "1f1b"}, trainer=GPT),
    Case("fsdp-tp", 4, {"kind": "mesh", "mesh": {"tp": 2}}, trainer=GPT),
]
EXACT = {"safetensors": 0.0, "hf": 1e-5, "pt2": 0.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small gpt, trained in every way: <name>/whole/checkpoints."""
    folder = tmp_path_factory.mktemp("exports")
    cases = [
        {"name": c.name, "world": c.world, "document": document(c), "resumed": False} for c in CASES
    ]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        input=json.dumps(cases), capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    return folder


def version_of(checkpoint: Path, config: TrainConfig, folder: Path) -> Path:
    """The files of a version, as a node makes them of a checkpoint."""
    folder.mkdir()
    (folder / CONFIG_FILE).write_text(ModelConfig.of(config).text())
    with (folder / WEIGHTS_FILE).open("wb") as out:
        out.writelines(shards.exported(checkpoint)[1])
    return folder


def untrained(folder: Path, **settings: Any) -> Path:
    """The files of a version with random weights, biases included."""
    config = TrainConfig(**settings)
    described = ModelConfig.of(config)
    assert described.shape is not None
    assert described.classes is not None
    module = models.build(config, inputs=described.shape, classes=described.classes)
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: tensor + 0.05 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in module.state_dict().items()
    }
    folder.mkdir()
    save_file(weights, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(described.text())
    return folder


def made(version: Path, *names: export.ExportFormat) -> list[dict[str, Any]]:
    """Exports of a version in the current folder."""
    model, formats = loading.load(version), export.formats_of(version)
    inputs = recorded_inputs(model)
    return [export.make(name, formats[name], model, inputs, version=version) for name in names]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_checkpoint_of_any_strategy_is_exported(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = trained / case.name / "whole" / "checkpoints" / "step-00000003"
    version = version_of(checkpoint, resolve(document(case), {}), tmp_path / "version")
    saved = files.Saved(checkpoint)
    weights = {name: saved.read(f"model/{name}") for name in saved.names("model/")}
    found = load_file(version / WEIGHTS_FILE)
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)

    for facts in made(version, "safetensors", "hf", "pt2"):
        assert facts["state"] == "done", facts["message"]
        assert facts["max_abs"] <= EXACT[facts["format"]]
        assert facts["agreement"] > 0.99

    reference = loading.load(tmp_path / "exports" / "safetensors").module
    x = torch.randint(0, 256, (3, 5), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = reference(x)
        program = torch.export.load(tmp_path / "exports" / "pt2" / "model.pt2").module()
        assert torch.equal(program(x), wanted)
        assert torch.allclose(gpt2(tmp_path / "exports" / "hf", x), wanted, atol=1e-5)


def gpt2(folder: Path, tokens: Tensor) -> Tensor:
    """GPT-2 as its authors describe it, token by token; the weights are [in, out]."""
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["activation_function"]) == ("gpt2", "gelu")
    assert config["tie_word_embeddings"] is False
    w = {n.removeprefix("transformer."): t for n, t in load_file(folder / WEIGHTS_FILE).items()}
    width, heads = config["n_embd"], config["n_head"]
    size = width // heads

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean()
        scale = (centred.square().mean() + config["layer_norm_epsilon"]).sqrt()
        return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(name: str, x: Tensor) -> Tensor:
        return torch.einsum("i,io->o", x, w[f"{name}.weight"]) + w[f"{name}.bias"]

    out = []
    for row in tokens:
        past: list[list[Tensor]] = [[] for _ in range(config["n_layer"])]
        logits = []
        for position, token in enumerate(row):
            x = w["wte.weight"][token] + w["wpe.weight"][position]
            for i in range(config["n_layer"]):
                qkv = linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x))
                past[i].append(qkv)
                mixed = []
                for head in range(heads):
                    q, k, v = (
                        slice(n * width + head * size, n * width + (head + 1) * size)
                        for n in range(3)
                    )
                    scores = torch.stack([qkv[q] @ before[k] for before in past[i]])
                    shares = (scores / math.sqrt(size)).softmax(0)
                    mixed.append(
                        sum(s * before[v] for s, before in zip(shares, past[i], strict=True))
                    )
                x = x + linear(f"h.{i}.attn.c_proj", torch.cat(mixed))
                up = linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x))
                gelu = up * (1 + torch.erf(up / math.sqrt(2))) / 2
                x = x + linear(f"h.{i}.mlp.c_proj", gelu)
            logits.append(w["lm_head.weight"] @ norm("ln_f", x))
        out.append(torch.stack(logits))
    return torch.stack(out)


IMAGES = {"data": "digits", "width": 8, "depth": 1, "dropout": 0.1}
BUILT_IN = [
    {"model": "mlp", **IMAGES},
    {"model": "cnn", **IMAGES},
    {"model": "resnet", **IMAGES},
    {"model": "vit", **IMAGES},
    {**GPT, "depth": 1, "dropout": 0.1, "validate_every": None},
]


@pytest.mark.parametrize("settings", BUILT_IN, ids=lambda settings: settings["model"])
def test_every_built_in_model_becomes_a_program_and_onnx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    version = untrained(tmp_path / "version", **settings)
    program, model = made(version, "pt2", "onnx")
    for facts in (program, model):
        assert facts["state"] == "done", facts["message"]
        names = [file["path"] for file in facts["files"]]
        assert CONFIG_FILE in names
        assert facts["size_bytes"] == sum(file["size_bytes"] for file in facts["files"])
    assert program["max_abs"] == 0.0
    assert model["compared_by"].startswith("onnxruntime")
    assert model["max_abs"] <= 1e-5
    with zipfile.ZipFile(tmp_path / "exports" / "pt2" / "model.pt2") as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {"model"}
        entries = [archive.read(name) for name in archive.namelist()]
    for content in (*entries, (tmp_path / "exports" / "onnx" / "model.onnx").read_bytes()):
        assert SOURCES.encode() not in content, "no path of this machine"
    dims = onnx.load(tmp_path / "exports" / "onnx" / "model.onnx").graph.input[0].type.tensor_type
    varying = [dim.dim_param for dim in dims.shape.dim if dim.dim_param]
    assert varying == list(graphs.limits(loading.load(version)))


def test_weights_too_large_for_one_onnx_file_have_one_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(graphs, "EXTERNAL_DATA_BYTES", 1000)
    (facts,) = made(untrained(tmp_path / "version", model="mlp", data="digits"), "onnx")
    assert (facts["state"], facts["verdict"]) == ("done", "within")
    assert [f["path"] for f in facts["files"]] == [CONFIG_FILE, "model.onnx", "model.onnx.data"]


def test_an_export_beyond_its_tolerance_fails_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    version = untrained(tmp_path / "version", model="mlp", data="digits")
    model, formats = loading.load(version), export.formats_of(version)

    def damaged(model: loading.LoadedModel, folder: Path) -> None:
        weights = load_file(version / WEIGHTS_FILE)
        weights["1.weight"] += 0.1
        save_file(weights, folder / WEIGHTS_FILE)

    changed = dataclasses.replace(formats["safetensors"], write=damaged)
    facts = export.make("safetensors", changed, model, recorded_inputs(model), version=version)
    assert (facts["state"], facts["verdict"]) == ("failed", "beyond")
    assert facts["max_abs"] > 1e-3
    assert "its answers are not those of the checkpoint: max difference" in facts["message"]
    assert not (tmp_path / "exports" / "safetensors").exists()
    assert not (tmp_path / ".exporting" / "safetensors").exists()


def test_inputs_are_recorded_rows_or_say_why_not(tmp_path: Path) -> None:
    model = loading.load(untrained(tmp_path / "digits", model="mlp", data="digits"))
    rows = recorded_inputs(model)
    assert rows.source == "180 validation and 76 training samples of digits"
    assert rows.sha256 == recorded_inputs(model).sha256
    config = dataclasses.replace(model.config, data="nowhere:rows")
    others = recorded_inputs(dataclasses.replace(model, config=config))
    assert others.x.shape == rows.x.shape
    assert others.source.startswith(
        "256 random samples, because nowhere:rows cannot be loaded here"
    )


# ---------------------------------------------------------------- the job


def start(folder: Path, version: Path, *formats: str, **environ: str) -> Job:
    """Start the job on a version, as an agent does."""
    folder.mkdir()
    used = {"model": "digits", "version": 3, "digest": f"sha256:{'0' * 64}"}
    config = {"export": {"model": "digits:3", "formats": formats}, "models": {"model": used}}
    (folder / "config.json").write_text(json.dumps({"hparams": {}, "config": config, "seed": 0}))
    base = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "PYTEST_"))}
    own = {
        "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
        "MUSTER_CONFIG_FILE": str(folder / "config.json"),
        "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
        "MUSTER_MODEL_MODEL": str(version),
        **environ,
    }  # fmt: skip
    parent = forked.parent(base | {"OMP_NUM_THREADS": "1"})
    return Job(folder, parent.start(["-m", "muster.inference.export"], [own], folder=folder))


def test_the_job_reports_what_it_made(tmp_path: Path) -> None:
    version = untrained(tmp_path / "version", model="mlp", data="digits")
    job = start(tmp_path / "job", version, "safetensors", "pt2").wait()
    result = job.lines("model_result")[-1]["result"]
    assert [(e["format"], e["state"], e["verdict"]) for e in result["exports"]] == [
        ("safetensors", "done", "equal"),
        ("pt2", "done", "equal"),
    ]
    assert (result["torch"], result["inputs"]["rows"]) == (torch.__version__, 256)
    there = {p.name for p in (job.folder / "exports" / "pt2").iterdir()}
    assert there == {file["path"] for file in result["exports"][1]["files"]}
    assert not (job.folder / ".exporting").exists()


def test_what_cannot_be_exported_says_what_can(tmp_path: Path) -> None:
    version = untrained(tmp_path / "version", model="mlp", data="digits")
    job = start(tmp_path / "job", version, "hf")
    output, _ = job.workers[0].communicate(timeout=60)
    assert job.workers[0].returncode == 2
    assert "hf is possible for model: gpt" in output
    assert not (job.folder / "exports").exists()


def test_a_job_that_is_stopped_leaves_nothing_half_done(tmp_path: Path) -> None:
    version = untrained(tmp_path / "version", model="vit", data="digits", width=64, depth=6)
    job = start(tmp_path / "job", version, "safetensors", "onnx")
    output = job.folder / "output-0.txt"
    wait_for(lambda: output.exists() and "onnx: writing" in output.read_text())
    job.workers[0].send_signal(signal.SIGTERM)
    job.wait()
    assert "stopped; what was not finished is removed" in output.read_text()
    assert [p.name for p in (job.folder / "exports").iterdir()] == ["safetensors"]
    assert not (job.folder / ".exporting").exists()
