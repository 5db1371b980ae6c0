"""Hyperparameters and searchers of Determined. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.series_rules import clean_name

from .draft import ImportDraft

TYPES: Mapping[str, tuple[str, ...]] = {
    "const": ("val",),
    "int": ("minval", "maxval", "count"),
    "double": ("minval", "maxval", "count"),
    "log": ("base", "minval", "maxval", "count"),
    "categorical": ("vals",),
}
"""Keys of each type of hyperparameter, beside `type`."""
SPACES = {"choice", "const", "int", "log", "uniform"}
"""Names that make a mapping a space, or a constant, in Muster's documents."""
SEARCHER_KEYS = [
    "bracket_rungs",
    "budget",
    "divisor",
    "max_concurrent_trials",
    "max_length",
    "max_rungs",
    "max_time",
    "max_trials",
    "metric",
    "mode",
    "name",
    "num_rungs",
    "smaller_is_better",
    "source_checkpoint_uuid",
    "source_trial_id",
    "stop_once",
    "time_metric",
    "train_stragglers",
    "unit",
]
METHODS = {
    "single": "single",
    "random": "random",
    "grid": "grid",
    "adaptive_asha": "asha",
    "async_halving": "asha",
    "adaptive": "asha",
    "adaptive_simple": "asha",
    "sync_halving": "asha",
}
OLD = ("adaptive", "adaptive_simple", "sync_halving")
"""Searchers that Determined has dropped in favor of adaptive_asha."""
NAMES = (*METHODS, "custom")
UNITS = {"batches": "steps", "records": "samples", "epochs": "epochs", "epoch": "epochs"}
"""Units and time metrics of Determined."""
SEARCHER_DROPPED = {
    "bracket_rungs": "brackets follow from `search.brackets`",
    "budget": "it is of a searcher that Determined has dropped",
    "source_checkpoint_uuid": "checkpoints of another cluster are not known; `from` starts from one "
    "of Muster's",
    "source_trial_id": "trials of another cluster are not known; `from` starts from one of Muster's",
    "stop_once": "a stopped trial does not go on; `search.variant: promotion` pauses it instead",
    "train_stragglers": "it is of a searcher that Determined has dropped",
    "unit": "it is part of `max_length`",
}


def add_space(draft: ImportDraft, value: Any) -> None:
    """Add hyperparameters, nested ones included."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        draft.error("hyperparameters", f"{value!r} is not a mapping of names")
        return
    draft.document["hyperparameters"] = {
        str(name): _hyperparameter(draft, f"hyperparameters.{name}", item)
        for name, item in value.items()
    }


def _hyperparameter(draft: ImportDraft, key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            return _typed(draft, key, value)
        for name in SPACES & set(value):
            draft.error(
                f"{key}.{name}", f"a group with the name {name!r} is a space of Muster's: rename it"
            )
        if value:
            return {str(n): _hyperparameter(draft, f"{key}.{n}", v) for n, v in value.items()}
    if value is None or isinstance(value, list | dict):
        return {"const": value}
    return value


def _typed(draft: ImportDraft, key: str, value: Mapping[str, Any]) -> Any:
    kind = draft.choice(value["type"], f"{key}.type", TYPES)
    if kind is None:
        return {}
    found = draft.mapping(value, key, ("type", *TYPES[kind]))
    if kind == "const":
        draft.became(key, f"{key}.const")
        return {"const": value.get("val")}
    if kind == "categorical":
        choices = found.get("vals")
        if not isinstance(choices, list) or not choices:
            draft.error(f"{key}.vals", "a list of values is needed")
            return {}
        draft.became(key, f"{key}.choice", f"{len(choices)} values")
        return {"choice": choices}
    low = draft.number(found.get("minval"), f"{key}.minval")
    high = draft.number(found.get("maxval"), f"{key}.maxval")
    if low is None or high is None:
        return {}
    if low > high:
        draft.error(f"{key}.minval", f"{low} is above maxval, {high}")
        return {}
    why = "both bounds included"
    if kind == "log":
        base = draft.number(found.get("base", 10), f"{key}.base")
        if base is None or base <= 1:
            draft.error(f"{key}.base", "a number above 1 is needed")
            return {}
        why = f"minval and maxval are exponents of {base:g}"
        try:
            low, high = float(base) ** low, float(base) ** high
        except OverflowError:
            draft.error(key, f"{base:g} to the power of {high:g} is too large; {why}")
            return {}
    name = {"int": "int", "double": "uniform", "log": "log"}[kind]
    if low == high:
        draft.became(key, f"{key}.const: {low}", "minval is maxval")
        return {"const": low}
    space: dict[str, Any] = {name: [int(low), int(high)] if kind == "int" else [low, high]}
    if "count" in found:
        space["count"] = found["count"]
    draft.became(key, f"{key}.{name}: [{low:g}, {high:g}]", why)
    return space


def _has_space(value: Any) -> bool:
    """Return whether anything in translated hyperparameters is searched."""
    if not isinstance(value, Mapping):
        return False
    if (SPACES - {"const"}) & set(value):
        return True
    return "const" not in value and any(_has_space(item) for item in value.values())


def add_searcher(draft: ImportDraft, value: Any) -> None:
    """Add the search."""
    if value is None:
        draft.error("searcher", "it is needed: `searcher: {name: single, metric: …}`")
        return
    keys = draft.mapping(value, "searcher", SEARCHER_KEYS)
    if not keys:
        return
    name = draft.choice(keys.get("name"), "searcher.name", NAMES)
    if name is None:
        return
    if name == "custom":
        draft.error(
            "searcher.name",
            "a custom searcher is a program: write `search.sampler: external` and see the guide "
            "on asking and telling",
        )
        return
    search = draft.section("search")
    method = METHODS[name]
    if method == "single" and _has_space(draft.document.get("hyperparameters")):
        search |= {"method": "random", "trials": 1}
        draft.became(
            "searcher.name", "search: {method: random, trials: 1}", "one draw from the space"
        )
    else:
        search["method"] = method
        why = "Determined has dropped it in favor of adaptive_asha" if name in OLD else ""
        draft.became("searcher.name", f"search.method: {method}", why)
    _metric(draft, keys)
    for theirs, ours in (("max_trials", "trials"), ("max_concurrent_trials", "concurrent")):
        if theirs not in keys:
            continue
        number = draft.number(keys[theirs], f"searcher.{theirs}")
        if ours == "concurrent" and number == 0:
            draft.dropped(f"searcher.{theirs}", "no limit is the default")
        elif number is not None and method in ("random", "asha", "grid"):
            search[ours] = int(number)
            draft.became(f"searcher.{theirs}", f"search.{ours}: {int(number)}")
    if method == "asha":
        _halving(draft, keys, name)
    elif "max_length" in keys:
        _length(draft, keys["max_length"])
    if method in ("random", "asha") and "trials" not in search:
        draft.error("searcher.max_trials", f"{name} needs it")
    for key, why in SEARCHER_DROPPED.items():
        if key in keys:
            draft.dropped(f"searcher.{key}", why)


def _metric(draft: ImportDraft, keys: Mapping[str, Any]) -> None:
    if not isinstance(keys.get("metric"), str):
        draft.error("searcher.metric", "the name of a validation metric is needed")
        return
    search = draft.section("search")
    search["metric"] = f"val/{clean_name(keys['metric'])}"
    search["goal"] = "min" if keys.get("smaller_is_better", True) else "max"
    draft.became(
        "searcher.metric",
        f"search: {{metric: {search['metric']}, goal: {search['goal']}}}",
        "det_compat reports validation metrics as val/…; a script of Muster's names its own",
    )


def _halving(draft: ImportDraft, keys: Mapping[str, Any], name: str) -> None:
    search = draft.section("search")
    for theirs in ("max_rungs", "num_rungs"):
        if theirs in keys:
            number = draft.number(keys[theirs], f"searcher.{theirs}")
            if number is not None:
                search["rungs"] = int(number)
                draft.became(f"searcher.{theirs}", f"search.rungs: {int(number)}")
    if "divisor" in keys:
        number = draft.number(keys["divisor"], "searcher.divisor")
        if number is not None:
            search["divisor"] = max(2, round(number))
            why = "" if search["divisor"] == number else "whole numbers only"
            draft.became("searcher.divisor", f"search.divisor: {search['divisor']}", why)
    if name in ("adaptive_asha", "adaptive", "adaptive_simple"):
        mode = draft.choice(
            keys.get("mode", "standard"),
            "searcher.mode",
            ("aggressive", "standard", "conservative"),
        )
        if mode is not None:
            search["brackets"] = mode
            draft.became(
                "searcher.mode",
                f"search.brackets: {mode}",
                "" if "mode" in keys else "Determined's default",
            )
    if "max_time" in keys:
        number = draft.number(keys["max_time"], "searcher.max_time")
        metric = keys.get("time_metric", "batches")
        unit = UNITS.get(str(metric))
        if unit is None:
            draft.error(
                "searcher.time_metric",
                f"{metric!r} cannot be a trial's length here; use batches, records or epochs",
            )
        elif number is not None:
            search["max_length"] = {unit: int(number)}
            why = "det_compat reports them as progress/samples" if unit == "samples" else ""
            draft.became("searcher.max_time", f"search.max_length: {{{unit}: {int(number)}}}", why)
    elif "max_length" in keys:
        _length(draft, keys["max_length"])
    else:
        draft.error("searcher.max_time", f"{name} needs it, with `time_metric`")


def _length(draft: ImportDraft, value: Any) -> None:
    search = draft.section("search")
    key = "searcher.max_length"
    if isinstance(value, Mapping):
        found = draft.mapping(value, key, ("batches", "records", "epochs"))
        if len(found) != 1:
            draft.error(key, "one of batches, records and epochs is needed")
            return
        ((unit, given),) = found.items()
    else:
        unit, given = "batches", value
    number = draft.number(given, key)
    if number is not None:
        search["max_length"] = {UNITS[unit]: int(number)}
        why = "" if isinstance(value, Mapping) else "without a unit it counts batches"
        draft.became(key, f"search.max_length: {{{UNITS[unit]}: {int(number)}}}", why)
