"""What the built-in trainer can be told, read from the experiment document. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from muster.training import probes, settings
from muster.training.probes import Probe
from muster.training.settings import (
    AUTO,
    EarlyStopping,
    Every,
    LrScaling,
    OptimizerName,
    Schedule,
)
from muster.training.strategies.rules import Mesh, Options, Shape, problems

Phase = Literal["data_wait", "forward"]


class ConfigError(ValueError):
    """The document asks for something the trainer does not know."""


@dataclass(frozen=True, kw_only=True)
class Inject:
    """A deliberate delay, to see in the dashboard what a slow worker looks like."""

    rank: int
    ms: float
    phase: Phase = "data_wait"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Training lengths at which a search lets trials wait, as the server writes them."""

    at: tuple[int, ...]
    unit: str
    """steps, epochs, samples or seconds."""
    for_s: float
    """How long to wait there for word; then the trial goes on."""

    def is_due(self, before: float, now: float) -> bool:
        """Whether one of them was reached after `before`, until `now`, both in its unit."""
        return any(before < mark <= now for mark in self.at)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of one training. Any of them may also be a hyperparameter of the same name."""

    model: str = "cnn"
    """One of settings.Model, or `module:function` of one's own; see tasks/own.py."""
    data: str = "digits"
    """One of settings.Data, or `module:function` of one's own."""
    epochs: int | None = None
    """Passes over the training data. Without epochs and steps: search.max_length, else 3 epochs."""
    steps: int | None = None
    """Optimizer steps; the smaller of epochs and steps ends the training."""
    max_samples: int | None = None
    """Ends it after so many samples of all slots (search.max_length)."""
    max_s: int | None = None
    """Ends it at the first validation after so many seconds of training (search.max_length)."""
    slots: int | None = None
    """Workers at full size (resources.slots of the document). None: those there are."""
    batch_size: int = 32
    """Samples per slot and micro-batch. Global batch = batch_size × slots × accumulate, also while
    an elastic trial runs with fewer workers: each then does more micro-batches."""
    finds_batch_size: bool = False
    """batch_size: auto, the largest power of two that fits, is found when the training starts."""
    batch_memory_gb: float | None = None
    """What a worker may take when the batch size is found. None: its share of what is free."""
    strategy: Options = field(default_factory=Options)
    """How the workers share the work (strategy of the document)."""
    optimizer: OptimizerName = "adamw"
    lr: float = 2e-3
    lr_scaling: LrScaling = "none"
    """How lr grows with the global batch: in proportion, with its square root, or not."""
    reference_batch: int | None = None
    """The global batch for which lr is right. None: batch_size, that of a single slot."""
    momentum: float = 0.9
    """Of sgd and lars."""
    nesterov: bool = False
    """Of sgd."""
    beta1: float = 0.9
    """Of adamw, radam and lamb."""
    beta2: float = 0.999
    """Of adamw, radam and lamb."""
    trust: float = 1e-3
    """Of lars: share of a tensor's norm by which it may change in a step, at lr 1."""
    weight_decay: float = 0.01
    decay_matrices_only: bool = False
    """No weight decay on biases and on the scales of norms."""
    schedule: Schedule = "cosine"
    """cosine and linear: fall to lr × final_lr_ratio at the last planned step."""
    final_lr_ratio: float = 0.0
    decay_at: tuple[float, ...] = (0.5, 0.75)
    """Of step: shares of the training after which lr is multiplied with decay_factor."""
    decay_factor: float = 0.1
    """Of step."""
    warmup_steps: int = 0
    warmup_epochs: float | None = None
    """In place of warmup_steps."""
    width: int = 32
    """Channels of the first convolution, hidden units of the mlp, or size of what gpt and vit pass
    from block to block."""
    depth: int = 2
    """Convolutions or residual blocks per resolution, hidden layers, or blocks of gpt and vit."""
    heads: int = 4
    """Of each attention of gpt and vit; width has to be a multiple."""
    context: int = 64
    """Tokens (bytes) that a sample of a text has and gpt sees."""
    patch: int = 2
    """Pixels of a side of the squares that vit cuts images into."""
    dropout: float = 0.0
    validate_every: Every | None = None
    """None: after each epoch. In any case at the end."""
    early_stopping: EarlyStopping | None = None
    save_best: bool = False
    """Save a checkpoint whenever the metric of early_stopping, or val/loss, is the best so far, and
    judge the test samples by the best one."""
    test: bool = True
    """Judge the test samples when the training is over."""
    synthetic: bool = False
    """Random samples of the same shapes in place of the data, to see what the data cost."""
    augment: bool = False
    """Shift digits by up to one pixel, the same way on any number of workers."""
    samples: int = 4096
    """Size of the synthetic training set."""
    prefetch: int = 0
    """Batches to fetch ahead, in a thread."""
    seed: int = 0
    checkpoint_epochs: int | None = 1
    """Checkpoint every that many epochs (checkpoints.every.epochs)."""
    checkpoint_steps: int | None = None
    """Checkpoint every that many steps (checkpoints.every.steps)."""
    checkpoint_async: bool = True
    """Train on while a checkpoint's files are written (checkpoints.async)."""
    rows_per_s: float = 20.0
    """At most that many metric rows per worker and second; faster steps are averaged. 0: each."""
    measure_comm: bool = True
    time_network: bool = False
    """Say, after the last step, how long collectives of all workers take (see `network_times`)."""
    probe: Probe | None = None
    """A short training that shows what something costs; written as in probes.EXPECTED."""
    hold: Hold | None = None
    """Where to wait for what the search decides. None: nowhere."""
    inject: list[Inject] = field(default_factory=list)


def resolve(
    document: Mapping[str, Any], hparams: Mapping[str, Any], *, seed: int = 0
) -> TrainConfig:
    """The settings of one trial: hyperparameters over the document's `trainer` over defaults.

    `trainer.options` and a hyperparameter `options` hold further fields of TrainConfig.
    Raises ConfigError naming the key and the nearest known one.
    """
    values: dict[str, Any] = {"seed": seed}
    inject: list[Inject] = []
    for path, given in (("trainer", document.get("trainer") or {}), ("hyperparameters", hparams)):
        for key, value in _flat(path, given):
            if key == f"{path}.options.inject":
                inject = _injections(value)
            else:
                name = _known(key)
                if name == "batch_size":
                    values["finds_batch_size"] = value == AUTO
                    value = TrainConfig.batch_size if value == AUTO else value
                values[name] = _checked(name, value)

    max_length = (document.get("search") or {}).get("max_length") or {"epochs": 3}
    if values.get("epochs") is None and values.get("steps") is None:
        values["epochs"] = max_length.get("epochs")
        values["steps"] = max_length.get("steps")
        if max_length.get("seconds") is not None:
            raise ConfigError(
                "trainer.epochs: is needed beside a search.max_length in seconds, or trainer.steps"
            )
    values["max_samples"] = max_length.get("samples")
    values["max_s"] = max_length.get("seconds")
    checkpoints = document.get("checkpoints") or {}
    if "every" in checkpoints:
        every = checkpoints["every"] or {}  # null: only at the end
        values["checkpoint_epochs"] = every.get("epochs")
        values["checkpoint_steps"] = every.get("steps")
    values["checkpoint_async"] = checkpoints.get("async", True) is not False
    values["strategy"] = _strategy(document.get("strategy") or {})
    values["slots"] = (document.get("resources") or {}).get("slots")
    measure = document.get("measure") or {}
    values["measure_comm"] = all(measure.get(key) is not False for key in ("steps", "comm"))
    hold = (document.get("search") or {}).get("hold")
    if hold is not None:
        values["hold"] = Hold(at=tuple(hold["at"]), unit=hold["unit"], for_s=hold["for_s"])
    config = _as_probe(TrainConfig(**values, inject=inject))
    _check_together(config)
    _check_strategy(config, document.get("resources") or {})
    return config


def _as_probe(config: TrainConfig) -> TrainConfig:
    """Without what a probe has no use for, and every step a row."""
    if config.probe is None:
        return config
    strategy = config.strategy
    if config.probe.bucket_mb is not None:
        strategy = dataclasses.replace(strategy, bucket_mb=config.probe.bucket_mb)
    return dataclasses.replace(
        config, strategy=strategy, early_stopping=None, save_best=False, test=False, rows_per_s=0.0
    )


def _flat(path: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        if key == "options" and isinstance(value, Mapping):
            yield from ((f"{path}.options.{k}", v) for k, v in value.items())
        else:
            yield f"{path}.{key}", value


def _known(path: str) -> str:
    key = path.rpartition(".")[2]
    fault = settings.unknown(key)
    if fault is None:
        return key
    raise ConfigError(f"{path}: {fault.message}; {fault.hint}")


def _checked(name: str, value: Any) -> Any:
    """The value as TrainConfig has it."""
    fault = settings.check(name, value)
    if fault is not None:
        raise ConfigError(f"{name}: {fault.message}" + (f"; {fault.hint}" if fault.hint else ""))
    kind = settings.SETTINGS[name].kind
    if value is None or isinstance(value, str):
        return probes.parse(value) if kind == "probe" and value is not None else value
    if kind == "whole":
        return int(value)
    if kind == "shares":
        return tuple(float(share) for share in value)
    return settings.SECTIONS[name](**value) if kind == "section" else value


def _check_together(config: TrainConfig) -> None:
    """What the server checks too, here with the trial's own hyperparameters."""
    for rule in settings.RULES:
        fault = rule.find({name: getattr(config, name) for name in rule.names})
        if fault is not None:
            raise ConfigError(f"{fault.name}: {fault.message}; {fault.hint}")


def _strategy(given: Mapping[str, Any]) -> Options:
    mesh = Mesh(**_known_fields("strategy.mesh", given.get("mesh") or {}, Mesh))
    return Options(**_known_fields("strategy", given, Options) | {"mesh": mesh})


def _check_strategy(config: TrainConfig, resources: Mapping[str, Any]) -> None:
    """What the server checks too, here with the trial's own hyperparameters."""
    if config.slots is None:
        return
    for problem in problems(
        config.strategy,
        slots=config.slots,
        min_slots=resources.get("min_slots"),
        slot_type=resources.get("slot_type") or "cpu",
        shape=Shape(model=config.model, depth=config.depth, heads=config.heads),
    ):
        raise ConfigError(f"{problem.path}: {problem.message}; {problem.hint}")


def _known_fields(path: str, given: Mapping[str, Any], kind: type) -> dict[str, Any]:
    known = {f.name for f in dataclasses.fields(kind)}
    for key in given:
        if key not in known:
            raise ConfigError(f"{path}.{key}: known are {', '.join(sorted(known))}")
    return dict(given)


def _injections(value: Any) -> list[Inject]:
    entries = value if isinstance(value, list) else [value]
    try:
        found = [Inject(**entry) for entry in entries]
    except TypeError as error:
        raise ConfigError(
            f"trainer.options.inject: expected rank, ms and phase ({error})"
        ) from error
    for entry in found:
        if entry.phase not in get_args(Phase):
            raise ConfigError(
                f"trainer.options.inject.phase: {entry.phase!r} is neither data_wait nor forward"
            )
    return found
