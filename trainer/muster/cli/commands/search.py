"""Commands for a running search: control it, or run its trials from a shell (ask/tell)."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Annotated, Any, Literal

import typer

from ..absent import server
from ..group import CommandSet
from ..output import CommandFailure, console, escape, number, print_json, usage_error, wants_json
from ..trials import ExperimentArgument, TrialArgument, address, find_trial

app = CommandSet(help="Control a running search, or run its trials yourself (ask/tell).")


@app.command()
def enqueue(
    experiment: ExperimentArgument,
    hparams: Annotated[str, typer.Argument(help='A point as JSON: {"lr": 0.01}')],
    name: Annotated[
        str | None,
        typer.Option(help="Name of the point; each name is tried once. Default: a new one."),
    ] = None,
) -> None:
    """Enqueue a point of your own. It is tried before the points that the search draws."""
    from muster.ask_tell import Drive

    drive = Drive(server(), experiment)
    _print_point(drive, drive.enqueue(_object("HPARAMS", hparams), name=name))


@app.command()
def point(
    experiment: ExperimentArgument, name: Annotated[str, typer.Argument(help="Name of the point.")]
) -> None:
    """Show the result of a point."""
    from muster.ask_tell import Drive

    _print_point(Drive(server(), experiment), name)


@app.command(takes_json=False)
def close(experiment: ExperimentArgument) -> None:
    """Stop creating trials. Existing trials run to completion."""
    from muster.ask_tell import Drive

    Drive(server(), experiment).close()
    console().print(f"Experiment {experiment} will create no more trials.")


@app.command(takes_json=False)
def limits(
    experiment: ExperimentArgument,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Total number of trials; not below the existing ones.")
    ] = None,
    concurrent: Annotated[
        str | None,
        typer.Option(help="Parallel trials: a number, or auto to follow the free slots."),
    ] = None,
) -> None:
    """Change the total or parallel number of trials of a running search."""
    body: dict[str, Any] = {} if trials is None else {"trials": trials}
    if concurrent is not None:
        if concurrent != "auto" and not concurrent.isdecimal():
            raise usage_error(
                f"--concurrent {concurrent!r} is not a number.", "give a number, or auto"
            )
        body["concurrent"] = "auto" if concurrent == "auto" else int(concurrent)
    if not body:
        raise usage_error("Nothing to change.", "give --trials, --concurrent or both")
    server().put(f"/experiments/{experiment}/search/limits", body)
    changed = ", ".join(f"{name} {value}" for name, value in body.items())
    console().print(f"Experiment {experiment}: {changed}.")


@app.command(takes_json=False)
def promote(
    trial: TrialArgument,
) -> None:
    """Promote a trial that is waiting at its rung, ahead of all others whatever its rank."""
    chosen = find_trial(trial)
    server().call("POST", f"/trials/{chosen['id']}:promote")
    console().print(f"Trial {address(chosen)} continues as soon as slots are free.")


@app.command()
def ask(
    experiment: ExperimentArgument,
    count: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of trials.")] = 1,
) -> None:
    """Get trials to run yourself (search.runner: external)."""
    from muster.ask_tell import Drive

    asked = Drive(server(), experiment).ask(count)
    if wants_json():
        shown = ("no", "hparams", "seed", "units", "max_units", "unit")
        print_json({"trials": [{key: getattr(trial, key) for key in shown} for trial in asked]})
        return
    for trial in asked:
        length = f", up to {trial.max_units} {trial.unit}" if trial.max_units else ""
        console().print(
            f"Trial {experiment}.{trial.no}: {escape(json.dumps(trial.hparams))}{length}"
        )
    if not asked:
        console().print("No trials now: the search needs results first, or it is over.")


@app.command(takes_json=False)
def tell(
    trial: TrialArgument,
    metrics: Annotated[str, typer.Argument(help='Values as JSON: {"val/loss": 0.3}')] = "{}",
    units: Annotated[
        float | None, typer.Option(help="Units trained so far, in the unit of search.max_length.")
    ] = None,
    state: Annotated[
        Literal["running", "completed", "failed", "invalid"],
        typer.Option(help="State of the trial."),
    ] = "running",
    reason: Annotated[str, typer.Option(help="Reason of a failure, in a sentence.")] = "",
) -> None:
    """Report results of a trial that you run. Prints continue, pause, stop or over."""
    from muster.ask_tell import Drive

    values = {name: _float(name, value) for name, value in _object("METRICS", metrics).items()}
    with warnings.catch_warnings(record=True) as hints:
        warnings.simplefilter("always")
        no = trial.no or find_trial(trial)["no"]
        decision = Drive(server(), trial.experiment).tell(
            no, values, units, state=state, reason=reason
        )
    for hint in hints:
        print(f"muster: {hint.message}", file=sys.stderr)
    print(decision)


def _print_point(drive: Any, name: str) -> None:
    found = drive.result(name)
    if wants_json():
        shown = ("point", "trial_no", "state", "metric", "reason")
        print_json({key: getattr(found, key) for key in shown})
        return
    trial = (
        f"trial {drive.experiment_id}.{found.trial_no}"
        if found.trial_no is not None
        else "waits for room"
    )
    value = f", {number(found.metric)}" if found.metric is not None else ""
    state = f" {found.state}" if found.state else ""
    console().print(f"{escape(found.point)}: {trial}{state}{value}")


def _object(what: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandFailure(f"{what} is not JSON: {error}", 'for example {"lr": 0.01}') from None
    if not isinstance(value, dict):
        raise CommandFailure(f"{what} is not a JSON object", 'for example {"lr": 0.01}')
    return value


def _float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CommandFailure(
            f"{name} is {value!r}, which is not a number", "a number, or NaN"
        ) from None
