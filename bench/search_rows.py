"""A search whose trials have all ended, in the database: judged by the searcher that judges, with curves."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
from sqlalchemy import insert

from muster.document.experiment import ExperimentConfig
from muster_server.db.engine import Database
from muster_server.db.models import TrialRow
from muster_server.domain.search import (
    Action,
    CreateTrial,
    ResumeTrial,
    Searcher,
    Started,
    TrialEnded,
    Validated,
)
from muster_server.services.documents import resolve, search_spec
from muster_server.services.metrics import ingest
from support.data import NOW, add_attempt, add_experiment, metrics_record

LENGTH = 27
LANES = 64
EPOCH_S = 20
SPACE = {
    "lr": {"log": [1e-5, 1e-1]},
    "optimizer": {"choice": ["sgd", "adam", "lamb"]},
    "momentum": {"uniform": [0.0, 0.99], "when": {"optimizer": "sgd"}},
    "width": {"int": [16, 512], "step": 16},
    "weight_decay": {"log": [1e-6, 1e-2]},
    "dropout": {"uniform": [0, 0.6]},
}


def loss_of(hparams: dict[str, Any], units: float, noise: float) -> float:
    """Falls with training towards what the hyperparameters allow."""
    floor = 0.12 * abs(math.log10(hparams["lr"] / 3e-3)) + 0.2 * hparams["dropout"]
    floor += 3 / hparams["width"] + (0.0 if hparams["optimizer"] == "adam" else 0.12)
    floor -= 0.1 * hparams.get("momentum", 0.0)
    return round(float(floor + 1.5 / units**0.7 + 0.02 * noise), 6)


def fill_search(
    database: Database, num: int, num_curves: int, *, method: str = "asha", length: int = LENGTH
) -> int:
    """A search over `num` trials of up to `length` epochs, all ended; the best `num_curves` have a
    point per epoch. Its id. method: "asha", or "random", where all trials run to their end."""
    halving = {"divisor": 3} if method == "asha" else {}
    document = {
        "name": f"{method}-{num}",
        "entrypoint": ["-m", "train"],
        "resources": {"slots": 1},
        "hyperparameters": SPACE,
        "search": {
            "method": method, "metric": "val/loss", "goal": "min", "trials": num,
            "max_length": {"epochs": length}, "concurrent": LANES, **halving,
        },
    }  # fmt: skip
    resolved = resolve(json.dumps(document))
    assert resolved.config is not None, resolved.problems
    searcher, trials = _played(resolved.config, length)
    with database.transaction() as session:
        experiment = add_experiment(session, metric_name="val/loss")
        experiment.name, experiment.document = document["name"], json.dumps(document)
        experiment.config, experiment.state = resolved.config, "COMPLETED"
        experiment.search_state = searcher.state()
        id_ = experiment.id
    rows = [_row(id_, no, trial) for no, trial in sorted(trials.items())]
    for at in range(0, len(rows), 1_000):
        with database.transaction() as session:
            session.execute(insert(TrialRow), rows[at : at + 1_000])
    _add_curves(database, id_, num_curves)
    return id_


def _played(config: ExperimentConfig, length: int) -> tuple[Searcher, dict[int, dict[str, Any]]]:
    """The searcher at its end, and per trial its point, its values by length, and how it ended."""
    searcher = Searcher(search_spec(config))
    rungs, chance = searcher.spec.rungs or (length,), np.random.default_rng(1)
    trials: dict[int, dict[str, Any]] = {}
    todo: list[Action] = searcher.apply(Started())
    while todo:
        action = todo.pop(0)
        if isinstance(action, CreateTrial):
            trials[action.no] = {"hparams": action.hparams, "reached": -1, "values": {}}
        if not isinstance(action, CreateTrial | ResumeTrial):
            continue
        todo += _train(searcher, trials[action.no], action.no, list(rungs), chance)
    return searcher, trials


def _train(
    searcher: Searcher, trial: dict[str, Any], no: int, rungs: list[int], chance: Any
) -> list[Action]:
    """To its next rung, and on while nobody stops it."""
    out: list[Action] = []
    while True:
        begun = 1 if trial["reached"] < 0 else rungs[trial["reached"]] + 1
        trial["reached"] += 1
        for units in range(begun, rungs[trial["reached"]] + 1):
            trial["values"][units] = loss_of(trial["hparams"], units, chance.normal())
        value = trial["values"][units]
        decided = searcher.apply(Validated(trial_no=no, units=units, value=value))
        is_last = units == rungs[-1]
        out += decided
        if not is_last and not any(getattr(a, "no", None) == no for a in decided):
            continue
        best = min(trial["values"].values())
        trial["state"] = "COMPLETED" if is_last else "STOPPED_EARLY"
        outcome = "completed" if is_last else "early"
        out += searcher.apply(TrialEnded(trial_no=no, outcome=outcome, value=best))
        return out


def _row(experiment_id: int, no: int, trial: dict[str, Any]) -> dict[str, Any]:
    epochs = max(trial["values"])
    began = NOW + dt.timedelta(seconds=(no // LANES) * EPOCH_S * 3 + no % LANES)
    return {
        "experiment_id": experiment_id,
        "no": no,
        "hparams": trial["hparams"],
        "seed": no,
        "state": trial["state"],
        "metric": min(trial["values"].values()),
        "step": 10 * epochs,
        "epoch": float(epochs),
        "queued_at": NOW,
        "created_at": NOW,
        "started_at": began,
        "ended_at": began + dt.timedelta(seconds=EPOCH_S * epochs),
    }


def _add_curves(database: Database, experiment_id: int, num: int) -> None:
    from sqlalchemy import select

    with database.read() as session:
        ids = session.scalars(
            select(TrialRow.id)
            .where(TrialRow.experiment_id == experiment_id)
            .order_by(TrialRow.metric)
            .limit(num)
        ).all()
    chance = np.random.default_rng(2)
    for at in range(0, len(ids), 200):
        with database.transaction() as session:
            for trial_id in ids[at : at + 200]:
                trial = session.get_one(TrialRow, trial_id)
                state, step, epoch = trial.state, trial.step, trial.epoch
                (allocation,) = add_attempt(session, trial)
                values = [
                    (10 * n, loss_of(trial.hparams, n, chance.normal()))
                    for n in range(1, int(epoch or 0) + 1)
                ]
                record = metrics_record({"val/loss": values})
                ingest.ingest(session, allocation=allocation, seq=1, record=record, at=NOW)
                trial.state, trial.step, trial.epoch = state, step, epoch
