"""What a document would do, without doing it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from muster.document.codec import dump
from muster.document.experiment import ExperimentConfig
from muster_server.domain.guards.wording import explain
from muster_server.domain.messages import AnyMessage, Message, count
from muster_server.domain.providers import plan_pilots
from muster_server.domain.scheduling import QueuedTrial
from muster_server.domain.scheduling.resources import request_for
from muster_server.domain.scheduling.unsatisfiable import is_impossible
from muster_server.domain.search import Searcher, SearchSpec, sampling
from muster_server.schemas.base import field_error, parts_out
from muster_server.schemas.experiments import (
    ExperimentIn,
    NoticeOut,
    PlannedTrial,
    PreviewOut,
)

from ..documents import search_spec
from ..providers.loading import load_providers
from ..scheduling.placement_preview import Foresight
from ..scheduling.queue import plan_one
from ..search import concurrency, costs, reuse
from .submission import resolve_submission

SAMPLED_TRIALS = 10


def preview_experiment(
    session: Session,
    body: ExperimentIn,
    foresight: Foresight,
    *,
    user_id: int | None,
    role: str | None = None,
    now: dt.datetime,
) -> PreviewOut:
    """Return what submitting the document would do: the same checks as a submission, the trials it
    would create, and where one of them would run. Raises Forbidden as a submission does."""
    resolved = resolve_submission(session, body, user_id=user_id, role=role, now=now)
    config = resolved.config
    if config is None:
        return PreviewOut(
            valid=False,
            errors=[field_error(p) for p in resolved.problems],
            warnings=[],
            guards=[],
            notices=[],
            config=None,
            origins={},
            num_trials=None,
            num_trials_is_upper_bound=False,
            concurrent=None,
            concurrent_from="",
            sampled_trials=[],
            rungs=[],
            perturbed=[],
            copied=[],
            search_cost=None,
            plan=[],
            fits_now=False,
            fit_reason="",
            fit_parts=[],
            is_impossible=False,
            position=None,
            estimated_start_at=None,
            preempts=[],
        )
    spec = search_spec(config)
    room = concurrency.room_now(session, config, user_id=user_id, now=now)
    searcher = Searcher(spec)
    searcher.room = room or 0
    # Counted with those that run, not with the one that waits for the next free slot.
    played = spec if room is None else dataclasses.replace(spec, concurrent=max(room, 1))
    if resolved.warm is not None:
        searcher.apply(resolved.warm.event)
    is_external = config.search.runner == "external"
    planned = None
    if not is_external:
        supplies = functools.partial(_supplies, session, now)
        planned = plan_one(
            session, config, foresight, supplies_of=supplies, user_id=user_id, now=now
        )
    reason = planned.reason if planned else Message("placed.outside")
    perturbed, copied = _clones(spec)
    sampled = searcher.preview(SAMPLED_TRIALS)
    return PreviewOut(
        valid=True,
        errors=[],
        warnings=[field_error(p) for p in resolved.warnings],
        guards=[explain(guard) for guard in config.guards],
        notices=[
            NoticeOut(text=said.english, parts=parts_out(said))
            for said in _run_before(session, config, body.blob_sha256, sampled)
        ],
        config=dump(config),
        origins=resolved.origins,
        num_trials=spec.trials,
        num_trials_is_upper_bound=False,
        concurrent=played.concurrent,
        concurrent_from=_concurrent_from(config, room),
        sampled_trials=[PlannedTrial(hparams=h) for h in sampled],
        rungs=expected_rungs(played),
        perturbed=perturbed,
        copied=copied,
        search_cost=costs.expected_cost(session, config, played),
        plan=list(planned.nodes) if planned else [],
        fits_now=bool(planned.nodes) if planned else True,
        fit_reason=reason.english,
        fit_parts=parts_out(reason),
        is_impossible=is_impossible(reason.parts),
        position=planned.position if planned else None,
        estimated_start_at=planned.estimated_start_at if planned else None,
        preempts=list(planned.preempts) if planned else [],
    )


def _run_before(
    session: Session,
    config: ExperimentConfig,
    blob_sha256: str | None,
    sampled: Sequence[Mapping[str, Any]],
) -> Iterator[AnyMessage]:
    """Yield which of the first trials have been run before, as far as the caller sees."""
    key_of = reuse.keys_of(config, blob_sha256)
    seeds = (sampling.trial_seed(config.search.seed, no) for no in range(1, len(sampled) + 1))
    keys = map(key_of, sampled, seeds)
    found = [one for key in keys if (one := reuse.find(session, key, config)) is not None]
    if not found:
        return
    if len(sampled) > 1:
        num, of = len(found), len(sampled)
        yield (
            Message("reuse.takes_some", found=num, trials=of)
            if config.reuse
            else Message("reuse.some", found=num, trials=of)
        )
    elif config.reuse:
        yield Message("reuse.takes", trial=found[0].address)
    else:
        yield reuse.same_inputs(found[0], config)


def _supplies(
    session: Session, now: dt.datetime, waiting: Sequence[QueuedTrial]
) -> Mapping[int, Message]:
    """Return what providers of pools do for trials that wait, by trial."""
    found: dict[int, Message] = {}
    for one in load_providers(session, waiting, now=now):
        found |= plan_pilots(one.provider, one.gangs, one.pilots, now=now).told
        found |= one.held
    return found


def _concurrent_from(config: ExperimentConfig, room: int | None) -> str:
    if room is None:
        return "search.concurrent"
    request = request_for(config)
    slots = count(request.slots, f"{request.slot_type} slot")
    return f"room for {count(room, 'trial')} of {slots} in pool {request.pool} now"


def _clones(spec: SearchSpec) -> tuple[list[str], list[str]]:
    """Return the names of the hyperparameters that clones of a population change, and of those that
    they inherit unchanged."""
    if spec.explore is None:
        return [], []
    searched = [p.name for p in sampling.parse_space(spec.space)[0] if p.kind != "const"]
    changed = searched if spec.explore.names is None else list(spec.explore.names)
    return changed, [name for name in searched if name not in changed]


def expected_rungs(spec: SearchSpec) -> list[dict[str, Any]]:
    """Return per rung: its units, how many trials can reach it at most, and how many likely will.

    max_trials is all of its bracket: trials that get better one after the other are never stopped
    (under the synchronous rule it is exact). expected_trials comes from playing the search with a
    random but consistent ranking.
    """
    if not spec.rungs:
        return []
    expected: list[int] = []
    if spec.explore is not None:
        # As many are at every rung when none fails.
        expected = [spec.explore.size] * len(spec.rungs)
    elif costs.can_play(spec):
        expected = costs.play(spec).per_rung
    else:
        expected = [
            max(bracket.trials // spec.divisor**i, 1)
            for bracket in spec.brackets
            for i in range(len(bracket.rungs))
        ]
    places = [
        (bracket_no, bracket, index)
        for bracket_no, bracket in enumerate(spec.brackets)
        for index in range(len(bracket.rungs))
    ]
    return [
        {
            "bracket": bracket_no,
            "units": bracket.rungs[index],
            "unit": spec.unit,
            "max_trials": _at_most(spec, bracket.trials, index),
            "expected_trials": n,
        }
        for (bracket_no, bracket, index), n in zip(places, expected, strict=True)
    ]


def _at_most(spec: SearchSpec, trials: int, index: int) -> int:
    if spec.explore is not None:
        return spec.explore.size
    if spec.rule != "synchronous":
        return trials
    for _ in range(index):
        trials = max(trials // spec.divisor, 1)
    return trials
