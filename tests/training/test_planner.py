"""What the planner says of models, against the models themselves and against real trainings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks

from muster.document.codec import dump
from muster.document.train_config import ConfigError, TrainConfig, configure
from muster.training import models, tasks
from muster.training.data.shapes import shape_of
from muster.training.layer_table import layer_table
from muster_server.domain.insight.planner.traffic import traffic
from muster_server.services.documents import resolve as resolve_document
from muster_server.services.insight.planner import job_of
from muster_server.services.nodes.layer_tables import question_of, training_of

pytestmark = pytest.mark.torch

DEMO = Path(__file__).parents[2] / "examples" / "digits-ddp" / "experiment.yaml"
SHAPES = [
    ("gpt", "shakespeare", {"width": 32, "depth": 1}),
    ("gpt", "shakespeare", {"width": 64, "depth": 3, "context": 32, "heads": 2}),
    ("gpt", "shakespeare", {"width": 32, "depth": 1, "context": 16, "dropout": 0.1}),
    ("vit", "digits", {"width": 32, "depth": 2}),
    ("vit", "synthetic", {"width": 64, "depth": 1, "patch": 4}),
    ("mlp", "digits", {"width": 24, "depth": 3}),
    ("mlp", "synthetic", {"width": 64, "depth": 1}),
    ("cnn", "digits", {"width": 8, "depth": 1}),
    ("cnn", "synthetic", {"width": 16, "depth": 3}),
    ("cnn", "digits", {"width": 8, "depth": 2, "dropout": 0.5}),
    ("resnet", "digits", {"width": 12, "depth": 1}),
    ("resnet", "synthetic", {"width": 16, "depth": 2}),
]
NUM = 4
OWN = """
import torch
from torch import nn

def net(*, inputs, classes):
    return nn.Sequential(nn.Conv2d(inputs[0], 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.Flatten(), nn.Linear(8 * inputs[1] * inputs[2], classes))

class Tied(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.first = nn.Linear(inputs[1], inputs[1])
        self.second = nn.Linear(inputs[1], inputs[1])
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(inputs[1], inputs[1]).requires_grad_(False)
        self.head = nn.Linear(inputs[1], classes)

    def forward(self, x):
        return self.head(self.second(self.frozen(self.first(x[:, 0, 0]))))

def tied(*, inputs, classes):
    return Tied(inputs, classes)

def rates(*, inputs, classes):
    drops = [rate.item() for rate in torch.linspace(0, 0.5, 3)]
    return nn.Sequential(nn.Flatten(), *[nn.Dropout(rate) for rate in drops],
                         nn.Linear(64, classes))

def wrong(*, inputs, classes):
    raise ValueError("there is no such width")

class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1)) if x.sum() > 0 else x

def looks(*, inputs, classes):
    return Looks()

def samples():
    x, y = torch.rand(20, 3, 6, 6), torch.arange(20) % 4
    return {split: (x, y) for split in ("train", "val", "test")}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module with models, in the folder that we are in."""
    (tmp_path / "own_planned_code.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_planned_code", raising=False)
    return "own_planned_code"


def planned(document, hparams=None):
    """The job of a document as the server makes it, with the layers that a node lists for it."""
    config = resolve_document(document, []).config
    training = training_of(config, hparams or {})
    question = question_of(config, training, blob_sha256=None)
    table = layer_table(TrainConfig(**question.settings))
    return job_of(training, table, slots=config.resources.slots)


def built(document, hparams=None):
    """The model that the trainer makes of it."""
    config = resolve_document(document, []).config
    return tasks.make(configure(config, hparams or {}, slots=None), global_batch=2).model()


def document(trainer, **more):
    return json.dumps({"name": "planned", "trainer": trainer, **more})


def test_the_demo_is_planned_with_its_options():
    job = planned(DEMO.read_text())
    assert job.model.num_params == 510_474
    (gradients,) = traffic(job)
    assert gradients.num_bytes == 4 * 510_474


@pytest.mark.parametrize("model", ["cnn", "gpt", "mlp", "resnet", "vit"])
@pytest.mark.parametrize("settings", [{}, {"width": 48, "depth": 3}, {"heads": 2, "patch": 4}])
def test_parameters_are_those_of_the_model_wherever_its_settings_stand(model, settings):
    base = {"model": model, "data": "shakespeare" if model == "gpt" else "digits"}
    for given, hparams in (
        ({**base, **settings}, {}),
        ({**base, "options": settings}, {}),
        (base, settings),
    ):
        text = document(given)
        real = sorted(tuple(p.shape) for p in built(text, hparams).parameters())
        found = planned(text, hparams).model
        assert sorted(tuple(p.shape) for p in found.parameters) == real


def kept_bytes(model, x, y, *, bf16):
    """Of everything that autograd keeps of a forward, parameters and the batch left out, each once."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), x)}
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
def test_what_forward_keeps_is_as_described(model, data, settings):
    config = TrainConfig(model=model, data=data, **settings)
    shape = shape_of(config)
    real = models.build(config, inputs=shape.inputs, classes=shape.classes).train()
    x = torch.randn(NUM, *shape.inputs)
    y = torch.randint(0, shape.classes, (NUM,))
    if shape.predicts_tokens:
        x = y = torch.randint(0, shape.classes, (NUM, *shape.inputs))
    table = layer_table(config)
    assert sum(layer.flops for layer in table.layers) > 0
    for bf16 in (False, True):
        found = [layer.activations["bf16" if bf16 else "fp32"] for layer in table.layers]
        kept = sum(a.per_sample for a in found) * NUM + sum(a.once for a in found)
        assert kept == pytest.approx(kept_bytes(real, x, y, bf16=bf16), rel=0.01, abs=64)


@pytest.mark.parametrize(
    "config",
    [TrainConfig(data="digits"), TrainConfig(data="synthetic"), TrainConfig(data="shakespeare")],
    ids=lambda config: config.data,
)
def test_the_shapes_of_built_in_data_are_those_of_their_samples(config):
    from muster.training import data

    dataset, shape = data.load(config), shape_of(config)
    assert (shape.inputs, shape.classes) == (dataset.inputs, dataset.classes)
    assert (shape.predicts_tokens, not shape.type.is_floating_point) == (
        dataset.predicts_tokens,
        dataset.is_text,
    )


@pytest.mark.parametrize(
    ("trainer", "hparams"),
    [
        ({"model": "cnn", "options": {"width": 24, "depth": 3}}, {}),
        ({"model": "mlp", "width": 40}, {"depth": 3}),
        ({"model": "resnet", "options": {"width": 12}}, {}),
        ({"model": "vit", "depth": 1}, {"options": {"width": 16}}),
        ({"model": "gpt", "data": "shakespeare", "options": {"context": 16, "width": 16}}, {}),
        ({"model": "own_planned_code:net"}, {}),
        ({"model": "own_planned_code:tied"}, {}),
    ],
    ids=lambda value: value.get("model") if isinstance(value, dict) else None,
)
def test_a_real_ddp_training_sends_what_was_planned(start, tmp_path, own, trainer, hparams):
    settings = {"data": "digits", "steps": 4, "batch_size": 4, "test": False, **trainer}
    settings["options"] = {"rows_per_s": 0, **settings.get("options", {})}
    code = {"code": {"installed": str(tmp_path)}} if ":" in trainer["model"] else {}
    text = document(settings, resources={"slots": 2}, **code)
    config = dump(resolve_document(text, []).config)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "own_planned_code.py").write_text(OWN)
    job = start("job", workers=2, document=config, trainer=config["trainer"], hparams=hparams)
    rows = job.wait().rows(0)
    sent = {
        name.split("/")[2]: value
        for name, value in rows[4].items()
        if name.startswith("comm/world/") and name.endswith("/bytes")
    }
    expected = {}
    for one in traffic(planned(text, hparams)):
        expected[one.kind] = expected.get(one.kind, 0.0) + one.num_bytes
    assert sent["all_reduce"] == expected["all_reduce"]
    assert {k: v for k, v in sent.items() if k in expected} == expected


def test_shared_and_frozen_parameters_count_as_they_are(own):
    table = layer_table(TrainConfig(model=f"{own}:tied", data="digits"))
    real = [
        p.numel()
        for p in built(document({"model": f"{own}:tied"}, code={"installed": "/x"})).parameters()
    ]
    assert table.num_params == sum(real)
    assert table.param_bytes - table.trained_bytes == 4 * (64 + 8)


def test_a_constructor_may_look_at_values(own):
    assert layer_table(TrainConfig(model=f"{own}:rates", data="digits")).num_params == 650


def test_data_of_ones_own_have_their_own_shape(own):
    table = layer_table(TrainConfig(model=f"{own}:net", data=f"{own}:samples"))
    assert table.num_params == 8 * 3 * 9 + 8 + 16 + 8 * 36 * 4 + 4


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("wrong", ValueError, "there is no such width"),
        ("nothing", ConfigError, "has no function 'nothing'"),
        ("looks", ConfigError, "cannot be run on samples without values"),
    ],
)
def test_wrong_code_of_ones_own_says_what_is_wrong(own, name, kind, message):
    with pytest.raises(kind, match=message):
        layer_table(TrainConfig(model=f"{own}:{name}", data="digits"))
