"""The loop that finishes versions of models, and applies the rules that move their aliases."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence

from sqlalchemy.orm import Session

from muster_models.services.registry import promotions
from muster_models.services.registry.promotions import MadeVersion, PromotionCase, PromotionStep
from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.loops.base import Loop
from muster_server.settings import Settings

RegistrySnapshot = tuple[Sequence[MadeVersion], Sequence[PromotionCase]]


class RegistryLoop(Loop[RegistrySnapshot, MadeVersion | PromotionStep]):
    name = "registry"
    occasion = promotions.ANY_UNFINISHED

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database)
        self._settings = settings

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> RegistrySnapshot:
        return promotions.load_made(session, now), promotions.load_cases(session)

    def decide(
        self, snapshot: RegistrySnapshot, *, now: dt.datetime
    ) -> Sequence[MadeVersion | PromotionStep]:
        made, cases = snapshot
        return [*made, *promotions.decide(cases)]

    def apply(
        self,
        session: Session,
        decision: MadeVersion | PromotionStep,
        *,
        lease: Lease,
        now: dt.datetime,
    ) -> None:
        if isinstance(decision, MadeVersion):
            promotions.apply_made(session, decision, settings=self._settings, now=now)
        else:
            promotions.apply_promotion(session, decision, settings=self._settings, now=now)

    def describe(self, decision: MadeVersion | PromotionStep) -> tuple[Hashable, str]:
        if isinstance(decision, MadeVersion):
            return f"version:{decision.version_id}", f"its export is {decision.export_state}"
        return f"rule:{decision.case.rule_id}", decision.decision.reason
