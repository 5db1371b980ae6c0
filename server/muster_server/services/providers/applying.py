"""What was decided about pilots, into the tables."""

from __future__ import annotations

import datetime as dt
import secrets

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import NodeRow, PilotRow, PoolProviderRow
from muster_server.domain.providers import PilotChange, PilotState
from muster_server.domain.providers.planning import PROVEN_S, backoff_s
from muster_server.domain.scheduling.resources import Owner

from ..core.accounts.tokens import create_join_token
from ..core.audit import Author
from ..core.events import add_event
from ..core.writes import Outdated, require_one
from .costs import add_spending, num_affordable

TOKEN_LIFETIME = dt.timedelta(days=8)
"""A pilot may wait for a week in its queue."""
MAX_PROBLEM_CHARS = 500
GROUP = 1000
"""Most pilots whose IDs begin alike: Slurm's job arrays have no more elements unless a site allows it."""


def ask_for_pilots(
    session: Session, pool: str, num: int, owner: Owner | None = None, *, now: dt.datetime
) -> list[str]:
    """Record that `num` pilots are wanted, at most as many as the provider may still have and pay;
    return their IDs. Limits are checked where they are inserted, so that two passes never exceed them.
    Raises Outdated if that is none.

    owner: the one attempt that they are for; None for any.
    """
    row = session.get(PoolProviderRow, pool, with_for_update=True)
    if row is None:
        raise Outdated(f"pool {pool} has no provider any more")
    held = session.scalar(
        select(func.count())
        .select_from(PilotRow)
        .where(PilotRow.pool == pool, PilotRow.state != PilotState.ENDED)
    )
    num = min(num, row.max_pilots - (held or 0), num_affordable(session, row))
    # In the order of time, and nobody else's: the ID is the name of the job and of the node. Those of one
    # group can be told by their number, as the elements of a job array are.
    ids: list[str] = []
    for first in range(0, num, GROUP):
        begins = f"pilot-{round(now.timestamp()):08x}{secrets.token_hex(3)}"
        ids += [f"{begins}{number:04d}" for number in range(min(GROUP, num - first))]
    trial_id, attempt_no = owner or (None, None)
    session.add_all(
        PilotRow(
            id=id_,
            pool=pool,
            state=PilotState.WANTED,
            since=now,
            asked_at=now,
            trial_id=trial_id,
            attempt_no=attempt_no,
            slots=row.slots,
            walltime_s=row.walltime_s,
        )
        for id_ in ids
    )
    if not ids:
        raise Outdated(f"the provider of pool {pool} has all the pilots that it may have")
    session.flush()
    touch(session, "cluster", "loops")
    return ids


def begin_submission(session: Session, pilot_id: str, *, now: dt.datetime) -> str:
    """Record that a pilot is about to be submitted, before its batch system hears of it; return the
    secret of a join token for it alone. Raises Outdated if it is not wanted any more."""
    _set(session, pilot_id, PilotState.WANTED, state=PilotState.SUBMITTING, since=now)
    row = session.get_one(PilotRow, pilot_id, populate_existing=True)
    provider = session.get(PoolProviderRow, row.pool)
    if provider is not None:  # It may have been changed since the pilot was asked for.
        row.slots, row.walltime_s = provider.slots, provider.walltime_s
    _, secret = create_join_token(
        session,
        pool=row.pool,
        uses=1,
        lifetime=TOKEN_LIFETIME,
        created_by=None,
        by=Author(f"provider:{row.pool}", now),
    )
    return secret


def note_submitted(session: Session, pilot_id: str, ref: str, *, now: dt.datetime) -> None:
    """Record the ID of a pilot's job."""
    _set(
        session, pilot_id, PilotState.SUBMITTING, state=PilotState.PENDING, since=now, ref=ref[:64]
    )
    touch(session, "cluster", "loops")


def apply_change(session: Session, change: PilotChange, *, now: dt.datetime) -> None:
    """Move a pilot on. Raises Outdated if it is in another state by now."""
    values: dict[str, object] = {"missing_since": change.missing_since}
    if change.after is not change.before:
        acted_at = now if change.is_leaving else None
        values |= {"state": change.after, "since": now, "acted_at": acted_at}
    if change.ref is not None:
        values["ref"] = change.ref[:64]
    if change.reason is not None:
        values |= {"reason": change.reason, "expected_at": change.expected_at}
    if change.after is PilotState.UP:
        values["was_up"] = True
    if change.after is PilotState.ENDED:
        values["ended_at"] = now
    if change.is_failure:
        values["has_failed"] = True
    if change.after in (PilotState.STARTING, PilotState.UP):
        values["started_at"] = func.coalesce(PilotRow.started_at, now)
    _set(session, change.pilot_id, change.before, **values)
    if change.after is change.before:
        return
    row = session.get_one(PilotRow, change.pilot_id, populate_existing=True)
    if change.after is PilotState.ENDED:
        add_spending(session, row, now=now)
    if change.is_failure:
        note_failure(
            session, row.pool, f"{row.id}: {change.reason or 'it did not come up'}", now=now
        )
    touch(session, "cluster", "loops")


def note_failure(session: Session, pool: str, problem: str, *, now: dt.datetime) -> None:
    """Record that a pilot of a pool did not come up: the next is asked for later."""
    row = session.get(PoolProviderRow, pool, with_for_update=True)
    if row is None:
        return
    row.failures += 1
    row.not_before = now + dt.timedelta(seconds=backoff_s(row.failures))
    row.problem = problem[:MAX_PROBLEM_CHARS]
    add_event(
        session,
        "provider.failed",
        f"A pilot of pool {pool} did not come up: {row.problem}. Asked again in "
        f"{backoff_s(row.failures):g} s.",
        now=now,
        level="warning",
    )


def note_success(session: Session, pool: str, *, now: dt.datetime) -> None:
    """End the back-off of a pool once one of its pilots has been up for a while."""
    row = session.get(PoolProviderRow, pool)
    if row is None or not row.failures:
        return
    proven = session.scalar(
        select(PilotRow.id)
        .where(
            PilotRow.pool == pool,
            PilotRow.state == PilotState.UP,
            PilotRow.since <= now - dt.timedelta(seconds=PROVEN_S),
        )
        .limit(1)
    )
    if proven is not None:
        row.failures, row.not_before, row.problem = 0, None, ""


def cancel(session: Session, pilot_id: str, before: PilotState, *, now: dt.datetime) -> None:
    """Record that nothing waits for a pilot any more. Raises Outdated if it has moved on, or has come."""
    has_node = select(NodeRow.id).where(NodeRow.name == pilot_id).exists()
    is_there = (PilotRow.id == pilot_id) & (PilotRow.was_up | has_node)
    if session.scalar(select(PilotRow.id).where(is_there)) is not None:
        raise Outdated(f"pilot {pilot_id} has come")
    is_unknown_there = before is PilotState.WANTED
    after = PilotState.ENDED if is_unknown_there else PilotState.ENDING
    values: dict[str, object] = {"state": after, "since": now, "reason": "nothing waits for it"}
    if is_unknown_there:
        values["ended_at"] = now
    _set(session, pilot_id, before, **values)
    touch(session, "cluster", "loops")


def keep_off(session: Session, pilot_id: str, reason: str, *, now: dt.datetime) -> None:
    """Place nothing new on the node of a pilot; what runs there goes on. Does nothing if it has left."""
    node = session.scalar(select(NodeRow).where(NodeRow.name == pilot_id).with_for_update())
    if node is None or node.scheduling != "open":
        return
    node.scheduling = "cordoned"
    message = f"{node.name} is cordoned: {reason[:MAX_PROBLEM_CHARS]}."
    add_event(session, "node.scheduling", message, now=now, node_id=node.id, level="warning")
    touch(session, "cluster", f"node:{node.id}", "loops")


def note_listed(
    session: Session, pool: str, problem: str, *, notice: str = "", now: dt.datetime
) -> None:
    """Record a listing of a provider's jobs: problem is why it failed, "" if it did not; notice is what
    it says of the site."""
    row = session.get(PoolProviderRow, pool)
    if row is None:
        return
    if not problem:
        row.listed_at = now
        row.notice = notice[:MAX_PROBLEM_CHARS]
        if not row.failures:
            row.problem = ""
    else:
        row.problem = problem[:MAX_PROBLEM_CHARS]


def _set(session: Session, pilot_id: str, before: PilotState, **values: object) -> None:
    session.flush()
    require_one(
        session,
        update(PilotRow).where(PilotRow.id == pilot_id, PilotRow.state == before).values(**values),
        f"pilot {pilot_id} is not {before} any more",
    )
