"""The budget loop: alerts, and the end of what has used up its budget."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_server.db.leases import Lease
from muster_server.domain.messages import english
from muster_server.domain.quota.budgets import (
    Alert,
    BudgetSnapshot,
    Decision,
    EndExperiment,
    decide_budgets,
)
from muster_server.services.quota.budgets import ANY_BUDGET, apply_decision, load_budget_snapshot

from .base import Loop


class BudgetLoop(Loop[BudgetSnapshot, Decision]):
    name = "budgets"
    occasion = ANY_BUDGET

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> BudgetSnapshot:
        return load_budget_snapshot(session, now=now)

    def decide(self, snapshot: BudgetSnapshot, *, now: dt.datetime) -> Sequence[Decision]:
        return decide_budgets(snapshot, now=now)

    def apply(
        self, session: Session, decision: Decision, *, lease: Lease, now: dt.datetime
    ) -> None:
        apply_decision(session, decision, now=now)

    def describe(self, decision: Decision) -> tuple[Hashable, str]:
        match decision:
            case Alert(kind=kind, subject_id=subject_id, measure=measure):
                return f"{kind}:{subject_id}:{measure}", decision.reason.english
            case EndExperiment(experiment_id=experiment_id):
                return f"experiment:{experiment_id}", decision.reason.english
            case _:
                reason = decision.reason
                return f"project:{decision.project_id}", english(reason or "may go on")
