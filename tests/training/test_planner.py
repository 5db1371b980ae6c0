"""What the planner says of the built-in models, against the models themselves."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks

from muster.training import models
from muster.training.config import TrainConfig
from muster_server.domain.planner.models import describe

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]  # importing torch on a busy machine

SHAPES = [
    ("gpt", "shakespeare", {"width": 32, "depth": 1}),
    ("gpt", "shakespeare", {"width": 64, "depth": 3, "context": 32, "heads": 2}),
    ("vit", "digits", {"width": 32, "depth": 2}),
    ("vit", "synthetic", {"width": 64, "depth": 1, "patch": 4}),
    ("mlp", "digits", {"width": 24, "depth": 3}),
    ("mlp", "synthetic", {"width": 64, "depth": 1}),
    ("cnn", "digits", {"width": 8, "depth": 1}),
    ("cnn", "synthetic", {"width": 16, "depth": 3}),
    ("resnet", "digits", {"width": 12, "depth": 1}),
    ("resnet", "synthetic", {"width": 16, "depth": 2}),
]
NUM = 4


def both(model, data, settings):
    config = TrainConfig(model=model, data=data, **settings)
    inputs = {"digits": (1, 8, 8), "synthetic": (1, 16, 16)}.get(data, (config.context,))
    classes = 256 if data == "shakespeare" else 10
    built = models.build(config, inputs=inputs, classes=classes)
    described = describe(
        model, data, width=config.width, depth=config.depth, heads=config.heads,
        context=config.context, patch=config.patch,
    )  # fmt: skip
    if data == "shakespeare":
        batch = torch.randint(0, classes, (2, NUM, *inputs))
        return built, described, batch[0], batch[1]
    return built, described, torch.randn(NUM, *inputs), torch.randint(0, classes, (NUM,))


def kept_bytes(model, x, y, *, bf16):
    """Of everything that autograd keeps of a forward, parameters left out, each once."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)  # alive: no address comes twice
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            output = model(x)
        F.cross_entropy(output.float().flatten(0, -2), y.flatten())
    return sum(size for size, _ in kept.values())


@pytest.mark.parametrize(("model", "data", "settings"), SHAPES)
def test_parameters_and_what_forward_keeps_are_as_described(model, data, settings):
    built, described, x, y = both(model, data, settings)
    assert described.num_params == sum(p.numel() for p in built.parameters())
    assert sorted(described.tensors) == sorted(p.numel() for p in built.parameters())
    kept = sum(layer.saved_bytes("fp32") for layer in described.layers) * NUM
    # Besides: positions, and the loss's own numbers, a few bytes of no sample.
    assert kept == pytest.approx(kept_bytes(built, x, y, bf16=False), rel=0.02)
    casts = 2 * sum(layer.cast for layer in described.layers)
    kept = sum(layer.saved_bytes("bf16") for layer in described.layers) * NUM + casts
    assert kept == pytest.approx(kept_bytes(built, x, y, bf16=True), rel=0.05)
