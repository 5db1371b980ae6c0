"""When the workers of trials ran, attempt by attempt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from muster_server.db.models import AttemptRow
from muster_server.domain.lifecycle.time_limit import RunTime

IDS_PER_QUERY = 500
"""Trials whose attempts are asked for at once."""

_STARTED = (
    select(AttemptRow.trial_id, AttemptRow.no, AttemptRow.started_at, AttemptRow.ended_at)
    .where(
        AttemptRow.trial_id.in_(bindparam("ids", expanding=True)),
        AttemptRow.started_at.is_not(None),
    )
    .order_by(AttemptRow.trial_id, AttemptRow.no)
)


def load_run_times(session: Session, trial_ids: Sequence[int]) -> Mapping[int, list[RunTime]]:
    """Return the run times of all attempts whose workers started, by trial; trials without one are
    missing."""
    found: dict[int, list[RunTime]] = defaultdict(list)
    for first in range(0, len(trial_ids), IDS_PER_QUERY):
        ids = trial_ids[first : first + IDS_PER_QUERY]
        for row in session.connection().execute(_STARTED, {"ids": ids}):
            found[row.trial_id].append(RunTime(started_at=row.started_at, ended_at=row.ended_at))
    return found
