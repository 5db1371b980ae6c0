"""The model card of a version: Markdown of what is known, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.document.codec import dump
from muster.document.training import TrainerSection

from .leaderboard import Evaluated

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!&])")
SHOWN_METRICS = 50
SHOWN_FILES = 50


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What is known about a version."""

    model: str
    number: int
    digest: str
    created_at: str
    created_by: str
    description: str
    source: str
    lineage: Mapping[str, Any]
    metrics: Mapping[str, float | str]
    signature: Mapping[str, Any] | None
    files: Sequence[tuple[str, int | None, str]]
    """Path, bytes if known, and the warning about it."""
    aliases: Sequence[str]
    notes: str
    evaluations: Sequence[Evaluated] = ()
    """The newest first."""


def model_card(facts: CardFacts) -> str:
    """Return the card as Markdown. A section of which nothing is known is left out."""
    return "\n".join(_lines(facts)).rstrip() + "\n"


def _lines(facts: CardFacts) -> Iterator[str]:
    yield f"# {_text(facts.model)}, version {facts.number}"
    yield ""
    if facts.description:
        yield _text(facts.description)
        yield ""
    if facts.aliases:
        yield f"Aliases: {', '.join(f'`{alias}`' for alias in facts.aliases)}"
        yield ""
    yield f"Registered by {_text(facts.created_by)} at {facts.created_at}, from {_text(facts.source)}."
    yield ""
    if facts.digest:
        yield f"Digest: `{facts.digest}`"
        yield ""
    yield from _training(facts.lineage)
    yield from _metrics(facts)
    yield from _evaluations(facts.evaluations)
    yield from _signature(facts.signature)
    yield from _files(facts.files)
    yield "## Pull"
    yield ""
    yield "```console"
    yield f"$ muster model pull {facts.model}:{facts.number} {facts.model}-{facts.number}"
    yield "```"
    yield ""
    if facts.notes:
        yield "## Notes"
        yield ""
        yield facts.notes


def _training(lineage: Mapping[str, Any]) -> Iterator[str]:
    rows: list[tuple[str, str]] = []
    if lineage.get("experiment_id"):
        name = _text(str(lineage.get("experiment_name") or ""))
        rows.append(("Experiment", f"{lineage['experiment_id']} ({name})"))
        rows.append(("Trial", str(lineage.get("trial_no"))))
    if lineage.get("attempt_no"):
        rows.append(("Attempt", str(lineage["attempt_no"])))
    if lineage.get("step") is not None:
        rows.append(("Step", f"{lineage['step']:,}"))
    if lineage.get("slot_hours") is not None:
        rows.append(("Slot-hours of the trial", f"{lineage['slot_hours']:.4g}"))
    for data in lineage.get("data") or []:
        digest = f" (`{data['digest']}`)" if data.get("digest") else ""
        rows.append(("Data", f"{_text(str(data['name']))}{digest}"))
    if lineage.get("code_sha256"):
        rows.append(("Code", f"`sha256:{lineage['code_sha256']}`"))
    if git := lineage.get("git"):
        changed = ", with uncommitted changes" if git.get("is_dirty") else ""
        rows.append(("Git commit", f"`{git.get('commit')}`{changed}"))
    if parent := lineage.get("parent"):
        step = f", step {parent['step']:,}" if parent.get("step") is not None else ""
        rows.append(
            (
                "Started from",
                f"experiment {parent['experiment_id']} ({_text(parent['experiment_name'])}){step}",
            )
        )
    if rows:
        yield "## Training"
        yield ""
        yield "| | |"
        yield "| --- | --- |"
        for name, value in rows:
            yield f"| {name} | {value} |"
        yield ""
    recipe = recipe_of(lineage)
    if recipe:
        yield "## Recipe"
        yield ""
        if "trainer" in recipe:
            yield "The values that were used. Settings of the trainer that are not named had their defaults."
            yield ""
        yield "```json"
        yield json.dumps(recipe, indent=2, ensure_ascii=False).replace("```", "` ` `")
        yield "```"
        yield ""


def recipe_of(lineage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a training has used: `trainer`, the built-in trainer's with the
    hyperparameters of the same name in place of its own and without defaults, and `hyperparameters`,
    which are no settings of the trainer. What is empty is left out."""
    hyperparameters = dict(lineage.get("hyperparameters") or {})
    if not lineage.get("trainer"):
        return {"hyperparameters": hyperparameters} if hyperparameters else {}
    trainer, defaults = dict(lineage["trainer"]), dump(TrainerSection())
    named = hyperparameters.keys() & defaults.keys()
    given = {name: hyperparameters.pop(name) for name in named - {"options"}}
    options = {**(trainer.get("options") or {}), **(hyperparameters.pop("options", None) or {})}
    trainer["options"] = {k: v for k, v in options.items() if k not in given}
    used = {
        name: value
        for name, value in {**trainer, **given}.items()
        if name in ("model", "data", *given) or value != defaults.get(name)
    }
    found = {"trainer": used, "hyperparameters": hyperparameters}
    return {name: values for name, values in found.items() if values}


def _metrics(facts: CardFacts) -> Iterator[str]:
    if not facts.metrics:
        return
    yield "## Metrics"
    yield ""
    yield "| metric | value |"
    yield "| --- | ---: |"
    for name in sorted(facts.metrics)[:SHOWN_METRICS]:
        value = facts.metrics[name]
        yield f"| {_text(name)} | {value if isinstance(value, str) else f'{value:.6g}'} |"
    if len(facts.metrics) > SHOWN_METRICS:
        yield f"| … and {len(facts.metrics) - SHOWN_METRICS} more | |"
    yield ""


def _evaluations(evaluations: Sequence[Evaluated]) -> Iterator[str]:
    if not evaluations:
        return
    yield "## Evaluations"
    yield ""
    yield "| data | split | metrics | digest of the data |"
    yield "| --- | --- | --- | --- |"
    for each in evaluations:
        values = ", ".join(f"{_text(name)} {value:.6g}" for name, value in each.metrics.items())
        yield f"| {_text(each.data)} | {_text(each.split)} | {values} | `{each.data_digest[:23]}…` |"
    yield ""


def _signature(signature: Mapping[str, Any] | None) -> Iterator[str]:
    if not signature:
        return
    yield "## Signature"
    yield ""
    yield "| | name | type | shape |"
    yield "| --- | --- | --- | --- |"
    for side in ("inputs", "outputs"):
        for tensor in signature.get(side) or []:
            shape = tensor.get("shape")
            shown = (
                "" if shape is None else f"[{', '.join('?' if n < 0 else str(n) for n in shape)}]"
            )
            yield (
                f"| {side[:-1]} | {_text(str(tensor.get('name') or ''))} | {_text(tensor['type'])} "
                f"| {shown and _text(shown)} |"
            )
    yield ""


def _files(files: Sequence[tuple[str, int | None, str]]) -> Iterator[str]:
    if not files:
        return
    yield "## Files"
    yield ""
    yield "| file | bytes |"
    yield "| --- | ---: |"
    for path, size_bytes, _ in files[:SHOWN_FILES]:
        yield f"| {_text(path)} | {'' if size_bytes is None else f'{size_bytes:,}'} |"
    if len(files) > SHOWN_FILES:
        yield f"| … and {len(files) - SHOWN_FILES} more | |"
    yield ""
    for path, _, warning in files[:SHOWN_FILES]:
        if warning:
            yield f"* {_text(path)}: {warning}"
    if any(warning for _, _, warning in files[:SHOWN_FILES]):
        yield ""


def _text(text: str) -> str:
    """Return text of people for one line of Markdown: nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
