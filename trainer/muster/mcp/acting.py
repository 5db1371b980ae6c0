"""Tools that start, change or stop something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from muster.client import Client

from .answers import AnswerLine, own, quoted
from .parts import (
    Document,
    Experiment,
    Files,
    Overrides,
    Subject,
    ToolFailure,
    TrialName,
    experiment_row,
    find_trial,
    uploaded,
)

if TYPE_CHECKING:
    from muster.client import schema


def submit(
    client: Client, document: Document, files: Files = None, overrides: Overrides = ()
) -> Iterator[AnswerLine]:
    """Submit an experiment, with small text files as its code. Check with preview first. Uses slots."""
    digest, more = uploaded(client, files)
    made = client.submit(document, overrides=[*overrides, *more], blob_sha256=digest)
    yield from made_lines(made)


def submit_folder(
    client: Client,
    document: Document,
    folder: Annotated[str, Field(description="Folder of the code, below the current one")] = ".",
    overrides: Overrides = (),
) -> Iterator[AnswerLine]:
    """Submit an experiment with a folder of this machine as its code. Uses slots."""
    here = Path.cwd().resolve()
    path = (here / folder).resolve()
    if not path.is_relative_to(here):
        raise ToolFailure(
            f"folder: {folder!r} is outside {here}, where `muster mcp` was started; start it there."
        )
    made = client.submit(document, code=path, overrides=overrides)
    yield from made_lines(made)


def fork_experiment(
    client: Client,
    experiment: Experiment,
    overrides: Overrides = (),
    checkpoint: Annotated[
        int | None, Field(ge=1, description="Id of a checkpoint to go on from; none: from scratch")
    ] = None,
    load: Annotated[Literal["all", "weights"], Field(description="What to take of it")] = "all",
) -> Iterator[AnswerLine]:
    """Start a new experiment from the document and code of another, with changes. Uses slots."""
    start = None if checkpoint is None else {"checkpoint": checkpoint, "load": load}
    yield from made_lines(client.fork(experiment, overrides=overrides, start_from=start))


def continue_experiment(
    client: Client,
    experiment: Experiment,
    steps: Annotated[int | None, Field(ge=1, description="Steps in all, from step 0")] = None,
    epochs: Annotated[int | None, Field(ge=1, description="Epochs in all")] = None,
    overrides: Overrides = (),
) -> Iterator[AnswerLine]:
    """Go on with an experiment that has ended, from its newest checkpoints. Uses slots."""
    if steps and epochs:
        raise ToolFailure("steps and epochs exclude each other: give one of them.")
    length = {"steps": steps} if steps else {"epochs": epochs} if epochs else None
    yield from made_lines(client.continue_(experiment, length=length, overrides=overrides))


def stop(client: Client, subject: Subject) -> Iterator[AnswerLine]:
    """Stop an experiment or one trial, with time for a last checkpoint."""
    if "." in subject:
        trial = client.stop_trial(find_trial(client, subject)["id"])
        yield own(f"Trial {subject}: {trial['state']}, asked to stop.")
    else:
        yield own(f"Experiment {subject}: {client.stop(int(subject))['state']}, asked to stop.")


def pause(client: Client, experiment: Experiment) -> Iterator[AnswerLine]:
    """Have an experiment save checkpoints and release its slots until it is resumed."""
    yield own(f"Experiment {experiment}: {client.pause(experiment)['state']}, asked to pause.")


def resume(client: Client, experiment: Experiment) -> Iterator[AnswerLine]:
    """Queue the trials of a paused experiment again. Uses slots."""
    yield own(f"Experiment {experiment}: {client.resume(experiment)['state']}, resumed.")


def start_diagnosis(client: Client, trial: TrialName) -> Iterator[AnswerLine]:
    """Run short probes on as many slots as a trial has, to find what limits it. Uses slots."""
    found = client.post(f"/trials/{find_trial(client, trial)['id']}/diagnoses", {})
    num = len(found["probes"])
    yield own(f"{num} probes run as experiment {found['probes_id']}; diagnosis shows the verdict.")


def made_lines(made: schema.ExperimentDetail) -> Iterator[AnswerLine]:
    yield own(f'Created experiment {made["id"]}: {made["state"]}. show "{made["id"]}" follows it.')
    yield quoted(experiment_row(made))
