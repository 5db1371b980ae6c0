"""The loop of experiments that start after others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.domain.lifecycle.dependencies import (
    DependencyDecision,
    DependentExperiment,
    decide_dependencies,
)
from muster_server.domain.messages import english
from muster_server.services.lifecycle.dependencies import (
    ANY_DEPENDENT,
    apply_dependency,
    load_dependents,
)

from .base import Loop


class DependencyLoop(Loop[tuple[DependentExperiment, ...], DependencyDecision]):
    name = "dependencies"
    occasion = ANY_DEPENDENT

    def load(
        self, session: Session, *, lease: Lease, now: dt.datetime
    ) -> tuple[DependentExperiment, ...]:
        return load_dependents(session)

    def decide(
        self, snapshot: tuple[DependentExperiment, ...], *, now: dt.datetime
    ) -> Sequence[DependencyDecision]:
        return decide_dependencies(snapshot)

    def apply(
        self, session: Session, decision: DependencyDecision, *, lease: Lease, now: dt.datetime
    ) -> None:
        apply_dependency(session, decision, now=now)

    def describe(self, decision: DependencyDecision) -> tuple[Hashable, str]:
        return f"experiment:{decision.experiment_id}", english(decision.reason)
