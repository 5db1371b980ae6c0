"""Routes for a search that is driven from outside; see docs/guides/driving.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastapi import APIRouter
from sqlalchemy.orm import Session

from muster_server.api.deps import By, Db, Id, IdempotencyKey
from muster_server.db.engine import Database
from muster_server.errors import Conflict
from muster_server.schemas.base import Identifier
from muster_server.schemas.driving import AskIn, AskOut, PointOut, TellIn, TellOut
from muster_server.schemas.experiments import SearchOut
from muster_server.schemas.operations import EnqueueIn
from muster_server.services import driving, experiment_views, steering
from muster_server.services.search import Raced

router = APIRouter(tags=["operations"])

T = TypeVar("T")
RACED_TRIES = 20
"""Attempts of a call whose searcher somebody else moves on meanwhile."""


@router.post(
    "/experiments/{experiment_id}/search/points", status_code=202, operation_id="enqueue_trial"
)
def enqueue_trial(experiment_id: Id, body: EnqueueIn, db: Db, by: By) -> PointOut:
    """Try a point of your own before those the search draws; one more when all are planned."""
    with db.transaction() as session:
        point = steering.enqueue(session, experiment_id, body, by)
        session.flush()
        return steering.find_point(session, experiment_id, point)


@router.get("/experiments/{experiment_id}/search/points/{point}", operation_id="get_search_point")
def get_search_point(experiment_id: Id, point: Identifier, db: Db) -> PointOut:
    """A point that was enqueued, and what the trial that tries it has come to."""
    with db.read() as session:
        return steering.find_point(session, experiment_id, point)


@router.post(
    "/experiments/{experiment_id}/search:close", status_code=202, operation_id="close_search"
)
def close_search(experiment_id: Id, db: Db, by: By) -> SearchOut:
    """Let no more trials be created; those there are run to their end."""
    with db.transaction() as session:
        steering.close(session, experiment_id, by)
        session.flush()
        return experiment_views.search_out(session, experiment_id)


@router.post("/experiments/{experiment_id}/search:ask", operation_id="ask_search")
def ask_search(
    experiment_id: Id, body: AskIn, db: Db, by: By, idempotency_key: IdempotencyKey = None
) -> AskOut:
    """Be handed trials that you run yourself (`search.runner: external`)."""
    return _raced(
        db,
        lambda session: driving.ask(
            session, experiment_id, body, by, idempotency_key=idempotency_key
        ),
    )


@router.post("/experiments/{experiment_id}/search:tell", operation_id="tell_search")
def tell_search(experiment_id: Id, body: TellIn, db: Db, by: By) -> TellOut:
    """Tell what a trial that you run has come to, and hear how it goes on."""
    return _raced(db, lambda session: driving.tell(session, experiment_id, body, by))


def _raced(db: Database, do: Callable[[Session], T]) -> T:
    for _ in range(RACED_TRIES):
        try:
            with db.transaction() as session:
                return do(session)
        except Raced:
            continue
    raise Conflict(
        "search.busy", "The search was changed by others all the time.", hint="Try again."
    )
