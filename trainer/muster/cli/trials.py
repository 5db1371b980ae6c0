"""How commands name trials: by the number of their experiment (36), or that and their own (36.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import CommandFailure

if TYPE_CHECKING:
    from muster.client import Client

_REFERENCE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")
NUMBERS_SHOWN = 20


@dataclass(frozen=True)
class TrialReference:
    """An experiment, or one of its trials."""

    experiment: int
    no: int | None = None
    """Number of the trial within the experiment; None for its only trial, or for all of them."""

    def __str__(self) -> str:
        return str(self.experiment) if self.no is None else f"{self.experiment}.{self.no}"


def parse_trial(text: str | TrialReference) -> TrialReference:
    """Return what "36" or "36.2" names. Raises BadParameter."""
    if isinstance(text, TrialReference):
        return text
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} names neither an experiment (36) nor a trial of one (36.2)."
        )
    return TrialReference(int(found[1]), int(found[2]) if found[2] else None)


TrialArgument = Annotated[
    TrialReference,
    typer.Argument(
        metavar="TRIAL",
        parser=parse_trial,
        help="The trial: 36.2, or 36 for the only trial of experiment 36.",
    ),
]
ExperimentOrTrialArgument = Annotated[
    TrialReference,
    typer.Argument(
        metavar="EXPERIMENT[.TRIAL]",
        parser=parse_trial,
        help="Number of the experiment (36), or of one of its trials (36.2).",
    ),
]


def find_trial(client: Client, reference: TrialReference) -> dict[str, Any]:
    """Return a trial as the list of trials shows it.

    Raises CommandFailure for a number that the experiment does not have, and for an experiment with
    several trials when none is named.
    """
    experiment = reference.experiment
    path = f"/experiments/{experiment}/trials"
    if reference.no is not None:
        found = client.get(path, no=reference.no)["items"]
        if found:
            return dict(found[0])
    trials = list(client.pages(path, limit=2, sort="no"))
    if reference.no is None and len(trials) == 1:
        return trials[0]
    if not trials:
        raise CommandFailure(f"Experiment {experiment} has no trials yet.")
    last = client.get(path, sort="-no", limit=1)["items"][0]["no"]
    if reference.no is not None:
        raise CommandFailure(
            f"Experiment {experiment} has no trial {reference.no}.", _choices(experiment, last)
        )
    count = client.experiment(experiment)["num_trials"]
    raise CommandFailure(
        f"Experiment {experiment} has {count:,} trials.", f"name one: {_choices(experiment, last)}"
    )


def _choices(experiment: int, last: int) -> str:
    """Return how the trials of an experiment are named, for example "36.1 to 36.8"."""
    return f"{experiment}.1" if last == 1 else f"{experiment}.1 to {experiment}.{last}"


def address(trial: dict[str, Any]) -> str:
    """Return how commands name a trial, for example "36.2"."""
    return f"{trial['experiment_id']}.{trial['no']}"


def numbers_text(numbers: Sequence[int]) -> str:
    """Return numbers as a list for people, cut after NUMBERS_SHOWN."""
    more = ", …" if len(numbers) > NUMBERS_SHOWN else ""
    return ", ".join(map(str, numbers[:NUMBERS_SHOWN])) + more
