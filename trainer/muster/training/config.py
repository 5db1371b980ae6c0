"""What the built-in trainer can be told, read from the experiment document. No torch."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from muster.training import probes
from muster.training.probes import Probe
from muster.training.strategies.rules import Mesh, Options, Shape, problems

Model = Literal["cnn", "gpt", "mlp", "resnet", "vit"]
Data = Literal["digits", "shakespeare", "synthetic"]
OptimizerName = Literal["adamw", "lamb", "lars", "radam", "sgd"]
Schedule = Literal["constant", "cosine", "linear", "step"]
LrScaling = Literal["none", "linear", "sqrt"]
Phase = Literal["data_wait", "forward"]


AUTO = "auto"
"""As batch_size."""


class ConfigError(ValueError):
    """The document asks for something the trainer does not know."""


@dataclass(frozen=True, kw_only=True)
class Inject:
    """A deliberate delay, to see in the dashboard what a slow worker looks like."""

    rank: int
    ms: float
    phase: Phase = "data_wait"


@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """End when validation has not become better for a while."""

    metric: str = "val/loss"
    goal: Literal["min", "max"] | None = None
    """None: by the metric's name."""
    patience: int = 3
    """Validations in a row that are no better than the best one."""
    min_delta: float = 0.0
    """What does not differ by more than this is no better."""


@dataclass(frozen=True, kw_only=True)
class Every:
    """A distance in steps or in epochs."""

    steps: int | None = None
    epochs: int | None = None

    def is_due(self, step: int, steps_per_epoch: int) -> bool:
        """Whether it is reached with `step` (1-based)."""
        distance = self.steps or (self.epochs or 0) * steps_per_epoch
        return distance > 0 and step % distance == 0


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
    """One of Model, or `module:function` of one's own; see tasks/own.py."""
    data: str = "digits"
    """One of Data, or `module:function` of one's own."""
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


_FROM_ELSEWHERE = {
    "slots", "max_samples", "max_s", "strategy", "checkpoint_epochs", "checkpoint_steps", "checkpoint_async",
    "measure_comm", "inject", "hold", "finds_batch_size",
}  # fmt: skip
"""Fields that are no hyperparameters."""
_TUNABLE = {f.name for f in dataclasses.fields(TrainConfig)} - _FROM_ELSEWHERE
_CHOICES: dict[str, tuple[str, ...]] = {
    "model": get_args(Model),
    "data": get_args(Data),
    "optimizer": get_args(OptimizerName),
    "schedule": get_args(Schedule),
    "lr_scaling": get_args(LrScaling),
}
_AT_LEAST: dict[str, float] = {
    "epochs": 1,
    "steps": 1,
    "batch_size": 1,
    "width": 1,
    "depth": 1,
    "heads": 1,
    "context": 1,
    "patch": 1,
    "samples": 1,
    "lr": 0,
    "reference_batch": 1,
    "beta1": 0,
    "beta2": 0,
    "trust": 0,
    "final_lr_ratio": 0,
    "decay_factor": 0,
    "warmup_epochs": 0,
    "momentum": 0,
    "weight_decay": 0,
    "warmup_steps": 0,
    "dropout": 0,
    "rows_per_s": 0,
    "prefetch": 0,
    "batch_memory_gb": 1e-6,
}
_INTEGERS = {
    "epochs", "steps", "batch_size", "width", "depth", "heads", "context", "patch",
    "samples", "warmup_steps", "reference_batch", "seed",
    "prefetch",
}  # fmt: skip
_OWN = {"model", "data"}
OWN_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_SECTIONS: dict[str, type] = {"early_stopping": EarlyStopping, "validate_every": Every}
_SWITCHES = {
    "augment", "save_best", "synthetic", "test", "nesterov", "decay_matrices_only", "time_network",
}  # fmt: skip
_OPTIONAL = {"epochs", "steps", "reference_batch", "warmup_epochs", "batch_memory_gb"}
_BELOW_1 = {"dropout", "momentum", "beta1", "beta2"}
_AT_MOST_1 = {"final_lr_ratio", "decay_factor"}


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
    if key in _TUNABLE:
        return key
    near = difflib.get_close_matches(key, _TUNABLE, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(_TUNABLE))}"
    raise ConfigError(f"{path}: the built-in trainer does not know {key!r}{hint}")


def _checked(name: str, value: Any) -> Any:
    if name in _OWN and isinstance(value, str) and OWN_FUNCTION.fullmatch(value):
        return value
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ConfigError(f"{name}: {value!r} is none of {', '.join(_CHOICES[name])}")
        return value
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise ConfigError(f"{name}: expected true or false, got {value!r}")
        return value
    if name == "probe":
        return _probe(value)
    if name == "decay_at":
        return _shares(name, value)
    if name in _SECTIONS:
        return _section(name, value)
    if value is None and name in _OPTIONAL:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name}: expected a number, got {value!r}")
    if name in _INTEGERS:
        if value != int(value):
            raise ConfigError(f"{name}: expected a whole number, got {value!r}")
        value = int(value)
    if name in _AT_LEAST and not value >= _AT_LEAST[name]:
        raise ConfigError(f"{name}: {value!r} is below {_AT_LEAST[name]:g}")
    if name in _BELOW_1 and value >= 1:
        raise ConfigError(f"{name}: {value!r} must be below 1")
    if name in _AT_MOST_1 and value > 1:
        raise ConfigError(f"{name}: {value!r} is above 1")
    return value


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


def _section(name: str, value: Any) -> Any:
    """A mapping of the document, checked there when it came from there."""
    if value is None:
        return None
    known = {f.name for f in dataclasses.fields(_SECTIONS[name])}
    if not isinstance(value, Mapping) or set(value) - known:
        raise ConfigError(f"{name}: expected a mapping with {', '.join(sorted(known))}")
    return _SECTIONS[name](**value)


def _shares(name: str, value: Any) -> tuple[float, ...]:
    numbers = isinstance(value, list) and all(
        isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < 1 for v in value
    )
    if not numbers:
        raise ConfigError(
            f"{name}: expected shares of the training between 0 and 1, such as [0.5, 0.75], "
            f"got {value!r}"
        )
    return tuple(float(v) for v in value)


def _probe(value: Any) -> Probe | None:
    if value is None:
        return None
    found = probes.parse(value) if isinstance(value, str) else None
    if found is None:
        raise ConfigError(f"probe: expected {probes.EXPECTED}, got {value!r}")
    return found


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
