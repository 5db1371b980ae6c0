"""What every loop shares: load a snapshot, decide purely, apply guarded; say it when it changes."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.leases import Lease, LeaseLost, require
from muster_server.services.allocations import Outdated

log = structlog.get_logger(__name__)

SnapshotT = TypeVar("SnapshotT")
DecisionT = TypeVar("DecisionT")

MAX_SAID = 10_000
"""Reasons remembered per loop, so that a repeated one is logged once."""


class Loop(ABC, Generic[SnapshotT, DecisionT]):
    """One control loop. Holds nothing that a restart would lose, except what it has logged.

    Each decision is applied in a transaction of its own, which first checks that `lease` still
    leads. A decision whose guarded writes find something changed is dropped: the next pass
    decides again on what is true then.
    """

    name: str

    def __init__(self, database: Database) -> None:
        self.database = database
        self._said: dict[Hashable, str] = {}

    @abstractmethod
    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> SnapshotT: ...

    @abstractmethod
    def decide(self, snapshot: SnapshotT, *, now: dt.datetime) -> Sequence[DecisionT]: ...

    @abstractmethod
    def apply(
        self, session: Session, decision: DecisionT, *, lease: Lease, now: dt.datetime
    ) -> None: ...

    @abstractmethod
    def describe(self, decision: DecisionT) -> tuple[Hashable, str]:
        """What a decision is about, and its reason."""

    def run(self, *, lease: Lease, now: dt.datetime) -> int:
        """One pass; how many decisions took effect. Raises LeaseLost when another leads."""
        with self.database.read() as session:
            snapshot = self.load(session, lease=lease, now=now)
        num_applied = 0
        for decision in self.decide(snapshot, now=now):
            subject, reason = self.describe(decision)
            try:
                with self.database.transaction() as session:
                    require(session, lease)
                    self.apply(session, decision, lease=lease, now=now)
            except Outdated as error:
                log.debug("decision_outdated", loop=self.name, subject=subject, why=str(error))
                continue
            except (LeaseLost, OperationalError, InterfaceError):
                raise  # not about this decision: nothing further would succeed either
            except Exception:
                # One that cannot be applied must not keep all the others from being.
                log.exception("decision_failed", loop=self.name, subject=subject, reason=reason)
                continue
            num_applied += 1
            self._say(subject, reason)
        return num_applied

    def _say(self, subject: Hashable, reason: str) -> None:
        if self._said.get(subject) == reason:
            return
        if len(self._said) >= MAX_SAID:
            self._said.clear()
        self._said[subject] = reason
        log.info("decided", loop=self.name, subject=subject, reason=reason)
