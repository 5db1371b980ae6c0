"""What guards would have done with the values that are stored of a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.guards import GuardSection
from muster_server.db.models import AttemptRow, ExperimentRow
from muster_server.db.queries.metrics import SeriesRecord, find_series
from muster_server.domain.guards.judging import Firing, GuardState, GuardValue, judge
from muster_server.domain.guards.wording import explain
from muster_server.errors import InvalidRequest
from muster_server.schemas.guards import GuardFiringOut, GuardTrialOut, TryGuardsIn, TryGuardsOut
from muster_server.schemas.validation_messages import unknown_name

from ..core.lookup import get_trial
from ..documents.guards import flat, read_guards
from .guards import STEP_TIME, read_new, reads

POINTS_PER_TRY = 100_000
FIRINGS_SHOWN = 20


def try_guards(session: Session, trial_id: int, body: TryGuardsIn) -> TryGuardsOut:
    """Return what guards would have done with the stored values of a trial. Raises NotFound, and
    InvalidRequest for guards that are not valid."""
    trial = get_trial(session, trial_id)
    if body.guards is None:
        guards = session.get_one(ExperimentRow, trial.experiment_id).config.guards
    else:
        guards, problems = read_guards(body.guards, flat(trial.hparams))
        if problems:
            raise InvalidRequest("guards.invalid", "The guards are not valid.", fields=problems)
    series: dict[str, list[SeriesRecord]] = {}
    names = {name for guard in guards for name in reads(guard) or (STEP_TIME,)}
    for record in find_series(session, [trial_id], names=sorted(names)):
        series.setdefault(record.name, []).append(record)
    known = sorted(trial.summary or {})
    if any(not reads(guard) for guard in guards):
        # A value for every step that is measured; without one, the longest metric has its place.
        series[""] = series.get(STEP_TIME) or _longest(find_series(session, [trial_id]))
    return TryGuardsOut(
        items=[
            _try(
                session,
                no,
                guard,
                [r for name in reads(guard) or ("",) for r in series.get(name, [])],
                known,
            )
            for no, guard in enumerate(guards, 1)
        ]
    )


def _longest(records: Sequence[SeriesRecord]) -> list[SeriesRecord]:
    """Return the records of the metric with the most values: of a script whose steps are not timed, they
    show when it made steps."""
    counts = Counter[str]()
    for record in records:
        counts[record.name] += record.count
    name = max(counts, key=lambda name: (counts[name], name), default=None)
    return [record for record in records if record.name == name]


def _try(
    session: Session, no: int, guard: GuardSection, records: list[SeriesRecord], known: list[str]
) -> GuardTrialOut:
    found = read_new(session, guard, records, GuardState(), POINTS_PER_TRY)
    points = found.points
    if guard.no_step_for_min is not None:
        points = _with_starts(session, records, points)
    _, firings = judge(guard, GuardState(), points)
    if firings:
        text = " ".join(_would_have(firing) for firing in firings[:FIRINGS_SHOWN])
    elif found.points:
        text = f"Would not have acted on {len(found.points):,} values."
    elif guard.straggler is not None:
        text = f"Cannot be judged: {found.missing}."
    elif guard.metric is None:
        text = "The trial has made no step that was measured or logged."
    else:
        hint = unknown_name(guard.metric, known)
        text = f"The trial has no values of {guard.metric}" + (f": {hint}" if hint else ".")
    return GuardTrialOut(
        guard=no,
        explanation=explain(guard),
        text=text,
        num_values=len(found.points),
        is_cut=found.is_cut,
        firings=[
            GuardFiringOut.from_row(firing, text=_would_have(firing))
            for firing in firings[:FIRINGS_SHOWN]
        ],
    )


def _with_starts(
    session: Session, records: Sequence[SeriesRecord], points: Sequence[GuardValue]
) -> list[GuardValue]:
    """Return the points with one for the start of each attempt's workers: a guard on silence hears from
    then on."""
    if not records:
        return []
    started = session.execute(
        select(AttemptRow.no, AttemptRow.started_at).where(
            AttemptRow.trial_id == records[0].trial_id,
            AttemptRow.no.in_({point.attempt_no for point in points}),
        )
    )
    first = {point.attempt_no: point.step for point in reversed(points)}
    starts = [
        GuardValue(no, first[no] - 1, round(at.timestamp() * 1000), 0.0)
        for no, at in started
        if at is not None
    ]
    return sorted([*points, *starts])


def _would_have(firing: Firing) -> str:
    return f"Would have acted at step {firing.step:,}: {firing.reason.english}."
