"""Launching short runs of an experiment, as experiments of their own that are linked to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.insight.probes import Purpose, probe_overrides
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.schemas.experiments import ExperimentIn
from muster_server.schemas.operations import ForkIn

from ..core.events import add_event
from ..core.lookup import get_experiment
from ..experiments.forks import as_submission
from ..experiments.submission import create_experiment, invalid_document, resolve_submission


def launch_probe(
    session: Session,
    source: ExperimentRow,
    overrides: Sequence[str],
    *,
    purpose: Purpose,
    name: str,
    num_steps: int,
    user_id: int | None,
    user_name: str,
    role: str | None = None,
    now: dt.datetime,
    hparams: Mapping[str, Any] | None = None,
) -> int:
    """Submit a short run of `source` with further overrides of its document, and return its id.

    It is queued, placed, budgeted and deleted like any other; its project pays for it.
    hparams: None: those of the source's best trial, or of its first one.
    Raises what create_experiment raises, naming keys of the source's document.
    """
    body = _submission(session, source, overrides, purpose, name, num_steps, hparams)
    made = create_experiment(
        session,
        body,
        user_id=user_id,
        user_name=user_name,
        role=role,
        now=now,
        parent=source,
        purpose=purpose,
    )
    return made.experiment_id


def end_probe(session: Session, probe: ExperimentRow, reason: str, *, now: dt.datetime) -> None:
    """End a run that has done what it was launched for. Nobody cancels it: it ends early, as when a
    searcher has seen enough of a trial, and its trial says `reason`."""
    # Trials before the experiment: the order in which everybody locks them.
    trials = session.scalars(
        select(TrialRow)
        .where(
            TrialRow.experiment_id == probe.id,
            TrialRow.state.not_in(TERMINAL_TRIAL),
            TrialRow.desired == "run",
        )
        .order_by(TrialRow.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    for trial in trials:
        trial.desired, trial.reason = "early", reason
        add_event(
            session,
            "trial.stopped_early",
            reason,
            now=now,
            experiment_id=probe.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
        )
        touch(session, f"trial:{trial.id}")
    get_experiment(session, probe.id, lock=True).reason = reason
    touch(session, "cluster", "loops")


def check_probe(
    session: Session,
    source: ExperimentRow,
    overrides: Sequence[str],
    *,
    purpose: Purpose,
    num_steps: int,
    user_id: int | None,
    role: str | None = None,
    now: dt.datetime,
) -> ExperimentConfig:
    """Return the resolved document that `launch_probe` would submit; nothing is stored.

    Raises InvalidRequest with every problem found.
    """
    body = _submission(session, source, overrides, purpose, source.name, num_steps, None)
    resolved = resolve_submission(session, body, user_id=user_id, role=role, now=now)
    if resolved.config is None:
        raise invalid_document(resolved.problems)
    return resolved.config


def _submission(
    session: Session,
    source: ExperimentRow,
    overrides: Sequence[str],
    purpose: Purpose,
    name: str,
    num_steps: int,
    hparams: Mapping[str, Any] | None,
) -> ExperimentIn:
    chosen = chosen_hparams(session, source) if hparams is None else hparams
    shortened = probe_overrides(
        source.config, chosen, purpose=purpose, name=name, num_steps=num_steps
    )
    return as_submission(
        session,
        source,
        ForkIn(overrides=[*_found_batch(session, source), *shortened, *overrides]),
    )


def chosen_hparams(session: Session, source: ExperimentRow) -> dict[str, Any]:
    """Return the hyperparameters of an experiment's best trial, or of its first while none is
    best."""
    return _chosen(session, source).hparams


def _chosen(session: Session, source: ExperimentRow) -> TrialRow:
    trial = session.get(TrialRow, source.best_trial_id or 0)
    if trial is None:
        query = select(TrialRow).where(TrialRow.experiment_id == source.id).order_by(TrialRow.no)
        trial = session.scalars(query.limit(1)).one()
    return trial


def _found_batch(session: Session, source: ExperimentRow) -> list[str]:
    """Return the override that gives a probe the batch size its source has found; [] if it has
    none.

    This applies to `batch_size: auto`: with another batch size, a probe would say nothing about its
    source.
    """
    trainer = source.config.trainer
    if trainer is None or trainer.batch_size != "auto":
        return []
    found = _chosen(session, source).summary.get("train/batch_size") or {}
    return [f"trainer.batch_size={int(found['last'])}"] if found.get("last") else []
