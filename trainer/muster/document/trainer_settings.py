"""What the built-in trainer can be told, by name: types, ranges, and what cannot be combined.

Pure, without torch: the trainer checks each trial with it, and the server checks documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from muster.nearest import nearest
from muster.sdk.metrics import MEASURED

from . import probes
from .codec import section_of
from .common import Bounds, Mark
from .probes import Probe
from .training import TrainerOptions, TrainerSection

AUTO = "auto"
"""Value of `batch_size` that lets the trainer find it."""
OWN_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""`module:function` of the user's own, as model or data."""

Kind = Literal["choice", "switch", "whole", "number", "shares", "section", "probe"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The values that one setting can have."""

    kind: Kind
    bounds: Bounds = field(default_factory=Bounds)
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """Text that may stand in place of a number."""
    section: type[Any] | None = None
    """What its keys are, of a setting that is a mapping."""
    may_be_own: bool = False
    """`module:function` is possible as well."""
    is_optional: bool = False
    """null is possible as well."""
    is_structural: bool = False
    """Training cannot go on from a checkpoint that was made with another value."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with one setting, or with several together."""

    name: str
    """Name of the setting to change."""
    message: str
    hint: str | None = None
    constraint: str | None = None
    """Where both sides are searched: the expression that every good point fulfils."""


def _settings(section: type[Any]) -> Iterator[tuple[str, Setting]]:
    """Yield the settings that the fields of a section declare."""
    hints = get_type_hints(section, include_extras=True)
    for declared in fields(section):
        if declared.name != "options":
            yield declared.name, _setting(hints[declared.name])


def _setting(annotation: Any) -> Setting:
    types = [option for option in _options(annotation) if option is not type(None)]
    extras = [extra for option in types for extra in getattr(option, "__metadata__", ())]
    plain = [option.__origin__ if get_origin(option) is Annotated else option for option in types]
    words = tuple(w for option in plain if get_origin(option) is Literal for w in get_args(option))
    numbers = any(option in (int, float) for option in plain)
    return Setting(
        kind=_kind(plain[0]),
        bounds=next((extra for extra in extras if isinstance(extra, Bounds)), Bounds()),
        choices=() if numbers else words,
        words=words if numbers else (),
        section=section_of(plain[0]),
        may_be_own=Mark.OWN_FUNCTION in extras,
        is_optional=len(types) < len(_options(annotation)),
        is_structural=Mark.STRUCTURAL in extras,
    )


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _kind(plain: Any) -> Kind:
    if get_origin(plain) is Literal:
        return "choice"
    if get_origin(plain) is tuple:
        return "shares"
    kinds: dict[Any, Kind] = {bool: "switch", int: "whole", float: "number", Probe: "probe"}
    return kinds.get(plain, "section")


SETTINGS = dict([*_settings(TrainerSection), *_settings(TrainerOptions)])
"""Everything that `trainer`, `trainer.options` and hyperparameters may name."""
STRUCTURAL = frozenset(name for name, setting in SETTINGS.items() if setting.is_structural)
"""What a clone takes over from its parent as it is."""
SECTIONS = frozenset(name for name, setting in SETTINGS.items() if setting.section is not None)
"""Settings that are mappings."""


def unknown(name: str) -> Fault | None:
    """Return what is wrong with a name, or None if it is one of SETTINGS."""
    if name in SETTINGS:
        return None
    near = nearest(name, SETTINGS)
    hint = f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(SETTINGS))}"
    return Fault(name=name, message=f"the built-in trainer does not know {name!r}", hint=hint)


def check(name: str, value: Any) -> Fault | None:
    """Return what is wrong with a value of a known setting, or None."""
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
    if setting.bounds.ge is not None and value < setting.bounds.ge:
        return f"{value!r} is below {setting.bounds.ge:g}"
    if setting.bounds.le is not None and value > setting.bounds.le:
        return f"{value!r} is above {setting.bounds.le:g}"
    if setting.bounds.lt is not None and value >= setting.bounds.lt:
        return f"{value!r} must be below {setting.bounds.lt:g}"
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
    assert setting.section is not None, "a section by its kind"
    known = {f.name for f in fields(setting.section)}
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
    """Return whether a model or a data set is a function of the user's own."""
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
    """Return the names of the metrics of each validation; of the user's own data, those that it may
    have."""
    own_or_text = data in TEXTS or is_own(data)
    return tuple(f"val/{name}" for name in (_JUDGED_TEXT if own_or_text else _JUDGED))


def reported(data: str) -> tuple[str, ...]:
    """Return the names of all metrics of a training, without those that begin as in MEASURED."""
    tested = tuple(name.replace("val/", "test/") for name in validated(data))
    return (*validated(data), *_WHILE_TRAINING, *tested)


def is_reported(metric: str, data: str) -> bool:
    """Return whether a training with these data can report a metric of this name."""
    return metric in reported(data) or metric.startswith(MEASURED)
