"""What the built-in trainer can be told, read from the experiment document. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from . import probes
from . import trainer_settings as settings
from .codec import dump, load, unknown_keys
from .experiment import ExperimentConfig
from .running import CheckpointsSection, ResourcesSection
from .searching import SearchLength
from .strategy import Mesh, StrategySection
from .strategy_rules import Shape, problems
from .trainer_settings import AUTO
from .training import BATCH_SIZE, TrainerOptions, TrainerSection

DEFAULT_EPOCHS = 3
"""Training length where neither the trainer nor the search says one."""
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
        """Return whether a mark was reached after `before` and up to `now`, both in its unit."""
        return any(before < mark <= now for mark in self.at)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(TrainerSection, TrainerOptions):
    """Settings of one training: what its document and its hyperparameters say of `trainer`, and what
    else of the document the trainer goes by."""

    batch_size: int = BATCH_SIZE
    """Samples per slot and micro-batch; where it is to be found, what to begin with."""
    finds_batch_size: bool = False
    """Find the largest power of two that fits when the training starts (`batch_size: auto`)."""
    max_samples: int | None = None
    """Ends it after so many samples of all slots (search.max_length)."""
    max_s: int | None = None
    """End at the first validation after this many seconds of training (search.max_length)."""
    slots: int | None = None
    """Workers at full size (resources.slots of the document). None: those there are."""
    strategy: StrategySection = field(default_factory=StrategySection)
    """How the workers share the work (strategy of the document)."""
    checkpoints: CheckpointsSection = field(default_factory=CheckpointsSection)
    """When checkpoints are saved."""
    measure_comm: bool = True
    hold: Hold | None = None
    """Where to wait for what the search decides. None: nowhere."""
    inject: list[Inject] = field(default_factory=list)


def resolve(
    document: Mapping[str, Any], hparams: Mapping[str, Any], *, seed: int = 0
) -> TrainConfig:
    """Return the settings of one trial from the JSON of its resolved document, as a worker has it.

    The document of a process without Muster is empty. Raises ConfigError as `configure` does, and
    for a key of the trainer or the strategy that another version knows and this one does not.
    """
    further: dict[str, Any] = {}
    """Settings that only `trainer.options` names, given beside the section's own."""
    for path in unknown_keys(ExperimentConfig, document):
        section, _, key = path.partition(".")
        if section == "trainer":
            name = _known(f"trainer.{key.partition('.')[0]}")
            further[name] = document["trainer"][name]
        elif section == "strategy":
            kind = Mesh if key.startswith("mesh.") else StrategySection
            known = sorted(f.name for f in dataclasses.fields(kind))
            raise ConfigError(f"{path}: known are {', '.join(known)}")
    if further:
        trainer = document["trainer"]
        options = {**(trainer.get("options") or {}), **further}
        document = {**document, "trainer": {**trainer, "options": options}}
    config = load(ExperimentConfig, {"name": "", **document})
    hold = (document.get("search") or {}).get("hold")
    return configure(
        config,
        hparams,
        seed=seed,
        slots=config.resources.slots if document.get("resources") else None,
        hold=hold and Hold(at=tuple(hold["at"]), unit=hold["unit"], for_s=hold["for_s"]),
    )


def configure(
    config: ExperimentConfig,
    hparams: Mapping[str, Any],
    *,
    slots: int | None,
    seed: int = 0,
    hold: Hold | None = None,
) -> TrainConfig:
    """Return the settings of one trial: its hyperparameters over what the document says.

    `trainer.options` and a hyperparameter `options` hold further settings. `slots` is the number of
    workers at full size; None: those there are. Raises ConfigError with the key and the nearest
    known one.
    """
    trainer = config.trainer or TrainerSection()
    values: dict[str, Any] = {"seed": seed}
    inject: list[Inject] = []
    for path, given in (("trainer", dump(trainer)), ("hyperparameters", hparams)):
        for key, value in _flat(path, given):
            if key == f"{path}.options.inject":
                inject = _injections(value)
            else:
                name = _known(key)
                if name == "batch_size":
                    values["finds_batch_size"] = value == AUTO
                    value = BATCH_SIZE if value == AUTO else value
                values[name] = _checked(name, value)

    length = config.search.max_length or SearchLength(epochs=DEFAULT_EPOCHS)
    if values.get("epochs") is None and values.get("steps") is None:
        values |= {"epochs": length.epochs, "steps": length.steps}
        if length.seconds is not None:
            raise ConfigError(
                "trainer.epochs: is needed beside a search.max_length in seconds, or trainer.steps"
            )
    found = _as_probe(
        TrainConfig(
            **values,
            max_samples=length.samples,
            max_s=length.seconds,
            checkpoints=config.checkpoints,
            strategy=config.strategy,
            slots=slots,
            measure_comm=config.measure.steps and config.measure.comm,
            hold=hold,
            inject=inject,
        )
    )
    _check_together(found)
    _check_strategy(found, config.resources)
    return found


def _as_probe(config: TrainConfig) -> TrainConfig:
    """Return the settings without what a probe has no use for, and with a row for every step."""
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
    """Return the value as TrainConfig has it."""
    fault = settings.check(name, value)
    if fault is not None:
        raise ConfigError(f"{name}: {fault.message}" + (f"; {fault.hint}" if fault.hint else ""))
    setting = settings.SETTINGS[name]
    kind = setting.kind
    if value is None or isinstance(value, str):
        return probes.parse(value) if kind == "probe" and value is not None else value
    if kind == "whole":
        return int(value)
    if kind == "shares":
        return tuple(float(share) for share in value)
    return value if setting.section is None else load(setting.section, value)


def _check_together(config: TrainConfig) -> None:
    """Check the settings that depend on each other. Raises ConfigError.

    The server checks them, too, but without the trial's own hyperparameters.
    """
    for rule in settings.RULES:
        fault = rule.find({name: getattr(config, name) for name in rule.names})
        if fault is not None:
            raise ConfigError(f"{fault.name}: {fault.message}; {fault.hint}")


def _check_strategy(config: TrainConfig, resources: ResourcesSection) -> None:
    """Check that the strategy can be used with these workers. Raises ConfigError.

    The server checks it, too, but without the trial's own hyperparameters.
    """
    if config.slots is None:
        return
    for problem in problems(
        config.strategy,
        slots=config.slots,
        min_slots=resources.min_slots,
        slot_type=resources.slot_type,
        shape=Shape(model=config.model, depth=config.depth, heads=config.heads),
    ):
        raise ConfigError(f"{problem.path}: {problem.message}; {problem.hint}")


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
