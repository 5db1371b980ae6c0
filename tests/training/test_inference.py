"""Models rebuilt from the files of a version, and judged by samples."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from muster.document.inference import EvaluateSection
from muster.document.model_config import ModelConfig
from muster.document.train_config import ConfigError, resolve
from muster.inference import judging
from muster.inference.loading import CannotLoad, load
from muster.training import data, models

pytestmark = pytest.mark.torch


def saved(folder: Path, **trainer: Any) -> torch.nn.Module:
    """Leave a version in a folder, as an agent does; return the module that it was made from."""
    folder.mkdir(exist_ok=True)
    settings = resolve({"trainer": {"width": 16, "dropout": 0.5, **trainer}}, {}, seed=4)
    config = ModelConfig.of(settings)
    assert config.shape is not None
    assert config.classes is not None
    module = models.build(settings, inputs=config.shape, classes=config.classes)
    save_file(module.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(config.text())
    return module.eval()


@pytest.mark.parametrize("model", ["cnn", "gpt", "mlp", "resnet", "vit"])
def test_every_model_comes_back_as_it_was(model: str, tmp_path: Path) -> None:
    source = "shakespeare" if model == "gpt" else "digits"
    module = saved(tmp_path, model=model, data=source, heads=2, context=12)
    loaded = load(tmp_path)
    x = torch.randint(0, 256, (3, 12)) if model == "gpt" else torch.rand(3, 1, 8, 8)
    assert torch.equal(loaded.module(x), module(x)), "in eval mode, although it has a dropout"
    assert loaded.inputs == tuple(x.shape[1:])
    assert loaded.num_parameters == sum(p.numel() for p in module.parameters())


def test_what_cannot_be_rebuilt_says_why(tmp_path: Path) -> None:
    def why(folder: Path) -> str:
        with pytest.raises(CannotLoad) as refused:
            load(folder)
        return str(refused.value)

    assert "has no model.safetensors: it holds nothing" in why(tmp_path)
    torch.save({}, tmp_path / "model.pt")
    assert why(tmp_path).startswith("model.pt is not loaded: files of this kind can run code")
    saved(tmp_path, model="mlp")
    config = json.loads((tmp_path / "config.json").read_text())
    config["trainer"]["width"] = 20
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "1.bias is [16] instead of [20]" in why(tmp_path)
    config["trainer"] |= {"model": "mine:build", "width": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "there is no module 'mine'" in why(tmp_path)
    saved(tmp_path, model="mlp")
    manifest = {"files": {"model.safetensors": "0" * 64}}
    (tmp_path / ".muster-model.json").write_text(json.dumps(manifest))
    assert "is not the file of the version" in why(tmp_path)
    (tmp_path / ".muster-model.json").unlink()
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    assert "model.safetensors is damaged" in why(tmp_path)
    (tmp_path / "config.json").unlink()
    assert "has no config.json" in why(tmp_path)
    assert "Register its checkpoint again" in why(tmp_path)


def judged(folder: Path, **section: Any) -> tuple[dict[str, float], list[list[int]]]:
    loaded = load(folder)
    wanted = EvaluateSection(model="digits", **section)
    dataset = judging._dataset(wanted, loaded)
    found = judging._judged(
        wanted,
        loaded,
        dataset,
        torch.device("cpu"),
        *dataset.split(wanted.split),
        stop=lambda: None,
    )
    assert found is not None
    return found[0], found[2]


def test_metrics_are_those_of_a_plain_computation(tmp_path: Path) -> None:
    module = saved(tmp_path, model="mlp")
    metrics, confusion = judged(tmp_path, data="digits", batch_size=7)
    dataset = data.load(resolve({"trainer": {"data": "digits"}}, {}))
    with torch.inference_mode():
        logits = module(dataset.test_x)
    right = (logits.argmax(-1) == dataset.test_y).float().mean().item()
    assert metrics["accuracy"] == pytest.approx(right)
    assert metrics["accuracy_low"] < right < metrics["accuracy_high"]
    assert metrics["log_loss"] == pytest.approx(F.cross_entropy(logits, dataset.test_y).item())
    assert sum(map(sum, confusion)) == len(dataset.test_y)
    from sklearn import metrics as metrics_of

    f1 = metrics_of.f1_score(dataset.test_y, logits.argmax(-1), average="macro", zero_division=0)
    # Classes that are neither there nor predicted count in neither.
    assert metrics["macro_f1"] == pytest.approx(f1)
    again, _ = judged(tmp_path, data="digits", batch_size=180)
    assert again["ece"] == pytest.approx(metrics["ece"])


def test_a_language_model_is_judged_in_bits_per_byte(tmp_path: Path) -> None:
    saved(tmp_path, model="gpt", data="shakespeare", context=16, heads=2)
    metrics, confusion = judged(tmp_path, data="shakespeare", split="val")
    assert metrics["bits_per_byte"] == pytest.approx(metrics["loss"] / math.log(2))
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    assert 7 < metrics["bits_per_byte"] < 9, "untrained: about one of 256 bytes"
    assert confusion == []
    with pytest.raises(ConfigError, match="digits has samples of numbers"):
        judged(tmp_path, data="digits")


def test_measurements_are_judged_by_their_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "house.py").write_text(
        "import torch\n"
        "def build(*, inputs, classes):\n    return torch.nn.Linear(inputs[0], 1)\n"
        "def prices():\n"
        "    x = torch.arange(12.).view(6, 2)\n    y = x.sum(1) + torch.tensor([1., -1.] * 3)\n"
        "    return {name: (x, y) for name in ('train', 'val', 'test')}\n"
    )
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "version"
    folder.mkdir()
    config = ModelConfig.of(resolve({"trainer": {"model": "mlp"}}, {}))
    config = dataclasses.replace(
        config, trainer={**config.trainer, "model": "house:build"}, data="house:prices", shape=(2,)
    )
    (folder / "config.json").write_text(config.text())
    weights = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    save_file(weights, folder / "model.safetensors")
    metrics, _ = judged(folder, data="house:prices", batch_size=4)
    assert (metrics["rmse"], metrics["mae"]) == pytest.approx((1, 1))
    wanted = torch.arange(12.0).view(6, 2).sum(1) + torch.tensor([1.0, -1.0] * 3)
    spread = (wanted - wanted.mean()).square().sum().item()
    assert metrics["r2"] == pytest.approx(1 - 6 / spread)


def test_the_digest_of_data_is_that_of_their_values() -> None:
    x, y = torch.rand(5, 3), torch.arange(5)
    digest = judging.data_digest(x, y)
    assert judging.data_digest(x.t().contiguous().t(), y.clone()) == digest
    assert judging.data_digest(x.view(5, 3, 1), y) != digest
    assert judging.data_digest(x, y.flip(0)) != digest
