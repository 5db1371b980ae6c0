"""What the controller does about deployments: experiments are started and stopped as decided."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select

from muster.wire import EndpointRecord
from muster_models.domain.deployments.deciding import DeploymentPolicy, decide
from muster_models.domain.deployments.routing import SeenServer
from muster_models.schemas.deployments import DeploymentIn, ScaleIn
from muster_models.services.deployments import applying, management, views
from muster_models.services.deployments.routing import load_routes, note_seen
from muster_server.db.models import (
    DeploymentReplicaRow,
    ExperimentRow,
    ModelRow,
    ModelUseRow,
    ModelVersionRow,
    TrialRow,
)
from muster_server.domain.states import TrialState
from muster_server.security.principal import Principal
from muster_server.services.core.callers import Caller
from muster_server.services.quota.projects import find_or_make
from muster_server.services.runtime import endpoints
from muster_server.settings import Settings
from support.data import NOW

POLICY = DeploymentPolicy()


class Reported:
    def __init__(self, trial_id, attempt_no):
        self.trial_id, self.attempt_no = trial_id, attempt_no


def passes(database, now=NOW):
    """Decide and apply until nothing is left to."""
    while True:
        with database.read() as session:
            found = [
                d for v in applying.load_views(session) for d in decide(v, now=now, policy=POLICY)
            ]
        if not found:
            return
        with database.transaction() as session:
            for decision in found:
                applying.apply(session, decision, now=now)


def test_replicas_are_experiments_that_pin_the_version(database, tmp_path):
    by = Caller(principal=Principal(kind="user", name="ada", role="admin"), now=NOW)
    settings = Settings(router_dir=tmp_path)
    with database.transaction() as session:
        project_id = find_or_make(session, "default", NOW)
        model = ModelRow(project_id=project_id, name="digits", tags={}, created_at=NOW,
                         created_by="user:ada", updated_at=NOW, last_number=1)  # fmt: skip
        session.add(model)
        session.flush()
        session.add(
            ModelVersionRow(model_id=model.id, number=1, state="ready", digest="sha256:" + "a" * 64,
                            source="upload", lineage={}, metrics={}, created_at=NOW,
                            created_by="user:ada", updated_at=NOW)
        )  # fmt: skip
        session.flush()
        body = DeploymentIn(model="digits", replicas=2)
        management.create_deployment(session, body, by, settings=settings)
    passes(database)
    with database.transaction() as session:
        found = session.scalars(select(ExperimentRow)).all()
        assert [e.config.serve.model for e in found] == ["digits:1", "digits:1"]
        assert [u.kind for u in session.scalars(select(ModelUseRow))] == ["deployment"] * 2
        trials = session.scalars(select(TrialRow).order_by(TrialRow.id)).all()
        assert len(trials) == 2
        for trial in trials:
            trial.state, trial.attempt_no = TrialState.RUNNING, 1
        session.flush()
        old = Reported(trials[0].id, 0)
        endpoints.record(session, old, EndpointRecord(host="127.0.0.9", port=1), NOW)
        assert load_routes(session, NOW).servers == ()
        for trial in trials:
            new = Reported(trial.id, 1)
            endpoints.record(session, new, EndpointRecord(host="127.0.0.1", port=9000), NOW)
    with database.transaction() as session:
        servers = load_routes(session, NOW).servers
        assert [s.name for s in servers] == ["r1x1", "r2x1"]
        up = [SeenServer(backend="d1", name=s.name, status="UP") for s in servers]
        note_seen(session, up)
    passes(database)
    with database.transaction() as session:
        found = views.deployment_out(session, by.principal, settings, "digits")
        assert (found.state, found.num_ready) == ("ready", 2)
        management.scale(session, "digits", ScaleIn(replicas=1), by)
    passes(database)
    with database.transaction() as session:
        first, second = load_routes(session, NOW).servers
        assert (first.drains, second.drains) == (True, False)
        note_seen(
            session,
            [
                SeenServer(backend="d1", name="r1x1", status="DRAIN", num_sessions=1),
                SeenServer(backend="d1", name="r2x1", status="UP"),
            ],
        )
    passes(database)
    with database.transaction() as session:
        assert session.get(DeploymentReplicaRow, 1).phase == "draining"
        note_seen(session, [SeenServer(backend="d1", name="r2x1", status="UP")])
    passes(database)
    with database.read() as session:
        assert session.get(DeploymentReplicaRow, 1).phase == "stopping"
        assert [
            e.desired for e in session.scalars(select(ExperimentRow).order_by(ExperimentRow.id))
        ] == [
            "stop",
            "run",
        ]
    later = NOW + dt.timedelta(seconds=1)
    with database.transaction() as session:
        trial = session.get(TrialRow, trials[0].id)
        trial.state = TrialState.CANCELED
    passes(database, later)
    with database.read() as session:
        assert session.get(DeploymentReplicaRow, 1).phase == "ended"
        assert len(session.scalars(select(ExperimentRow)).all()) == 2
