"""Finished trials whose results stand for those of new ones with the same inputs."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster import __version__, wire
from muster.document.experiment import ExperimentConfig
from muster.wire import decode_number
from muster_server.db.models import AllocationRow, AttemptRow, ExperimentRow, TrialRow
from muster_server.domain.experiments.reuse import declared, inputs_of, key_of, obstacle
from muster_server.domain.lifecycle.outcomes import DOUBTFUL
from muster_server.domain.messages import AnyMessage, Message, sentences
from muster_server.domain.metrics import headline_of
from muster_server.domain.states import TrialState

from ..core import access
from ..core.events import add_event
from . import events

NEWEST_LOOKED_AT = 20
"""Finished trials with one key that are looked at for a result that can be taken."""

_OF_EXPERIMENT = ExperimentRow.id == TrialRow.experiment_id
KeyOf = Callable[..., str | None]


def keys_of(
    config: ExperimentConfig, code_sha256: str | None, data: Mapping[str, str] | None = None
) -> KeyOf:
    """Return the function that gives the key of a trial with these `hparams` and this `seed`; None where
    its inputs are not known.

    data: digests of its data sets. None: those that the document gives.
    """
    data = declared(config) if data is None else data
    if obstacle(config, code_sha256, data) is not None:
        return lambda hparams, seed: None
    inputs = inputs_of(config, code_sha256=code_sha256, data=data, version=__version__)
    return functools.partial(_key, inputs)


def note_data(session: Session, allocation_id: str, data: Mapping[str, wire.DataRead]) -> None:
    """Take note of the data sets with which an attempt of a trial starts: whoever asks for the same ones
    can have its result. What it reads differently in a later attempt belongs to no key."""
    query = (
        select(TrialRow, ExperimentRow, AttemptRow.no, AttemptRow.num_nodes)
        .join(ExperimentRow, _OF_EXPERIMENT)
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .join(AllocationRow, AllocationRow.attempt_id == AttemptRow.id)
        .where(AllocationRow.id == allocation_id)
    )
    trial, experiment, no, num_nodes = session.execute(query).one()
    given = declared(experiment.config)
    if given.keys() == experiment.config.data.keys() or trial.num_continued:
        return  # Every node has made sure of these, or it has no key any more.
    read = {name: one.digest for name, one in data.items() if one.digest}
    # The other nodes of a gang may have other files under the same path.
    key = None
    if num_nodes == 1:
        key = keys_of(experiment.config, experiment.blob_sha256, read)(trial.hparams, trial.seed)
    if no == 1:
        trial.reuse_key = key
    elif trial.reuse_key != key:
        trial.reuse_key = None


def _key(inputs: str, hparams: Mapping[str, Any], seed: int) -> str:
    return key_of(inputs, hparams=hparams, seed=seed)


def find(
    session: Session, key: str | None, config: ExperimentConfig, *, owner_id: int | None = None
) -> TrialRow | None:
    """Return the newest trial that has completed with these inputs and can be taken for a trial of this
    configuration; None if there is none.

    owner_id: user for whom it is taken, who has to see it. None: the caller of the request, from whom
    what is hidden is left out anyway.
    """
    if key is None:
        return None
    conditions = (
        TrialRow.reuse_key == key,
        TrialRow.state == TrialState.COMPLETED,
        TrialRow.reused_from.is_(None),
        ExperimentRow.deleting_at.is_(None),
    )
    projects = session.scalars(
        select(ExperimentRow.project_id)
        .join(TrialRow, _OF_EXPERIMENT)
        .where(*conditions)
        .distinct()
    ).all()
    if owner_id is not None:
        projects = [one for one in projects if access.may(session, "read", one, owner_id)]
    if not projects:
        return None
    rows = session.scalars(
        select(TrialRow)
        .join(ExperimentRow, _OF_EXPERIMENT)
        .where(*conditions, ExperimentRow.project_id.in_(projects))
        .order_by(TrialRow.id.desc())
        .limit(NEWEST_LOOKED_AT)
    )
    return next((row for row in rows if _is_usable(row, config)), None)


def _is_usable(trial: TrialRow, config: ExperimentConfig) -> bool:
    """Return whether a completed trial has ended well, as it began, with the metrics that are compared."""
    search = config.search
    compared = {search.metric, *(o.metric for o in search.objectives or ())} - {None}
    return (
        not trial.reason.startswith(DOUBTFUL)
        and trial.hparams_before is None
        and compared <= trial.summary.keys()
    )


def take(
    session: Session, experiment: ExperimentRow, trial: TrialRow, source: TrialRow, now: dt.datetime
) -> None:
    """Let a new trial be COMPLETED with the result of another. Its values are kept with it; curves, logs
    and checkpoints stay those of the source."""
    home = session.get_one(ExperimentRow, source.experiment_id).project_id
    # Who sees this trial need not see the project of the other one.
    named = f"trial {source.address}" if home == experiment.project_id else "another trial"
    trial.state, trial.reused_from = TrialState.COMPLETED, source.id
    trial.summary, trial.step, trial.epoch = source.summary, source.step, source.epoch
    trial.num_steps_planned = source.num_steps_planned
    trial.ended_at, trial.logs_complete = now, True
    trial.reason = f"took the result of {named}, which had the same inputs"
    add_event(
        session,
        "trial.reused",
        f"Trial {trial.no} is COMPLETED: it {trial.reason}.",
        now=now,
        experiment_id=experiment.id,
        trial_id=trial.id,
    )
    session.flush()
    if experiment.metric_name is not None:
        best = "max" if experiment.metric_goal == "max" else "min"
        value = source.summary[experiment.metric_name][best]
        events.note_best(session, trial, [] if value is None else [value], now)
    events.on_trial_terminal(session, trial, now)


def notice(session: Session, trial: TrialRow, config: ExperimentConfig) -> list[AnyMessage]:
    """Return that a trial which has not ended has been run before, as far as the caller sees; [] if it
    has not."""
    source = find(session, trial.reuse_key, config)
    return [] if source is None else [same_inputs(source, config)]


def same_inputs(source: TrialRow, config: ExperimentConfig) -> AnyMessage:
    """Return what to say of a trial that has completed with the same inputs."""
    steps = {name: entry["step"] for name, entry in source.summary.items()}
    name = headline_of(steps, config.search.metric)
    said = Message("reuse.same", trial=source.address)
    if name is not None:
        value = f"{decode_number(source.summary[name]['last']):.4g}"
        said = Message("reuse.same_value", trial=source.address, metric=name, value=value)
    # The built-in trainer draws everything from its seed.
    is_script = config.built_in_module is None
    return sentences(said, Message("reuse.seed") if is_script else None)
