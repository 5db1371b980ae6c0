"""What the built-in trainer would refuse is refused when a document is read."""

from __future__ import annotations

import dataclasses

import pytest

from muster.document import trainer_settings as settings
from muster.document.train_config import ConfigError, TrainConfig
from muster.document.train_config import resolve as trainer_resolve
from muster_server.domain.messages import english
from muster_server.domain.search import sampling
from muster_server.services.documents import resolve, search_spec

RANDOM = "search: {method: random, trials: 4, metric: val/loss, goal: min}\n"
VIT = "name: x\ntrainer: {model: vit}\n"
GPT = "name: x\ntrainer: {model: gpt, data: shakespeare}\n"


def problems(text, *overrides):
    return [(p.path, english(p.message), p.hint or "") for p in resolve(text, overrides).problems]


@pytest.mark.parametrize(
    ("space", "path", "message", "hint"),
    [
        ("learning_rate: {log: [1e-3, 0.1]}", "learning_rate", "does not know", "mean 'lr'"),
        ("learning-rate: 0.1", "learning-rate", "does not know", "mean 'lr'"),
        ("batchsize: {choice: [8, 16]}", "batchsize", "does not know", "mean 'batch_size'"),
        ("opt: {choice: [sgd, adamw]}", "opt", "does not know 'opt'", "mean"),
        ("xyz: 1", "xyz", "does not know 'xyz'", "known are augment, "),
        ("optim: {lr: {log: [1e-3, 0.1]}}", "optim.lr", "in a group", "write lr at the top"),
        ("options: {rows: 3}", "options.rows", "does not know 'rows'", "'rows_per_s'"),
        ("lr: {choice: [0.1, fast]}", "lr", "expected a number, got 'fast'", ""),
        ("lr: {uniform: [-0.1, 0.1]}", "lr", "-0.1 is below 0", ""),
        ("lr: {log: [1, 5000]}", "lr", "5000 is above 1000", ""),
        ("dropout: {uniform: [0, 1]}", "dropout", "1 must be below 1", ""),
        ("width: {uniform: [16, 64]}", "width", "draws fractions (uniform)", "{int: [16, 64]}"),
        ("depth: {log: [1, 8]}", "depth", "fractions (log)", "{int: [1, 8], log: true}"),
        ("batch_size: {choice: [0, 8]}", "batch_size", "0 is below 1", ""),
        ("width: 2.5", "width", "expected a whole number, got 2.5", ""),
        ("augment: {choice: [0, 1]}", "augment", "expected true or false", ""),
        ("augment: {int: [0, 1]}", "augment", "draws numbers: expected true", "{choice: "),
        ("optimizer: {choice: [sgd, adam]}", "optimizer", "'adam' is none of", "mean 'adamw'"),
        ("optimizer: {int: [1, 2]}", "optimizer", "draws numbers: expected one of adamw", ""),
        ("early_stopping: {wait: 3}", "early_stopping.wait", "mapping with goal", ""),
        (
            "beta1: {uniform: [0.1, 0.9], when: {opt: b}}\n  opt: {choice: [a, b]}",
            "opt",
            "does not know",
            "",
        ),
    ],
)
def test_a_hyperparameter_is_named_with_what_would_work(space, path, message, hint):
    found = problems(f"name: x\ntrainer: {{}}\n{RANDOM}hyperparameters:\n  {space}\n")
    paths = [p for p, _, _ in found]
    assert f"hyperparameters.{path}" in paths, found
    _, said, remedy = found[paths.index(f"hyperparameters.{path}")]
    assert message in said
    assert hint in remedy


@pytest.mark.parametrize(
    ("document", "path", "message", "hint"),
    [
        (
            VIT + "hyperparameters: {heads: {choice: [4, 5]}}\n",
            "heads",
            "among 5 heads",
            "width 32",
        ),
        (
            VIT + "hyperparameters: {heads: {choice: [5]}}\n",
            "heads",
            "32 cannot be divided evenly among 5 heads (with heads 5)",
            "use 30 or 35",
        ),
        (
            VIT + "hyperparameters: {width: {int: [32, 64]}}\n",
            "width",
            "25 of 33|24 of 33",
            "step: 4",
        ),
        (
            VIT + "hyperparameters: {width: {int: [8, 64], step: 8}, heads: {choice: [2, 16]}}\n",
            "width",
            "8 cannot be divided evenly among 16 heads (with width 8, heads 16)",
            '["width % heads == 0"]',
        ),
        (
            VIT + "hyperparameters: {patch: {int: [1, 3]}}\n",
            "patch",
            "patches of 3",
            "1, 2, 4 or 8",
        ),
        (
            "name: x\ntrainer: {}\nhyperparameters: {model: {choice: [cnn, gpt]}}\n",
            "model",
            "gpt reads texts, and digits holds images; so it is in 1 of 2 combinations",
            "shakespeare",
        ),
        (
            "name: x\ntrainer: {optimizer: sgd, nesterov: true}\n"
            "hyperparameters: {momentum: {uniform: [0, 0.9]}}\n",
            "momentum",
            "needs a momentum",
            "0.9",
        ),
        (
            GPT + "resources: {slots: 4}\nstrategy: {kind: tp}\n"
            "hyperparameters: {heads: {choice: [2, 4]}}\n",
            "heads",
            "2 heads cannot be shared out evenly to tp 4 workers",
            "use 4 heads",
        ),
        (
            GPT + "resources: {slots: 4}\nstrategy: {kind: pp}\n"
            "hyperparameters: {depth: {int: [2, 8]}}\n",
            "depth",
            "2 blocks are too few for 4 stages",
            "at least 4 blocks",
        ),
        (
            "name: x\ntrainer: {data: shakespeare, model: gpt}\nresources: {slots: 2}\n"
            "strategy: {kind: tp}\n"
            "hyperparameters: {model: {choice: [gpt, mlp]}}\n",
            "model",
            "mlp reads images",
            "",
        ),
    ],
)
def test_combinations_that_cannot_be_built_are_refused(document, path, message, hint):
    found = problems(document + RANDOM)
    assert found[0][0] == f"hyperparameters.{path}", found
    assert any(part in found[0][1] for part in message.split("|")), found
    assert hint in found[0][2], found


@pytest.mark.parametrize(
    "document",
    [
        VIT + "hyperparameters: {width: {int: [32, 64], step: 4}, heads: {choice: [1, 2, 4]}}\n",
        # What a constraint leaves out is never drawn.
        VIT
        + "hyperparameters: {width: {int: [8, 64], step: 8}, heads: {choice: [2, 16]}}\n"
        + "search: {method: random, trials: 4, constraints: [width % heads == 0]}\n",
        # Heads that are there with the vit alone, and a width that is there without it.
        "name: x\ntrainer: {}\nhyperparameters: {model: {choice: [cnn, vit]},\n"
        "  heads: {choice: [2, 8], when: {model: vit}},\n"
        "  width: {int: [5, 50], when: {model: cnn}}}\n",
        "name: x\ntrainer: {}\nhyperparameters: {data: {choice: [digits, synthetic]}, lr: 1}\n",
        "name: x\ntrainer: {}\nhyperparameters: {options: {rows_per_s: 0}, decay_at: [0.1, 0.2],\n"
        "  early_stopping: {patience: {int: [1, 4]}}, batch_size: auto}\n",
        "name: x\ntrainer: {model: 'a:b', data: 'c:d'}\ncode: {path: .}\n"
        "hyperparameters: {heads: {choice: [3, 5]}}\n",
    ],
)
def test_what_can_be_built_is_accepted(document):
    text = document if "\nsearch:" in document else document + RANDOM
    assert problems(text) == []


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        ("val/acc", "did you mean 'val/accuracy'? Validations report val/loss, val/accuracy"),
        ("loss", "did you mean 'val/loss'"),
        ("val_loss", "did you mean 'val/loss'"),
        ("accuracy", "did you mean 'val/accuracy'"),
        ("val/perplexity", "validations report val/loss, val/accuracy"),
        ("quality", "validations report val/loss, val/accuracy"),
    ],
)
def test_the_metric_is_one_that_the_task_reports(metric, hint):
    space = "hyperparameters: {lr: {log: [1e-3, 0.1]}}\n"
    search = f"search: {{method: random, trials: 4, metric: {metric}, goal: min}}\n"
    [(path, message, remedy)] = problems(f"name: x\ntrainer: {{}}\n{space}{search}")
    assert (path, message) == (
        "search.metric",
        f"{metric} is no metric that the built-in trainer reports",
    )
    assert hint in remedy


def test_metrics_of_texts_of_own_data_and_of_several_objectives():
    assert problems(GPT + RANDOM.replace("val/loss", "val/perplexity")) == []
    own = "name: x\ntrainer: {data: 'd:load'}\ncode: {path: .}\n"
    assert problems(own + RANDOM.replace("val/loss", "val/perplexity")) == []
    assert problems(own + RANDOM.replace("val/loss", "throughput/samples_per_s")) == []
    two = (
        "name: x\ntrainer: {}\nsearch: {method: random, trials: 2, objectives: "
        "[{metric: val/los, goal: min}, {metric: test/accuracy, goal: max}]}\n"
    )
    assert [path for path, _, _ in problems(two)] == ["search.objectives.0.metric"]
    script = "name: x\nentrypoint: train.py\n"
    assert problems(script + RANDOM.replace("val/loss", "anything")) == []


def test_options_of_the_trainer_are_checked_too():
    [(path, message, hint)] = problems("name: x\ntrainer: {options: {rows_per_sec: 3}}")
    assert (path, hint) == ("trainer.options.rows_per_sec", "did you mean 'rows_per_s'?")
    assert "does not know" in message
    [(path, message, _)] = problems("name: x\ntrainer: {model: vit, options: {heads: 5}}")
    assert (path, message) == ("trainer.width", "32 cannot be divided evenly among 5 heads")
    assert problems("name: x\ntrainer: {options: {inject: [{rank: 1, ms: 3}]}}") == []


def test_every_default_of_the_trainer_passes_its_own_checks():
    defaults = {f.name: f.default for f in dataclasses.fields(TrainConfig)}
    for name in settings.SETTINGS:
        default = list(defaults[name]) if name == "decay_at" else defaults[name]
        assert settings.check(name, default) is None, name


def test_what_is_accepted_is_what_the_trainer_starts_with():
    """Every point that an accepted space may draw is understood, and no refused one is."""
    space = {
        "model": {"choice": ["cnn", "mlp", "vit"]},
        "width": {"int": [8, 64], "step": 8},
        "heads": {"choice": [2, 4, 8]},
        "patch": {"choice": [1, 2, 4]},
        "lr": {"log": [1e-4, 1]},
        "dropout": {"uniform": [0, 0.9]},
        "optimizer": {"choice": ["sgd", "lamb"]},
        "nesterov": {"choice": [True, False], "when": {"optimizer": "sgd"}},
    }
    parameters, _ = sampling.parse_space(space)
    for no in range(1, 200):
        trainer_resolve({"trainer": {}}, sampling.sample(parameters, seed=1, trial_no=no))
    with pytest.raises(ConfigError, match="among 3 heads"):
        trainer_resolve({"trainer": {"model": "vit"}}, {"heads": 3})


PBT = """
search: {method: pbt, metric: val/loss, goal: min, population: 4, max_length: {epochs: 6},
  interval: {epochs: 2}}
"""
SPACE = "hyperparameters: {lr: {log: [1e-4, 0.1]}, width: {choice: [8, 16]}, batch_size: 8}\n"


def test_clones_have_the_shape_of_their_parents_model():
    resolved = resolve("name: x\ntrainer: {}\n" + SPACE + PBT)
    assert resolved.problems == ()
    assert resolved.config.search.explore == ("lr",)
    assert resolved.config.search.interval == 2
    spec = search_spec(resolved.config)
    assert (spec.rungs, spec.explore.names) == ((2, 4, 6), ("lr",))
    script = SPACE.replace("width: {choice: [8, 16]}", "hidden: {choice: [8], structural: true}")
    resolved = resolve("name: x\nentrypoint: train.py\n" + script + PBT)
    assert resolved.config.search.explore == ("lr",)


@pytest.mark.parametrize(
    ("space", "override", "path", "message"),
    [
        (SPACE, "search.explore=[lr, width]", "search.explore.1", "width cannot change in a clone"),
        ("hyperparameters: {width: {choice: [8, 16]}}\n", "name=x", "hyperparameters", "nothing"),
        (SPACE, "search.interval={steps: 2}", "search.interval", "is in steps, and search.max_"),
        (SPACE, "search.interval={}", "search.interval", "is in nothing, and search.max_length"),
        (SPACE, "search.interval={epochs: 0}", "search.interval.epochs", "must be at least 1"),
    ],
)
def test_what_a_population_cannot_do_is_refused(space, override, path, message):
    found = problems("name: x\ntrainer: {}\n" + space + PBT, override)
    assert found[0][0] == path, found
    assert message in found[0][1]


def test_an_interval_is_written_like_every_other_length_or_as_a_number():
    median = (
        "name: x\ntrainer: {}\nsearch: {method: median, metric: val/loss, goal: min, trials: 5,\n"
    )
    for interval in ("3", "{epochs: 3}"):
        resolved = resolve(f"{median}  max_length: {{epochs: 9}}, interval: {interval}}}")
        assert search_spec(resolved.config).rungs == (3, 6, 9)
    assert resolved.origins["search.interval"] == "document"
