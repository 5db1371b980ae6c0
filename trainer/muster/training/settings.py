"""What the built-in trainer can be told, by name: types, ranges, and what cannot be combined.

Pure, without torch: the trainer checks each trial with it, and the server checks documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from muster.metrics import MEASURED
from muster.nearest import nearest
from muster.training import probes

Model = Literal["cnn", "gpt", "mlp", "resnet", "vit"]
Data = Literal["digits", "shakespeare", "synthetic"]
OptimizerName = Literal["adamw", "lamb", "lars", "radam", "sgd"]
Schedule = Literal["constant", "cosine", "linear", "step"]
LrScaling = Literal["none", "linear", "sqrt"]

AUTO = "auto"
"""As batch_size."""
OWN_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""`module:function` of the user's own, as model or data."""

Kind = Literal["choice", "switch", "whole", "number", "shares", "section", "probe"]


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


SECTIONS: dict[str, type] = {"early_stopping": EarlyStopping, "validate_every": Every}
"""Settings that are mappings."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The values that one setting can have."""

    kind: Kind
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Text that may stand in place of a number."""
    may_be_own: bool = False
    """`module:function` is possible as well."""
    is_optional: bool = False
    """null is possible as well."""
    is_structural: bool = False
    """Training cannot go on from a checkpoint that was made with another value."""

    @property
    def limits(self) -> dict[str, Any]:
        """The bounds that there are, by the names that pydantic has for them."""
        bounds = {"ge": self.ge, "gt": self.gt, "le": self.le, "lt": self.lt}
        return {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with one setting, or with several together."""

    name: str
    """Of the setting to change."""
    message: str
    hint: str | None = None
    constraint: str | None = None
    """Where both sides are searched: the expression that every good point fulfils."""


def _choice(kind: Any, **more: Any) -> Setting:
    return Setting(kind="choice", choices=get_args(kind), **more)


def _whole(ge: int, le: int = 2**53, **more: Any) -> Setting:
    return Setting(kind="whole", ge=ge, le=le, **more)


_SWITCH = Setting(kind="switch")
SETTINGS: dict[str, Setting] = {
    "model": _choice(Model, may_be_own=True, is_structural=True),
    "data": _choice(Data, may_be_own=True, is_structural=True),
    "epochs": _whole(1, is_optional=True),
    "steps": _whole(1, is_optional=True),
    # The same step would be another place in the data.
    "batch_size": _whole(1, 1_000_000, words=(AUTO,), is_structural=True),
    "batch_memory_gb": Setting(kind="number", ge=1e-6, le=100_000, is_optional=True),
    # Its state is part of a checkpoint.
    "optimizer": _choice(OptimizerName, is_structural=True),
    "lr": Setting(kind="number", ge=0, le=1000),
    "lr_scaling": _choice(LrScaling),
    "reference_batch": _whole(1, is_optional=True),
    "momentum": Setting(kind="number", ge=0, lt=1),
    "nesterov": _SWITCH,
    "beta1": Setting(kind="number", ge=0, lt=1),
    "beta2": Setting(kind="number", ge=0, lt=1),
    "trust": Setting(kind="number", ge=0, le=1000),
    "weight_decay": Setting(kind="number", ge=0, le=1000),
    # Parameters lie in other groups of the optimizer.
    "decay_matrices_only": Setting(kind="switch", is_structural=True),
    "schedule": _choice(Schedule),
    "final_lr_ratio": Setting(kind="number", ge=0, le=1),
    "decay_at": Setting(kind="shares"),
    "decay_factor": Setting(kind="number", ge=0, le=1),
    "warmup_steps": _whole(0),
    "warmup_epochs": Setting(kind="number", ge=0, le=1e9, is_optional=True),
    "width": _whole(1, 65_536, is_structural=True),
    "depth": _whole(1, 1_000, is_structural=True),
    # The same shapes, and another meaning of them.
    "heads": _whole(1, 1_024, is_structural=True),
    "context": _whole(1, 1_000_000, is_structural=True),
    "patch": _whole(1, 1_024, is_structural=True),
    "dropout": Setting(kind="number", ge=0, lt=1),
    "validate_every": Setting(kind="section", is_optional=True),
    "early_stopping": Setting(kind="section", is_optional=True),
    "save_best": _SWITCH,
    "test": _SWITCH,
    "synthetic": _SWITCH,
    "augment": _SWITCH,
    "samples": _whole(1, 100_000_000, is_structural=True),
    "prefetch": _whole(0, 64),
    "seed": Setting(kind="whole"),
    "rows_per_s": Setting(kind="number", ge=0),
    "time_network": _SWITCH,
    "probe": Setting(kind="probe", is_optional=True),
}
"""Everything that `trainer`, `trainer.options` and hyperparameters may name."""
STRUCTURAL = frozenset(name for name, setting in SETTINGS.items() if setting.is_structural)
"""What a clone takes over from its parent as it is."""


def unknown(name: str) -> Fault | None:
    """What is wrong with a name; None: it is one of SETTINGS."""
    if name in SETTINGS:
        return None
    near = nearest(name, SETTINGS)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(SETTINGS))}"
    return Fault(name=name, message=f"the built-in trainer does not know {name!r}", hint=hint)


def check(name: str, value: Any) -> Fault | None:
    """What is wrong with a value of a known setting; None: nothing."""
    setting = SETTINGS[name]
    if value is None and setting.is_optional:
        return None
    if setting.kind == "choice":
        return _check_choice(name, setting, value)
    message = _CHECKS[setting.kind](name, setting, value)
    return None if message is None else Fault(name=name, message=message)


def _check_choice(name: str, setting: Setting, value: Any) -> Fault | None:
    if not isinstance(value, str):
        return Fault(
            name=name, message=f"expected one of {', '.join(setting.choices)}, got {value!r}"
        )
    if value in setting.choices or (setting.may_be_own and OWN_FUNCTION.fullmatch(value)):
        return None
    near = nearest(value, setting.choices)
    return Fault(
        name=name,
        message=f"{value!r} is none of {', '.join(setting.choices)}",
        hint=f"did you mean {near!r}?" if near else None,
    )


def _check_switch(name: str, setting: Setting, value: Any) -> str | None:
    return None if isinstance(value, bool) else f"expected true or false, got {value!r}"


def _check_number(name: str, setting: Setting, value: Any) -> str | None:
    if value in setting.words:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        words = "".join(f" or {word}" for word in setting.words)
        noun = "a whole number" if setting.kind == "whole" else "a number"
        return f"expected {noun}{words}, got {value!r}"
    if setting.kind == "whole" and value != int(value):
        return f"expected a whole number, got {value!r}"
    if setting.ge is not None and value < setting.ge:
        return f"{value!r} is below {setting.ge:g}"
    if setting.le is not None and value > setting.le:
        return f"{value!r} is above {setting.le:g}"
    if setting.lt is not None and value >= setting.lt:
        return f"{value!r} must be below {setting.lt:g}"
    return None


def _check_shares(name: str, setting: Setting, value: Any) -> str | None:
    if isinstance(value, list) and all(
        isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < 1 for v in value
    ):
        return None
    return (
        "expected shares of the training between 0 and 1, such as [0.5, 0.75], "
        f"got {value!r}"
    )  # fmt: skip


def _check_section(name: str, setting: Setting, value: Any) -> str | None:
    known = {f.name for f in fields(SECTIONS[name])}
    if isinstance(value, Mapping) and not set(value) - known:
        return None
    return f"expected a mapping with {', '.join(sorted(known))}"


def _check_probe(name: str, setting: Setting, value: Any) -> str | None:
    if isinstance(value, str) and probes.parse(value) is not None:
        return None
    return f"expected {probes.EXPECTED}, got {value!r}"


_CHECKS: dict[Kind, Callable[[str, Setting, Any], str | None]] = {
    "switch": _check_switch,
    "whole": _check_number,
    "number": _check_number,
    "shares": _check_shares,
    "section": _check_section,
    "probe": _check_probe,
}

# ---------------------------------------------------------------- what goes together

TEXTS = frozenset({"shakespeare"})
"""Data sets that are texts; the others that are built in hold images."""
SIDES = {"digits": 8, "synthetic": 16}
"""Pixels of a side of the images."""


def is_own(value: Any) -> bool:
    """Whether a model or a data set is a function of the user's."""
    return isinstance(value, str) and ":" in value


@dataclass(frozen=True)
class Rule:
    """Settings that have to go together."""

    names: tuple[str, ...]
    """The first is the one to change."""
    find: Callable[[Mapping[str, Any]], Fault | None]


def _model_and_data(of: Mapping[str, Any]) -> Fault | None:
    model, data = of["model"], of["data"]
    if is_own(model) or is_own(data):
        return None  # known when it runs
    if model == "gpt" and data not in TEXTS:
        return Fault(
            name="data",
            message=f"gpt reads texts, and {data} holds images",
            hint="use data: shakespeare, or model: cnn",
        )
    if model != "gpt" and data in TEXTS:
        return Fault(
            name="model",
            message=f"{model} reads images, and {data} is a text",
            hint="use model: gpt, or data: digits",
        )
    return None


def _augment(of: Mapping[str, Any]) -> Fault | None:
    if not of["augment"] or of["data"] not in TEXTS:
        return None
    return Fault(
        name="augment", message=f"shifts images, and {of['data']} is a text", hint="leave it out"
    )


def _heads(of: Mapping[str, Any]) -> Fault | None:
    width, heads = of["width"], of["heads"]
    if of["model"] not in ("gpt", "vit") or width % heads == 0:
        return None
    near = max(width // heads, 1) * heads
    return Fault(
        name="width",
        message=f"{width} cannot be divided evenly among {heads} heads",
        hint=f"use {near} or {near + heads}",
        constraint="width % heads == 0",
    )


def _patch(of: Mapping[str, Any]) -> Fault | None:
    side, patch = SIDES.get(of["data"]), of["patch"]
    if of["model"] != "vit" or side is None or side % patch == 0:
        return None
    good = [str(n) for n in range(1, side + 1) if side % n == 0]
    return Fault(
        name="patch",
        message=f"{of['data']} has images of {side}×{side}, which cannot be cut into patches of {patch}",
        hint=f"use {', '.join(good[:-1])} or {good[-1]}",
    )


def _nesterov(of: Mapping[str, Any]) -> Fault | None:
    if not of["nesterov"] or of["optimizer"] != "sgd" or of["momentum"] > 0:
        return None
    return Fault(
        name="nesterov", message="needs a momentum, which is 0", hint="use momentum: 0.9"
    )  # fmt: skip


RULES = (
    Rule(("model", "data"), _model_and_data),
    Rule(("augment", "data"), _augment),
    Rule(("width", "heads", "model"), _heads),
    Rule(("patch", "data", "model"), _patch),
    Rule(("nesterov", "momentum", "optimizer"), _nesterov),
)

# ---------------------------------------------------------------- what is reported

_JUDGED = ("loss", "accuracy")
_JUDGED_TEXT = (*_JUDGED, "perplexity")
_WHILE_TRAINING = (
    "train/loss",
    "train/accuracy",
    "train/lr",
    "train/grad_norm",
    "train/batch_size",
    "train/staleness_updates",
)


def validated(data: str) -> tuple[str, ...]:
    """Names of the metrics of each validation; of the user's own data, those that it may have."""
    own_or_text = data in TEXTS or is_own(data)
    return tuple(f"val/{name}" for name in (_JUDGED_TEXT if own_or_text else _JUDGED))


def reported(data: str) -> tuple[str, ...]:
    """Names of all metrics of a training, without those that begin as in MEASURED."""
    tested = tuple(name.replace("val/", "test/") for name in validated(data))
    return (*validated(data), *_WHILE_TRAINING, *tested)


def is_reported(metric: str, data: str) -> bool:
    """Whether a training with these data may report a metric of this name."""
    return metric in reported(data) or metric.startswith(MEASURED)
