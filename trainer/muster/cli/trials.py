"""How commands name experiments and trials: by number (36, 36.2), or by the experiment's name (digits,
digits.2). `name:2024` is the name of one that is called like a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .absent import server
from .output import CommandFailure, age, usage_error

if TYPE_CHECKING:
    from muster.client import schema

_REFERENCE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")
_TRIAL_OF_NAME = re.compile(r"(.+)\.(\d{1,9})")
_NAME_PREFIX = "name:"
NAME_MAX_CHARS = 200
NUMBERS_SHOWN = 20
CANDIDATES_SHOWN = 10


@dataclass(frozen=True)
class TrialReference:
    """An experiment, or one of its trials."""

    experiment: int
    no: int | None = None
    """Number of the trial within the experiment; None for its only trial, or for all of them."""

    def __str__(self) -> str:
        return str(self.experiment) if self.no is None else f"{self.experiment}.{self.no}"


def parse_trial(text: str | TrialReference) -> TrialReference:
    """Return what "36", "36.2", "digits" or "digits.2" names; names are looked up on the server.

    Raises BadParameter, CommandFailure and ClientError.
    """
    if isinstance(text, TrialReference):
        return text
    found = _REFERENCE.fullmatch(text)
    if found is not None:
        return TrialReference(int(found[1]), int(found[2]) if found[2] else None)
    name = text.removeprefix(_NAME_PREFIX)
    if not name.strip() or len(name) > NAME_MAX_CHARS:
        raise typer.BadParameter(f"{text!r} is neither a number (36, 36.2) nor a name.")
    return _find_named(name)


def parse_experiment(text: str | int) -> int:
    """Return the number of the experiment that "36" or "digits" names. Raises as parse_trial."""
    if isinstance(text, int):
        return text
    reference = parse_trial(text)
    if reference.no is not None:
        raise typer.BadParameter(f"{text!r} names a trial; an experiment is expected here.")
    return reference.experiment


def _find_named(name: str) -> TrialReference:
    """Return the experiment of a name, or its trial; archived ones count where no other has the name.

    Raises CommandFailure for none, and for several.
    """

    def named(wanted: str) -> list[schema.ExperimentOut]:
        found = server().pages(
            "/experiments", where=[f"name = {wanted}"], archived="include", limit=1000
        )
        exact = [e for e in found if e["name"] == wanted]
        return [e for e in exact if e["archived_at"] is None] or exact

    found, no = named(name), None
    of_trial = _TRIAL_OF_NAME.fullmatch(name)
    if not found and of_trial is not None:
        found, no = named(of_trial[1]), int(of_trial[2])
    if not found:
        near = list(server().pages("/experiments", q=name, limit=CANDIDATES_SHOWN))
        raise usage_error(
            f"{name!r} names neither an experiment nor a trial of one (36.2).",
            f"there is {_candidates(near)}" if near else "`muster list` shows all names",
        )
    if len(found) > 1:
        raise usage_error(
            f"{len(found):,} experiments are named {found[0]['name']!r}.",
            f"give a number: {_candidates(found)}",
        )
    return TrialReference(found[0]["id"], no)


def _candidates(experiments: Sequence[schema.ExperimentOut]) -> str:
    """Return experiments as a list for people, newest first, cut after CANDIDATES_SHOWN."""
    shown = [
        f"{e['id']} ({e['name']}, {e['state']}, {age(e['created_at'])} old)"
        for e in experiments[:CANDIDATES_SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(experiments) > CANDIDATES_SHOWN else "")


ExperimentArgument = Annotated[
    int,
    typer.Argument(
        metavar="EXPERIMENT", parser=parse_experiment, help="The experiment: its number or name."
    ),
]
TrialArgument = Annotated[
    TrialReference,
    typer.Argument(
        metavar="TRIAL",
        parser=parse_trial,
        help="The trial: 36.2, or 36 or a name for the only trial of that experiment.",
    ),
]
ExperimentOrTrialArgument = Annotated[
    TrialReference,
    typer.Argument(
        metavar="EXPERIMENT[.TRIAL]",
        parser=parse_trial,
        help="The experiment: its number (36) or name; or one of its trials (36.2).",
    ),
]


def find_trial(reference: TrialReference) -> schema.TrialOut:
    """Return a trial as the list of trials shows it.

    Raises CommandFailure for a number that the experiment does not have, and for an experiment with
    several trials when none is named.
    """
    experiment = reference.experiment
    if reference.no is not None:
        found = server().get(f"/experiments/{experiment}/trials", no=reference.no)["items"]
        if found:
            return found[0]
    trials = server().trials(experiment, limit=2)
    if reference.no is None and len(trials) == 1:
        return trials[0]
    if not trials:
        raise CommandFailure(f"Experiment {experiment} has no trials yet.")
    newest = server().get(f"/experiments/{experiment}/trials", sort="-no", limit=1)["items"]
    last = newest[0]["no"]
    if reference.no is not None:
        raise CommandFailure(
            f"Experiment {experiment} has no trial {reference.no}.", _choices(experiment, last)
        )
    count = server().experiment(experiment)["num_trials"]
    raise CommandFailure(
        f"Experiment {experiment} has {count:,} trials.", f"name one: {_choices(experiment, last)}"
    )


def _choices(experiment: int, last: int) -> str:
    """Return how the trials of an experiment are named, for example "36.1 to 36.8"."""
    return f"{experiment}.1" if last == 1 else f"{experiment}.1 to {experiment}.{last}"


def address(trial: schema.TrialOut) -> str:
    """Return how commands name a trial, for example "36.2"."""
    return f"{trial['experiment_id']}.{trial['no']}"


def numbers_text(numbers: Sequence[int]) -> str:
    """Return numbers as a list for people, cut after NUMBERS_SHOWN."""
    more = ", …" if len(numbers) > NUMBERS_SHOWN else ""
    return ", ".join(map(str, numbers[:NUMBERS_SHOWN])) + more
