"""Runs that scripts have started with MLflow, as `muster show` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .absent import server
from .output import console, escape, table

if TYPE_CHECKING:
    from muster.client import schema

MAX_RUNS = 50
"""Most child runs that are printed."""


def tracked_runs(trial_id: int) -> list[schema.TrackedRunOut]:
    """Return the first runs of a trial, that of the trial itself among them; [] for none."""
    page = server().get(f"/trials/{trial_id}/tracked-runs", limit=MAX_RUNS + 1)
    return list(page["items"])


def show_tracked_runs(runs: Sequence[schema.TrackedRunOut]) -> None:
    """Print the params and tags of the script, then its child runs."""
    out = console()
    children = []
    for run in runs:
        if run["label"]:
            children.append(run)
            continue
        tags = {k: v for k, v in run["tags"].items() if not k.startswith("mlflow.")}
        for title, values in (("Parameters of the script", run["params"]), ("Tags", tags)):
            if values:
                out.print(f"{title}: {escape(_pairs(values))}", highlight=False)
    if not children:
        return
    shown = table("child run", "status", "parameters")
    for run in children[:MAX_RUNS]:
        shown.add_row(escape(run["name"]), escape(run["status"]), escape(_pairs(run["params"])))
    out.print(shown)
    if len(children) > MAX_RUNS:
        out.print(f"The first {MAX_RUNS} child runs are shown; --json has as many.")


def _pairs(values: dict[str, str]) -> str:
    return "  ".join(f"{key}={value}" for key, value in values.items())
