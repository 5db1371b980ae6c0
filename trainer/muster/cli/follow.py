"""Progress of experiments in the terminal: one row per trial, redrawn until all have ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import typer

from .absent import ServerObject
from .exit_codes import EXIT_CANCELED, EXIT_FAILED, EXIT_INTERRUPTED
from .output import console, escape, number, printed_json, report_outage, say, styled_state, table

if TYPE_CHECKING:
    from rich.table import Table

    from muster.client import Client, schema

    class ShownTrial(schema.TrialOut):
        figures: dict[str, float]

    class ShownExperiment(schema.ExperimentDetail):
        trials: list[ShownTrial]


TERMINAL = frozenset({"COMPLETED", "CANCELED", "FAILED"})
TRIALS_SHOWN = 12
DRAW_EVERY_S = 0.8


def snapshot(client: Client, experiment_ids: Sequence[int]) -> list[ShownExperiment]:
    """Return the experiments with their trials under "trials"; those that `progress_table` shows have
    their figures under "figures"."""
    found: list[ShownExperiment] = [
        cast(
            "ShownExperiment",
            ServerObject(client.experiment(i), trials=client.trials(i, limit=200)),
        )
        for i in experiment_ids
    ]
    for experiment in found:
        shown = _shown_trials(experiment, len(found))
        figures = client.figures(experiment["id"], [t["no"] for t in shown]) if shown else {}
        for trial in shown:
            trial["figures"] = figures.get(trial["id"], {})
    return found


def _shown_trials(experiment: ShownExperiment, num_experiments: int) -> list[ShownTrial]:
    """Return the trials that have a row of their own: running ones first, then the newest."""
    order = {"RUNNING": 0, "STOPPING": 0, "STARTING": 1, "RETRY_WAIT": 1}
    chosen = sorted(experiment["trials"], key=lambda t: (order.get(t["state"], 2), -t["no"]))
    return sorted(chosen[: max(2, TRIALS_SHOWN // max(1, num_experiments))], key=lambda t: t["no"])


def headline_text(trial: schema.TrialOut) -> str:
    """Return the metric that the server says stands for a trial, for example "val/loss 0.0123", with
    its step where the trial is at another one; "–" if there is none."""
    name = trial.get("headline")
    if name is None:
        return "–"
    entry = trial["summary"][name]
    at = "" if entry["step"] == trial["step"] else f" at step {entry['step']}"
    return f"{name} {number(entry['last'])}{at}"


def speed_text(figures: Mapping[str, float | None]) -> str:
    """Return how much a trial trains on per second, for example "12.3 samples/s"; "–" if unknown."""
    for what in ("samples", "rows", "tokens"):
        rate = figures.get(f"throughput/{what}_per_s")
        if rate is not None:
            return f"{number(rate, 5)} {what}/s"
    return "–"


def communication_text(figures: Mapping[str, float | None]) -> str:
    """Return the share of the step that is exposed communication; "–" if unknown."""
    ratio = figures.get("comm/overhead_ratio")
    return "–" if ratio is None else f"{ratio:.0%}"


def progress_table(experiments: Sequence[ShownExperiment]) -> Table:
    """Return a table with running and newest trials first; the rest is counted in a last line per
    experiment."""
    shown = table(
        "experiment", "trial", "state", "epoch", "step", "metric", "speed", "comm",
        right=("epoch", "step", "speed", "comm"),
    )  # fmt: skip
    for experiment in experiments:
        trials = experiment["trials"]
        name = escape(experiment["name"])
        rows = _shown_trials(experiment, len(experiments))
        for trial in rows:
            shown.add_row(
                name,
                str(trial["no"]),
                " ".join([styled_state(trial["state"]), *map(str.lower, trial["flags"])]),
                number(trial["epoch"], 3),
                _steps(trial),
                escape(headline_text(trial)),
                speed_text(trial["figures"]),
                communication_text(trial["figures"]),
            )
            name = ""
        rest = len(trials) - len(rows)
        counts = ", ".join(
            f"{count} {state.lower()}"
            for state, count in sorted(experiment["num_trials_by_state"].items())
            if count
        )
        if not trials:
            shown.add_row(name, "", styled_state(experiment["state"]))
        elif rest > 0:
            shown.add_row("", "", f"[dim]{len(trials)} trials: {counts}[/dim]")
    return shown


def _steps(trial: schema.TrialOut) -> str:
    planned = trial["num_steps_planned"]
    return f"{trial['step']}/{planned}" if planned else str(trial["step"])


def follow(client: Client, experiment_ids: Sequence[int]) -> list[ShownExperiment]:
    """Show progress until all of these experiments have ended, and return their final state."""
    if not sys.stderr.isatty():
        return _follow_in_lines(client, experiment_ids)
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True, highlight=False), refresh_per_second=4) as live:
        while True:
            experiments = snapshot(client, experiment_ids)
            live.update(progress_table(experiments), refresh=True)
            if all(e["state"] in TERMINAL for e in experiments):
                return experiments
            time.sleep(DRAW_EVERY_S)


@contextmanager
def going_on(experiment_id: int) -> Iterator[None]:
    """Explain at Ctrl-C that the experiment goes on without the command. Raises Exit then."""
    try:
        yield
    except KeyboardInterrupt:
        say(
            f"\nExperiment {experiment_id} goes on. Follow it: muster logs {experiment_id} -f. "
            f"Stop it: muster stop {experiment_id}."
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None


def follow_to_the_end(client: Client, experiment_id: int) -> None:
    """Show progress of one experiment until it has ended, then its result. Raises Exit if it failed
    or was canceled, or at Ctrl-C."""
    with going_on(experiment_id), client.patience(report_outage):
        (ended,) = follow(client, [experiment_id])
    if not printed_json(ended):
        print_result([ended])
    if ended["state"] == "FAILED":
        raise typer.Exit(EXIT_FAILED)
    if ended["state"] == "CANCELED":
        raise typer.Exit(EXIT_CANCELED)


def _follow_in_lines(client: Client, experiment_ids: Sequence[int]) -> list[ShownExperiment]:
    """Follow line by line, for pipes and CI logs: a line whenever a state or an epoch changes."""
    seen: dict[tuple[str, int], tuple[Any, ...]] = {}
    while True:
        experiments = snapshot(client, experiment_ids)
        for experiment in experiments:
            for trial in experiment["trials"]:
                epoch = None if trial["epoch"] is None else int(trial["epoch"])
                now = (trial["state"], epoch, tuple(trial["flags"]))
                if seen.get(("trial", trial["id"])) != now:
                    seen["trial", trial["id"]] = now
                    say(trial_line(experiment, trial))
            state = (experiment["state"],)
            if seen.get(("experiment", experiment["id"])) != state:
                seen["experiment", experiment["id"]] = state
                say(f"experiment {experiment['id']} {experiment['name']}: {experiment['state']}")
        if all(e["state"] in TERMINAL for e in experiments):
            return experiments
        time.sleep(DRAW_EVERY_S)


def trial_line(experiment: schema.ExperimentDetail, trial: schema.TrialOut) -> str:
    parts = [f"trial {experiment['id']}.{trial['no']}: {trial['state']}"]
    if trial["epoch"] is not None:
        parts.append(f"epoch {number(trial['epoch'], 3)}")
    if trial.get("headline") is not None:
        parts.append(headline_text(trial))
    parts += [flag.lower() for flag in trial["flags"]]
    if trial["state"] in ("QUEUED", "RETRY_WAIT") and trial["pending_reason"]:
        parts.append(trial["pending_reason"])
    if trial["state"] in ("FAILED", "CANCELED") and trial["reason"]:
        parts.append(trial["reason"])
    return ", ".join(parts)


def print_result(experiments: Sequence[ShownExperiment]) -> None:
    """Print the final table on stdout, so that it survives the live display."""
    console().print(progress_table(experiments))
    for experiment in experiments:
        if experiment["state"] == "FAILED" and experiment["reason"]:
            say(f"{experiment['name']}: {experiment['reason']}")
