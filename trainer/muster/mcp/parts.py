"""What the tools share: the types of their arguments, finding a trial, and rows of answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from muster.client import Client

from .answers import AnswerLine, own, picked, quoted

if TYPE_CHECKING:
    from muster.client import schema

Experiment = Annotated[int, Field(ge=1, description="Number of the experiment, such as 36")]
_Name = Annotated[
    str,
    BeforeValidator(lambda given: str(given) if type(given) is int else given),
    Field(pattern=r"^\d{1,9}(\.\d{1,9})?$"),
]
TrialName = Annotated[_Name, Field(description='"36.2", or "36" for its best or only trial')]
Subject = Annotated[_Name, Field(description='Experiment "36", or one trial of it, "36.2"')]
Overrides = Annotated[
    Sequence[str],
    Field(max_length=100, description='Changes of the document, such as "hyperparameters.lr=0.05"'),
]
Document = Annotated[
    str, Field(max_length=262_144, description="Experiment document in YAML; see read_docs")
]
Files = Annotated[
    dict[str, str] | None, Field(description='Code as path to text, such as {"train.py": "..."}')
]
Names = Annotated[Sequence[str], Field(max_length=20)]

FILES_MAX = 50
FILE_BYTES = 262_144
SUMMARY_METRICS = 25
"""Metrics of a trial that `show` sums up; `metrics` lists all."""
ATTEMPTS_SHOWN = 3


class ToolFailure(Exception):
    """An expected error of a tool, in a sentence that says what would work."""


def find_trial(client: Client, name: str) -> schema.TrialOut | schema.TrialDetail:
    """Return the trial of a name; of an experiment's, its best or only one. Raises ToolFailure."""
    experiment, _, no = name.partition(".")
    number = int(experiment)
    if no:
        found = client.get(f"/experiments/{number}/trials", no=int(no))["items"]
        if not found:
            raise ToolFailure(f"Experiment {number} has no trial {no}; list_trials lists them.")
        return found[0]
    try:
        return client.best_trial(number)
    except LookupError:
        raise ToolFailure(
            f"Experiment {number} has no best trial yet: name one, such as {number}.1; "
            "list_trials lists them."
        ) from None


def trial_lines(client: Client, trial: schema.TrialDetail) -> Iterator[AnswerLine]:
    planned = f" of {trial['num_steps_planned']}" if trial["num_steps_planned"] else ""
    yield own(
        f"Trial {address(trial)}: {trial['state']}, attempt {trial['attempt_no']}, "
        f"step {trial['step']}{planned}, {trial['num_slots_held']} of {trial['num_slots']} slots held."
    )
    yield quoted(
        picked(trial, "reason", "pending_reason", "estimated_start_at", "termination", "exit_code",
               "metric_name", "metric_goal", "metric", "hparams", "flags", "last_report_at")
    )  # fmt: skip
    for notice in trial["notices"]:
        yield quoted({"notice": notice["text"]})
    for attempt in trial["attempts"][:ATTEMPTS_SHOWN]:
        told = ("no", "state", "reason", "nodes", "resume_step", "root_rank", "root_log_tail")
        yield quoted({"attempt": picked(attempt, *told, "started_at", "ended_at")})
    for name, summary in list(trial["summary"].items())[:SUMMARY_METRICS]:
        yield quoted({name: picked(summary, "last", "min", "max", "step")})


def experiment_row(row: schema.ExperimentOut | schema.ExperimentDetail) -> dict[str, Any]:
    names = "id name project owner state reason searcher metric_name metric_goal best_metric"
    more = "num_trials progress priority created_at ended_at"
    return picked(row, *names.split(), *more.split())


def address(trial: schema.TrialOut | schema.TrialDetail) -> str:
    return f"{trial['experiment_id']}.{trial['no']}"


def without_parts(row: Any) -> dict[str, Any]:
    """Return a row without the parts of its messages, which are there for translations."""
    return picked(row, *(name for name in row if not name.endswith("parts")))


def flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def uploaded(client: Client, files: dict[str, str] | None) -> tuple[str | None, list[str]]:
    """Return the digest of uploaded code, and the changes of a document that name it. Raises ToolFailure."""
    if not files:
        return None, []
    from muster.code.bundle import make_bundle

    with tempfile.TemporaryDirectory(prefix="muster-mcp-") as folder:
        _write_files(Path(folder), files)
        bundle = make_bundle(Path(folder))
    try:
        return client.upload(bundle), ["code.path=."]
    finally:
        bundle.remove()


def _write_files(root: Path, files: dict[str, str]) -> None:
    """Write the code of a submission below a folder. Raises ToolFailure."""
    if len(files) > FILES_MAX or sum(map(len, files.values())) > FILE_BYTES:
        raise ToolFailure(
            f"files: at most {FILES_MAX} files with {FILE_BYTES:,} characters in all; "
            "send more with submit_folder or `muster submit`."
        )
    for name, text in files.items():
        path = (root / name.replace("\0", "")).resolve()
        if path == root.resolve() or not path.is_relative_to(root.resolve()):
            raise ToolFailure(f"files: {name!r} is no relative path inside the code folder.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ToolFailure(f"files: {name!r} cannot be written: {error.strerror}.") from None
