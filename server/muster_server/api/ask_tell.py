"""Routes of a search that is controlled from outside; see docs/guides/ask-tell.md."""

from __future__ import annotations

from muster_server.api.http.deps import By, Db, Id, IdempotencyKey
from muster_server.api.http.races import raced
from muster_server.api.http.routing import Read, Router, Write
from muster_server.schemas.ask_tell import AskIn, AskOut, PointOut, TellIn, TellOut
from muster_server.schemas.base import Identifier
from muster_server.schemas.experiments import SearchOut
from muster_server.schemas.operations import EnqueueIn
from muster_server.services.experiments import ask_tell, search_control, views

router = Router(tags=["operations"])


@router.post("/experiments/{experiment_id}/search/points", status_code=202)
def enqueue_trial(experiment_id: Id, body: EnqueueIn, session: Write, by: By) -> PointOut:
    """Enqueue a point of your own, tried before those the search draws; adds a trial when all are
    planned."""
    point = search_control.enqueue(session, experiment_id, body, by)
    session.flush()
    return search_control.find_point(session, experiment_id, point)


@router.get("/experiments/{experiment_id}/search/points/{point}")
def get_search_point(experiment_id: Id, point: Identifier, session: Read) -> PointOut:
    """Return an enqueued point, and the result of the trial that tries it."""
    return search_control.find_point(session, experiment_id, point)


@router.post("/experiments/{experiment_id}/search:close", status_code=202)
def close_search(experiment_id: Id, session: Write, by: By) -> SearchOut:
    """Stop creating trials; existing ones run to their end."""
    search_control.close(session, experiment_id, by)
    session.flush()
    return views.search_out(session, experiment_id)


@router.post("/experiments/{experiment_id}/search:ask")
def ask_search(
    experiment_id: Id, body: AskIn, db: Db, by: By, idempotency_key: IdempotencyKey = None
) -> AskOut:
    """Return trials to run yourself (`search.runner: external`)."""
    return raced(
        db,
        lambda session: ask_tell.ask(
            session, experiment_id, body, by, idempotency_key=idempotency_key
        ),
    )


@router.post("/experiments/{experiment_id}/search:tell")
def tell_search(experiment_id: Id, body: TellIn, db: Db, by: By) -> TellOut:
    """Report the results of a trial that you run; returns whether it continues."""
    return raced(db, lambda session: ask_tell.tell(session, experiment_id, body, by))
