"""From what was written to what will run, and every way it can be wrong."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from muster.document.codec import dump, load
from muster.document.experiment import ExperimentConfig
from muster.document.running import CodeSection
from muster.document.train_config import resolve as trainer_resolve
from muster_server.domain.messages import english
from muster_server.domain.search import Searcher
from muster_server.errors import FieldProblem
from muster_server.schemas.document import Document
from muster_server.services.documents import planned_command, resolve, search_spec

BASE = "name: x\nentrypoint: train.py\n"
TRAINER = "name: x\ntrainer: {}\n"
SEVERAL = (
    "hyperparameters: {lr: {log: [1e-4, 0.1]}, wd: {log: [1e-4, 0.1]}}\n"
    "search: {method: random, trials: 8, objectives: "
    "[{metric: loss, goal: min}, {metric: size, goal: min}]"
)
PBT = (
    "hyperparameters: {lr: {log: [1e-4, 0.1]}}\n"
    "search: {method: pbt, metric: val/loss, goal: min, max_length: {epochs: 20}, population: 4"
)
ASHA = "search: {method: asha, metric: val/loss, goal: min, trials: 16, max_length: {epochs: 9}}"


def config(text: str, *overrides: str) -> dict[str, Any]:
    resolved = resolve(text, overrides)
    assert resolved.problems == ()
    assert resolved.config is not None
    return dump(resolved.config)


def only_problem(text: str, *overrides: str) -> FieldProblem:
    resolved = resolve(text, overrides)
    assert resolved.config is None
    assert len(resolved.problems) == 1, resolved.problems
    return resolved.problems[0]


@pytest.mark.parametrize(
    ("text", "path", "message", "hint"),
    [
        ("entrypoint: train.py", "name", "missing", "name:"),
        ("name: ' '\nentrypoint: train.py", "name", "blank", None),
        ("name: x", "entrypoint", "there is nothing to run", "train.py"),
        (
            BASE + "metrics: {from_log: [nanogpt, {name: x, pattern: 'a(?P<vlaue>.)'}]}",
            "metrics.from_log[1].pattern",
            "names a group 'vlaue'",
            "groups are value, name, group, step, epoch",
        ),
        (
            BASE + "metrics: {from_log: '(?=loss)'}",
            "metrics.from_log[0].pattern",
            "is not a pattern of RE2",
            "no look-around",
        ),
        (BASE + "trainer: {}", "trainer", "be combined with entrypoint", "keep one"),
        ("name: x\ntrainer: {model: gpt}", "trainer.data", "digits holds images", "shakespeare"),
        ("name: x\ntrainer: {data: shakespeare}", "trainer.model", "is a text", "model: gpt"),
        ("name: x\ntrainer: {model: vit, heads: 5}", "trainer.width", "among 5 heads", "30 or 35"),
        (
            "name: x\ntrainer: {model: gpt, data: shakespeare, augment: true}",
            "trainer.augment",
            "is a text",
            "leave it out",
        ),
        (
            "name: x\ntrainer: {warmup_steps: 5, warmup_epochs: 1}",
            "trainer.warmup_epochs",
            "be combined with warmup_steps",
            "keep one",
        ),
        (
            "name: x\ntrainer: {early_stopping: {metric: val/score}}",
            "trainer.early_stopping.metric",
            "val/score is no metric that the built-in trainer reports",
            "val/loss, val/accuracy",
        ),
        (
            "name: x\ntrainer: {validate_every: {}}",
            "trainer.validate_every",
            "needs steps or epochs",
            "{epochs: 3}",
        ),
        ("name: x\ntrainer: {model: gptt}", "trainer.model", "must be one of cnn, gpt", "'gpt'"),
        ("name: x\ntrainer: {data: 'm.n:f g'}", "trainer.data", "must be one of digits", None),
        ("name: x\ntrainer: {model: 'm:f'}", "code", "your own functions are in it", "{path: .}"),
        ("name: x\ntrainer: {}\ncode: {path: .}", "code", "what is built in", "module:function"),
        ("name: x\ntrainer: {nesterov: true}", "trainer.nesterov", "with optimizer: adamw", "sgd"),
        (
            "name: x\ntrainer: {nesterov: true, optimizer: sgd, momentum: 0}",
            "trainer.nesterov",
            "needs a momentum",
            "0.9",
        ),
        (BASE + "resource: {}", "resource", "does not exist", "'resources'"),
        (BASE + "outputs: {keep: {}}", "outputs.keep", "deletes nothing", "{days: 30"),
        (BASE + "outputs: {keep: {days: 0}}", "outputs.keep.days", "must be above 0", None),
        (BASE + "outputs: {keep: {day: 1}}", "outputs.keep.day", "does not exist", "'days'"),
        (
            BASE + "outputs: {keep: {max_size: lots}}",
            "outputs.keep.max_size",
            "is not a size",
            "50GB",
        ),
        (
            BASE + "outputs: {keep: {days: 1, experiment_best: 2}}",
            "outputs.keep.experiment_best",
            "needs search.metric",
            "search.goal",
        ),
        (BASE + "data: {train: 5}", "data.train", "text", None),
        (BASE + "data: {train: [/a]}", "data.train", "a mapping", None),
        (BASE + "data: {train: {url: 's3://b/a'}}", "data.train.size", "is missing", "size"),
        (
            BASE + "data: {train: {url: /shared/a, size: 1GB}}",
            "data.train.url",
            "only a URL is downloaded",
            "{train: /shared/imagenet}",
        ),
        (
            BASE + "resources: {min_runtime: soon}",
            "resources.min_runtime",
            "is no length of time up to 7 days",
            "90min",
        ),
        (
            BASE + "resources: {min_runtime: 8d}",
            "resources.min_runtime",
            "is no length of time up to 7 days",
            "90min",
        ),
        (
            BASE + "resources: {min_runtime: 30m, preemptible: false}",
            "resources.min_runtime",
            "has no effect",
            "leave it out",
        ),
        (BASE + "data: {train: {}}", "data.train", "one of the three", "folder"),
        (
            BASE + "data: {train: {command: x, url: 's3://b/a'}}",
            "data.train",
            "one of the three",
            "folder",
        ),
        (
            BASE + "data: {train: {command: x, cached: true}}",
            "data.train.cached",
            "is about a url alone",
            "leave it out",
        ),
        (
            BASE + "data: {train: {folder: /a, size: 1GB}}",
            "data.train.size",
            "is what is downloaded or made",
            "leave it out",
        ),
        (
            BASE + "data: {train: {url: 's3://b/a', size: 1GB, digest: 'sha256:" + "0" * 64 + "'}}",
            "data.train.digest",
            "there before the job starts",
            "cached: true",
        ),
        (
            BASE + "data: {train: {command: x, size: much}}",
            "data.train.size",
            "is not a size",
            "50GB",
        ),
        (
            BASE + "data: {train: {url: 's3://b/a', size: much}}",
            "data.train.size",
            "is not a size",
            "50GB",
        ),
        (
            BASE + "data: {train: {url: 'https://me:secret@h/a', size: 1GB}}",
            "data.train.url",
            "user or password",
            "leave it out",
        ),
        (BASE + "array: {i: []}", "array.i", "names no element", "[1, 3, 7]"),
        (BASE + "array: {i: word}", "array.i", "neither a range nor a list", "0-9"),
        (BASE + "array: {i: true}", "array.i", "neither a range nor a list", "0-9"),
        (BASE + "array: {i: 9-0}", "array.i", "0 is less than 9", "0-9"),
        (BASE + "array: {i: '0-9:0'}", "array.i", "a step of 0", "0-9:2"),
        (BASE + "array: {i: [1, 1]}", "array.i", "an element twice", "leave one"),
        (BASE + "array: {i: 4294967296}", "array.i", "greater than 2147483647", "smaller"),
        (BASE + "array: {i: 0-9999999}", "array.i", "10000000 elements", "submit several"),
        (BASE + "array: {i: 0-200, j: 0-200}", "array", "40401 combinations", "at most 100"),
        (BASE + "array: [1]", "array", "a mapping, not a list", None),
        (BASE + "array: {1a: 0-3}", "array.1a", "must match", None),
        (BASE + "array: {RANK: 0-3}", "array.RANK", "every job has", "for example i"),
        (BASE + "array: {PATH: 0-3}", "array.PATH", "every job has", "for example i"),
        (
            BASE + "array: {i: 0-3}\nenvironment: {variables: {i: '1'}}",
            "array.i",
            "set in the section environment",
            "another name",
        ),
        (BASE + "array: {i: 0-3}\nhyperparameters: {i: 4}", "hyperparameters.i", "array.i", None),
        (
            BASE + "array: {i: 0-3}\nsearch: {method: random, trials: 4}",
            "search.method",
            "array",
            "leave it",
        ),
        (
            BASE + "max_concurrent: 2",
            "max_concurrent",
            "no effect without array",
            "array: {i: 0-9}",
        ),
        (BASE + "resources: {slot: 2}", "resources.slot", "does not exist", "'slots'"),
        (
            BASE + "resources: {zzz: 2}",
            "resources.zzz",
            "does not exist",
            "known here: allow_nodes",
        ),
        (BASE + "resources: 4", "resources", "a mapping, not a whole number", None),
        (BASE + "resources: {slots: 10000}", "resources.slots", "at most 4096, got 10000", None),
        (BASE + "resources: {slots: 0}", "resources.slots", "at least 1, got 0", None),
        (BASE + "resources: {slots: -1}", "resources.slots", "at least 1", None),
        (BASE + "resources: {slots: '4'}", "resources.slots", "not text", "without quotes"),
        (BASE + "resources: {slots: 4.0}", "resources.slots", "whole number", "write 4"),
        (BASE + "resources: {slots: 1e400}", "resources.slots", "this large", None),
        (BASE + "resources: {slots: .nan}", "resources.slots", "finite", None),
        (BASE + "resources: {slots: true}", "resources.slots", "not true or false", None),
        (BASE + "resources: {slots: null}", "resources.slots", "not null", None),
        (
            BASE + "resources: {slots: 5, nodes: 2}",
            "resources.slots",
            "5 slots cannot be divided evenly over 2 nodes",
            "4 or 6",
        ),
        (
            BASE + "resources: {slots: 1, nodes: 2, uneven: true}",
            "resources.slots",
            "1 slots are too few for 2 nodes",
            "at least 2",
        ),
        (
            BASE + "resources: {slots: 2, min_slots: 3}",
            "resources.min_slots",
            "is 3, more than resources.slots, which is 2",
            "at most 2",
        ),
        (
            BASE + "resources: {slots: 4, nodes: 2, min_slots: 1}",
            "resources.min_slots",
            "is 1, but resources.nodes asks for 2 nodes",
            "max_nodes",
        ),
        (BASE + "resources: {min_slots: 0}", "resources.min_slots", "at least 1, got 0", None),
        (
            BASE + "resources: {allow_nodes: [a, b], deny_nodes: [b]}",
            "resources.deny_nodes",
            "'b' is also in allow_nodes",
            "one of them",
        ),
        (
            BASE + "resources: {slots: 2, nodes: 2, allow_nodes: [a]}",
            "resources.allow_nodes",
            "names 1 usable nodes, but resources.nodes asks for 2",
            "name more",
        ),
        (BASE + "resources: {allow_nodes: a}", "resources.allow_nodes", "a list, not text", None),
        (BASE + "resources: {labels: {gpu: 1}}", "resources.labels.gpu", "text", "quotes"),
        (BASE + "resources: {topology: {}}", "resources.topology.key", "missing", None),
        (
            BASE + "resources: {topology: {key: rack, mode: must}}",
            "resources.topology.mode",
            "one of prefer, require",
            None,
        ),
        (
            BASE + "resources: {slots: 2, nodes: 2, max_nodes: 1}",
            "resources.max_nodes",
            "asks for 2",
            None,
        ),
        (BASE + "resources: {slot_type: gpu}", "resources.slot_type", "one of cpu, cuda", None),
        (
            BASE + "resources: {slots: 2}\nstrategy: {kind: single}",
            "strategy.kind",
            "one worker",
            "ddp",
        ),
        (BASE + "strategy: {reshard: false}", "strategy.reshard", "no effect", "fsdp"),
        (
            BASE + "resources: {slots: 4}\nstrategy: {kind: hsdp, mesh: {replicate: 3}}",
            "strategy.mesh",
            "3 workers, but resources.slots is 4",
            "3 or 6 slots",
        ),
        (
            BASE + "strategy: {mesh: {tensor: 2}}",
            "strategy.mesh.tensor",
            "does not exist",
            "known here",
        ),
        (BASE + "strategy: {kind: dpp}", "strategy.kind", "fsdp", None),
        (BASE + "measure: {comm: yes}", "measure.comm", "true or false, not text", "without"),
        (BASE + "labels: {team: 1}", "labels.team", "text, not a whole number", "quotes"),
        (BASE + "stop_grace_s: -1", "stop_grace_s", "at least 0", None),
        (BASE + "code: {installed: here}", "code.installed", "absolute", None),
        (BASE + "code: {path: ., installed: /x}", "code", "both", None),
        (BASE + "code: {}", "code", "empty", None),
        (BASE + "code: {workdir: ../src}", "code.workdir", "inside the code folder", None),
        (BASE + "code: {workdir: a/../..}", "code.workdir", "inside the code folder", None),
        (TRAINER + "code: {path: .}", "code", "no effect", None),
        (
            BASE + "environment: {variables: {RANK: '0'}}",
            "environment.variables.RANK",
            "reserved",
            None,
        ),
        (
            BASE + "environment: {variables: {MUSTER_TOKEN: x}}",
            "environment.variables.MUSTER_TOKEN",
            "reserved",
            None,
        ),
        (
            BASE + "environment: {variables: {LD_PRELOAD: x}}",
            "environment.variables.LD_PRELOAD",
            "reserved",
            None,
        ),
        (
            BASE + "environment: {variables: {PATH: '/opt/x/bin:$PATH'}}",
            "environment.variables.PATH",
            "$PATH",
            "${PATH}",
        ),
        (
            BASE + "environment: {variables: {PATH: '$HOME/bin:${PATH}'}}",
            "environment.variables.PATH",
            "$HOME",
            "${HOME}",
        ),
        *(
            (
                f"{BASE}environment: {{secrets: [TOKEN], variables: {{B: x, {name}: '{value}'}}}}",
                f"environment.variables.{name}",
                message,
                hint,
            )
            for name, value, message, hint in (
                ("PATH", "$CONDA/bin:${PATH}", "$CONDA", "${PATH}"),
                ("A", "$HOME/x", "no shell replaces $HOME", "write ${HOME}"),
                ("A", "a $MUSTER_TRIAL_ID", "$MUSTER_TRIAL_ID", "write ${MUSTER_TRIAL_ID}"),
                ("LD_LIBRARY_PATH", "/x:$LD_LIBRARY_PATH", "shell", "write ${LD_LIBRARY_PATH}"),
                ("A", "https://${TOKEN}@host", "secret TOKEN", "read TOKEN in your program"),
                ("A", "$TOKEN", "secret TOKEN", "read TOKEN"),
                ("A", "${B}/y", "another variable", "write its value"),
                ("A", "$SCRATCH/$B", "another variable", "write its value"),
            )
        ),
        (BASE + "environment: {variables: {a-b: x}}", "environment.variables.a-b", "name", None),
        (BASE + "environment: {variables: {A: 1}}", "environment.variables.A", "text", "quotes"),
        (BASE + "checkpoints: {storage: /srv}", "checkpoints.storage", "'/srv'", "s3://bucket"),
        (BASE + "checkpoints: {storage: 's3://b/../c'}", "checkpoints.storage", "no storage", None),
        (
            BASE + "checkpoints: {storage: 's3://key:word@bucket'}",
            "checkpoints.storage",
            "more than a bucket",
            "credentials",
        ),
        (BASE + "checkpoints: {every: {}}", "checkpoints.every", "steps or epochs", None),
        (
            BASE + "checkpoints: {every: {steps: 1, epochs: 1}}",
            "checkpoints.every",
            "one of the two",
            None,
        ),
        (BASE + "search: {max_length: {}}", "search.max_length", "one of the four", None),
        (
            BASE + "search: {max_length: {samples: 9, seconds: 1}}",
            "search.max_length",
            "one of the four",
            None,
        ),
        (
            "name: x\ntrainer: {}\nsearch: {max_length: {seconds: 60}}",
            "trainer.epochs",
            "schedule of the learning rate ends there",
            "fit into the time",
        ),
        (
            BASE + "checkpoints: {every: {samples: 5}}",
            "checkpoints.every.samples",
            "does not exist",
            None,
        ),
        (
            "name: x\ntrainer: {epochs: 3}\nsearch: {max_length: {epochs: 9}}",
            "trainer.epochs",
            "differs",
            "once",
        ),
        # search
        (
            BASE + "hyperparameters: {lr: {log: [0.1, 1]}}",
            "hyperparameters.lr",
            "makes one trial",
            "random",
        ),
        (
            BASE + "hyperparameters: {a: {lr: {log: [0, 1]}}}\n" + ASHA,
            "hyperparameters.a.lr",
            "above 0",
            None,
        ),
        (BASE + ASHA.replace("metric: val/loss, ", ""), "search.metric", "needed by asha", None),
        (BASE + PBT.replace(", population: 4", "}"), "search.population", "needed by pbt", None),
        (
            BASE + SEVERAL.replace("random", "asha, max_length: {epochs: 9}") + "}",
            "search.objectives",
            "run to their end",
            None,
        ),
        (BASE + SEVERAL + ", metric: a}", "search.metric", "be combined with objectives", None),
        (
            BASE + SEVERAL.replace("metric: size", "metric: loss") + "}",
            "search.objectives.1.metric",
            "already",
            None,
        ),
        (BASE + SEVERAL + ", sampler: cmaes}", "search.sampler", "knows one objective", "nsga2"),
        (
            BASE + "search: {method: random, trials: 3, sampler: nsga2, metric: a, goal: min}",
            "search.objectives",
            "needed by nsga2",
            None,
        ),
        (BASE + PBT + ", trials: 9}", "search.trials", "but pbt makes as many", None),
        (BASE + PBT + ", sampler: tpe}", "search.sampler", "draws only its first members", None),
        (BASE + PBT + ", explore: [lrs]}", "search.explore.0", "lrs is not searched", "mean lr?"),
        (
            BASE + ASHA.replace("}}", "}, population: 4}"),
            "search.population",
            "is of method pbt",
            None,
        ),
        (BASE + ASHA.replace("goal: min, ", ""), "search.goal", "needed", "goal: max"),
        (BASE + ASHA.replace("trials: 16, ", ""), "search.trials", "needed by asha", None),
        (
            BASE + ASHA.replace(", max_length: {epochs: 9}", ""),
            "search.max_length",
            "needed by asha",
            None,
        ),
        (BASE + "search: {method: random}", "search.trials", "needed by random", None),
        (BASE + "search: {trials: 4}", "search.trials", "makes one trial", "random"),
        (
            BASE + "search: {method: random, trials: 1000000}",
            "search.trials",
            "at most 100000",
            None,
        ),
        (
            BASE + "search: {method: grid}\nhyperparameters: {lr: {log: [0.1, 1]}}",
            "hyperparameters.lr",
            "how many values",
            "count: 5",
        ),
        (
            BASE + "search: {method: grid}\nhyperparameters: {a: {int: [0, 1000000]}}",
            "hyperparameters",
            "more than 100000",
            "count",
        ),
        (
            BASE + "search: {method: grid, trials: 3}\nhyperparameters: {a: {int: [0, 1]}}",
            "search.trials",
            "the grid has 2 points",
            None,
        ),
        (BASE + "search: {method: bohb, trials: 3}", "search.method", "asha", None),
        # entry points
        ("name: x\nentrypoint: ''", "entrypoint", "empty", None),
        ("name: x\nentrypoint: python train.py", "entrypoint", "'python'", None),
        ("name: x\nentrypoint: [bash, ../run.sh]", "entrypoint", "inside the code folder", None),
        (
            "name: x\nentrypoint: torchrun train.py\nlauncher: torchrun",
            "launcher",
            "'torchrun' is neither",
            "shell",
        ),
        (BASE + "launcher: plain\nresources: {slots: 2}", "launcher", "one process", "nodes: 1"),
        (
            "name: x\ntrainer: {model: mlp, data: digits}\nlauncher: plain",
            "launcher",
            "built-in trainer",
            None,
        ),
        (
            "name: x\nentrypoint: torchrun --nnodes 4 a.py\nresources: {slots: 4, nodes: 2}",
            "entrypoint",
            "has --nnodes 4, but the trial has 2 nodes",
            "resources.nodes: 4",
        ),
        (
            "name: x\nentrypoint: torchrun --standalone a.py\nresources: {slots: 4}",
            "resources.nodes",
            "has --standalone",
            "leave the option out",
        ),
        (
            "name: x\nentrypoint: accelerate launch --cpu a.py\nresources: {slots: 2, nodes: 1}",
            "entrypoint",
            "has --cpu",
            "ACCELERATE_USE_CPU",
        ),
        (
            BASE + "environment: {requirements: ../deps.txt}",
            "environment.requirements[0]",
            "inside the code folder",
            None,
        ),
        (
            BASE + "environment: {requirements: [einops, --pre]}",
            "environment.requirements[1]",
            "is an option",
            "requirements.txt",
        ),
        (
            BASE + "environment: {torch: own}",
            "environment.torch",
            "no requirements",
            "requirements: [torch]",
        ),
        (
            BASE + "environment: {mounts: [/data]}",
            "environment.mounts",
            "environment.image is not set",
            "name an image",
        ),
        (
            BASE + "environment: {image: a/b, network: bridge}\nresources: {slots: 2}",
            "environment.network",
            "could not reach each other",
            "max_nodes: 1",
        ),
        (BASE + "environment: {image: a/b, shm_size: much}", "environment.shm_size", "", "50GB"),
        (BASE + "environment: {image: a/b, mounts: [data]}", "environment.mounts[0]", "", None),
        (
            BASE + "environment: {image: a/b, mounts: [/data/../etc]}",
            "environment.mounts[0]",
            "cannot be mounted",
            "/datasets",
        ),
        (
            BASE + "environment: {image: a/b, mounts: ['/data:/tmp:rw']}",
            "environment.mounts[0]",
            "cannot be mounted",
            "/datasets",
        ),
        (BASE + "environment: {image: --privileged}", "environment.image", "", None),
        (BASE + "data: {train: data/x}", "data.train", "absolute path", "/shared"),
        (BASE + "data: {train-1: /x}", "data.train-1", "", None),
        (BASE + "data: {a: /x, A: /y}", "data.A", "the same variable as data.a", "another name"),
        (BASE + "data: {a: 's3://ada:pw@host/x'}", "data.a", "user or password", "leave it out"),
        (
            "name: x\nentrypoint: mpirun a.out\nlauncher: shell\nresources: {slots: 2}",
            "entrypoint",
            "on every node",
            "launcher: direct",
        ),
        ("name: x\nentrypoint: train.py && rm x", "entrypoint", "no shell", None),
        ("name: x\nentrypoint: train.py 'a", "entrypoint", "cannot be split", None),
        ("name: x\nentrypoint: train", "entrypoint", ".py file", None),
        ("name: x\nentrypoint: ../train.py", "entrypoint", "inside the code folder", None),
        ("name: x\nentrypoint: -m", "entrypoint", "name of a module", None),
        ("name: x\nentrypoint: -m a/b", "entrypoint", "name of a module", None),
        ("name: x\nentrypoint: 3", "entrypoint", "not a whole number", None),
        ("name: x\nentrypoint: [train.py, 3]", "entrypoint", "not a whole number", "quotes"),
        (
            "name: x\nentrypoint: a.py\nresources: {memory: much}",
            "resources.memory",
            "not a size",
            "50GB",
        ),
        (
            "name: x\nentrypoint: a.py\nresources: {disk: 0GB}",
            "resources.disk",
            "must be between",
            None,
        ),
    ],
)
def test_bad_documents_are_refused_with_path_reason_and_remedy(
    text: str, path: str, message: str, hint: str | None
) -> None:
    problem = only_problem(text)
    assert problem.path == path
    assert message in english(problem.message)
    if hint is not None:
        assert hint in (problem.hint or "")


def test_every_problem_is_named_at_once() -> None:
    resolved = resolve(
        "name: 3\nresources: {slots: 0, slt: 1}\nhyperparameters: {a: {int: [2, 1]}}"
    )
    assert [p.path for p in resolved.problems] == [
        "name",
        "resources.slots",
        "resources.slt",
        "hyperparameters.a",
    ]


def test_text_of_the_user_is_never_repeated() -> None:
    secret = "hunter2-hunter2"
    resolved = resolve(
        BASE
        + f"launcher: {secret}\nstop_grace_s: {secret}\nresources: {{pool: '{secret}!'}}\n"
        + f"environment: {{variables: {{A: [{secret}]}}}}"
    )
    assert len(resolved.problems) == 4
    assert secret not in str(resolved.problems)


def test_scientific_notation_is_a_number() -> None:
    resolved = config(BASE + "hyperparameters: {lr: 1e-4, momentum: {log: [1e-3, 1]}}\n" + ASHA)
    assert resolved["hyperparameters"] == {"lr": 1e-4, "momentum": {"log": [1e-3, 1]}}


def test_entry_points_are_split_without_a_shell() -> None:
    assert config("name: x\nentrypoint: train.py --name 'a b' $HOME")["entrypoint"] == [
        "train.py",
        "--name",
        "a b",
        "$HOME",
    ]
    assert config("name: x\nentrypoint: [-m, pkg.train, '&&']")["entrypoint"][-1] == "&&"


@pytest.mark.parametrize(
    ("text", "launcher"),
    [
        ("entrypoint: train.py", "torchrun"),
        ("entrypoint: -m pkg.train", "torchrun"),
        ("trainer: {model: mlp, data: digits}", "torchrun"),
        ("entrypoint: bash run.sh", "shell"),
        ("entrypoint: ./run.sh --fast", "shell"),
        ("entrypoint: torchrun train.py", "shell"),
        ("entrypoint: accelerate launch train.py", "shell"),
        ("entrypoint: python train.py\nlauncher: plain", "plain"),
        ("entrypoint: mytool --x\nlauncher: direct", "direct"),
        ("entrypoint: train.py\nlauncher: plain\nresources: {slots: 4, nodes: 1}", "plain"),
        ("entrypoint: train.py\nlauncher: shell", "shell"),
    ],
)
def test_a_command_is_run_by_a_shell_launcher(text: str, launcher: str) -> None:
    resolved = config(f"name: x\n{text}")
    assert resolved["launcher"] == launcher


def test_one_requirement_may_stand_alone() -> None:
    environment = "environment: {requirements: requirements.txt, setup: make data}"
    resolved = config(BASE + environment)["environment"]
    assert resolved["requirements"] == ["requirements.txt"]
    assert resolved["setup"] == ["make data"]
    assert resolved["torch"] == "node"


def test_the_line_of_each_node_is_shown_as_it_will_run() -> None:
    def line(text: str) -> str:
        resolved = resolve(f"name: x\nresources: {{slots: 4, nodes: 2}}\n{text}")
        assert resolved.config is not None, resolved.problems
        return shlex.join(planned_command(resolved.config, num_nodes=2, node_rank=1, num_local=2))

    assert line("entrypoint: train.py") == "torchrun --nnodes=2 --nproc-per-node=2 train.py"
    assert line("entrypoint: train.py\nlauncher: direct") == "python train.py"
    assert line("entrypoint: bash run.sh") == "bash run.sh"
    assert line("entrypoint: torchrun train.py") == (
        "torchrun --nnodes=2 --nproc-per-node=2 --node-rank=1 '--master-addr=$MASTER_ADDR' "
        "'--master-port=$MASTER_PORT' train.py"
    )
    assert line("entrypoint: torchrun train.py\nlauncher_help: false") == "torchrun train.py"


def test_defaults_are_filled_in_and_each_value_has_an_origin() -> None:
    resolved = resolve(BASE + "resources: {priority: 60}\nlabels: {a: b}", ["resources.slots=2"])
    assert resolved.config is not None
    assert resolved.config.resources.slots == 2
    assert resolved.config.code == CodeSection(path=".")
    assert resolved.config.search.trials == 1
    assert resolved.origins["name"] == "document"
    assert resolved.origins["resources.priority"] == "document"
    assert resolved.origins["resources.slots"] == "override"
    assert resolved.origins["resources.pool"] == "default"
    assert resolved.origins["labels.a"] == "document"
    assert resolved.origins["code.path"] == "default"


def test_resolved_config_is_json_and_resolves_to_itself() -> None:
    once = config(
        TRAINER + "hyperparameters: {lr: {log: [1e-4, 1], count: 3}}\nsearch: {method: grid}"
    )
    again = config(json.dumps(once, allow_nan=False))
    assert again == once


def test_trainer_length_comes_from_the_search() -> None:
    assert config(TRAINER)["trainer"]["epochs"] == 3
    resolved = config(TRAINER + "search: {max_length: {steps: 50}}")
    assert (resolved["trainer"]["steps"], resolved["trainer"]["epochs"]) == (50, None)
    # A step's samples depend on the trial's batch size, which the trainer knows.
    resolved = config(TRAINER + "search: {max_length: {samples: 5000}}")
    assert (resolved["trainer"]["steps"], resolved["trainer"]["epochs"]) == (None, None)
    timed = config(TRAINER.replace("{}", "{epochs: 4}") + "search: {max_length: {seconds: 60}}")
    assert (timed["trainer"]["epochs"], timed["search"]["max_length"]["seconds"]) == (4, 60)


def test_overrides_replace_whole_values_and_make_missing_sections() -> None:
    text = BASE + "hyperparameters: {lr: {log: [1e-4, 1]}}"
    resolved = config(text, "hyperparameters.lr=1e-2", "search.seed=7", "search.seed=8")
    assert resolved["hyperparameters"] == {"lr": 0.01}
    assert resolved["search"]["seed"] == 8


@pytest.mark.parametrize(
    ("override", "path", "message"),
    [
        ("resources.slots", "document", "path=value"),
        ("=3", "document", "path=value"),
        ("resources..slots=3", "document", "path=value"),
        ("name.first=3", "name.first", "not a mapping"),
        ("resources.slots=[1", "resources.slots", "not valid YAML"),
        ("resources.slots=&a 1", "resources.slots", "anchors"),
        ("resources.slotz=1", "resources.slotz", "does not exist"),
    ],
)
def test_bad_overrides_name_their_path(override: str, path: str, message: str) -> None:
    problem = only_problem(BASE, override)
    assert problem.path == path
    assert message in english(problem.message)


def test_search_spec_has_the_rungs_of_the_document() -> None:
    spec = search_spec(
        load(ExperimentConfig, config(BASE + ASHA, "search.divisor=3", "search.rungs=2"))
    )
    assert (spec.rungs, spec.unit, spec.max_units) == ((3, 9), "epochs", 9)
    assert search_spec(load(ExperimentConfig, config(BASE))).trials == 1


def test_grid_size_is_filled_in() -> None:
    text = BASE + "search: {method: grid}\nhyperparameters: {a: {int: [1, 3]}, b: {choice: [x, y]}}"
    resolved = config(text)
    assert resolved["search"]["trials"] == 6
    assert len(Searcher(search_spec(load(ExperimentConfig, resolved))).preview(10)) == 6


def test_every_key_of_the_document_is_explained() -> None:
    for name, info in Document.model_fields.items():
        assert info.description, name


def test_functions_of_ones_own_code_may_take_the_place_of_model_and_data() -> None:
    resolved = config(
        "name: x\ntrainer: {model: 'nets.small:make', data: 'd:load'}\ncode: {path: .}"
    )
    assert (resolved["trainer"]["model"], resolved["trainer"]["data"]) == (
        "nets.small:make",
        "d:load",
    )
    assert trainer_resolve(resolved, {}).model == "nets.small:make"


def test_the_built_in_trainer_understands_a_resolved_document() -> None:
    resolved = config(TRAINER + "search: {max_length: {epochs: 2}}\nhyperparameters: {lr: 0.5}")
    settings = trainer_resolve(resolved, resolved["hyperparameters"], seed=1)
    assert (settings.epochs, settings.steps, settings.lr) == (2, None, 0.5)


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[3] / "examples").glob("**/*.yaml")),
    ids=lambda path: path.parent.name,
)
def test_every_example_is_valid(path: Path) -> None:
    config(path.read_text(encoding="utf-8"))


def test_the_trials_of_a_population_are_its_members_and_their_clones() -> None:
    search = config(BASE + PBT + "}")["search"]
    # Compared every 2 of 20 epochs: at nine of ten rungs one of four is replaced.
    assert (search["interval"], search["trials"]) == (2, 13)
    assert search_spec(load(ExperimentConfig, config(BASE + PBT + "}"))).rungs == tuple(
        range(2, 21, 2)
    )


def test_the_first_of_several_objectives_is_shown_as_the_best() -> None:
    resolved = config(BASE + SEVERAL + ", sampler: nsga2}")
    assert (resolved["search"]["metric"], resolved["search"]["goal"]) == ("loss", "min")
    assert search_spec(load(ExperimentConfig, resolved)).objectives == (
        ("loss", "min"),
        ("size", "min"),
    )


def test_an_array_is_a_grid_without_a_metric() -> None:
    document = BASE + "array: {i: '0-9:4', j: [7, 3]}\nmax_concurrent: 2\nentrypoint: a.py ${i}"
    document = document.replace("entrypoint: train.py\n", "")
    resolved = resolve(document)
    assert resolved.config is not None, resolved.problems
    assert [english(w.message) for w in resolved.warnings] == []
    searcher = Searcher(search_spec(resolved.config))
    points = searcher.preview(10)
    assert points == [{"i": i, "j": j} for i in (0, 4, 8) for j in (7, 3)]
    assert (resolved.config.search.trials, resolved.config.search.concurrent) == (6, 2)
    again = resolve(json.dumps(dump(resolved.config)))
    assert again.config == resolved.config, "a resolved document can be submitted again"
    assert config(BASE + "array: {i: 5}")["hyperparameters"] == {"i": {"choice": [5]}}


def test_patterns_of_a_log_may_be_texts() -> None:
    written = "metrics: {from_log: [nanogpt, {pattern: 'loss=(.+)', name: loss}]}"
    assert config(BASE + written)["metrics"]["from_log"] == [
        {"pattern": "nanogpt", "name": "", "line": ""},
        {"pattern": "loss=(.+)", "name": "loss", "line": ""},
    ]
    assert config(BASE)["metrics"]["from_log"] == [{"pattern": "auto", "name": "", "line": ""}]
    assert config(BASE + "metrics: {from_log: []}")["metrics"]["from_log"] == []
