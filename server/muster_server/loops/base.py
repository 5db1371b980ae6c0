"""The pattern of every loop: load a snapshot, decide purely, apply guarded; log a decision when it
changes."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import structlog
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.failures import is_unavailable, is_undefined
from muster_server.db.leases import Lease, LeaseLost, require
from muster_server.services.core.writes import Outdated

log = structlog.get_logger(__name__)

SnapshotT = TypeVar("SnapshotT")
DecisionT = TypeVar("DecisionT")

TOGETHER = 16
"""Most decisions in one transaction. A commit costs more than most decisions, and so does waiting for
the turn to write; but while the turn is held no agent's report is taken. On SQLite alone: elsewhere
nobody waits for a turn, and two who hold many rows would come to wait for each other."""
MAX_SAID = 10_000
"""Number of reasons remembered per loop, so that a repeated one is logged once."""


class Pass(Protocol):
    """What the controller works through: loops, and searches."""

    name: str

    @property
    def occasion(self) -> ColumnElement[bool] | None: ...

    def rest(self) -> None: ...

    def run(self, *, lease: Lease, now: dt.datetime) -> int: ...


class Loop(ABC, Generic[SnapshotT, DecisionT]):
    """One control loop. Holds nothing that a restart would lose, except what it has logged.

    A decision is applied in a transaction, on SQLite together with others, which first checks that
    `lease` still leads. When the guarded writes of one find something changed, all of them are
    applied once more, each in a transaction of its own, and that one is dropped: the next pass
    decides again on what is true then. So decisions must not depend on each other within a pass.
    """

    name: str
    occasion: ClassVar[ColumnElement[bool] | None] = None
    """What is true whenever there may be something to decide, for one question about all loops; None:
    `load` asks."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._said: dict[Hashable, str] = {}

    def rest(self) -> None:
        """Forget what the last pass told others: there is no occasion for another one."""

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
        """Return what a decision is about, and its reason."""

    def run(self, *, lease: Lease, now: dt.datetime) -> int:
        """Run one pass; return how many decisions took effect. Raises LeaseLost if another process
        leads."""
        with self.database.read() as session:
            snapshot = self.load(session, lease=lease, now=now)
        most = TOGETHER if self.database.is_sqlite else 1
        return sum(
            self._carry_out(some, lease=lease, now=now)
            for some in batched(self.decide(snapshot, now=now), most)
        )

    def _carry_out(self, decisions: Sequence[DecisionT], *, lease: Lease, now: dt.datetime) -> int:
        """Apply all decisions in one transaction, or each in its own if one of them cannot be
        applied."""
        if len(decisions) > 1:
            try:
                with self.database.transaction() as session:
                    require(session, lease)
                    for decision in decisions:
                        self.apply(session, decision, lease=lease, now=now)
                        # What one has loaded is no concern of the next.
                        session.flush()
                        session.expunge_all()
            except LeaseLost:
                raise
            except Exception as error:
                log.debug("decisions_apart", loop=self.name, why=str(error))
            else:
                for decision in decisions:
                    self._say(*self.describe(decision))
                return len(decisions)
        return sum(self._carry_out_alone(d, lease=lease, now=now) for d in decisions)

    def _carry_out_alone(self, decision: DecisionT, *, lease: Lease, now: dt.datetime) -> int:
        subject, reason = self.describe(decision)
        try:
            with self.database.transaction() as session:
                require(session, lease)
                self.apply(session, decision, lease=lease, now=now)
        except Outdated as error:
            log.debug("decision_outdated", loop=self.name, subject=subject, why=str(error))
            return 0
        except LeaseLost:
            raise
        except Exception as error:
            if is_unavailable(error) or is_undefined(error):
                raise  # not about this decision: nothing further would succeed either
            # One that cannot be applied must not keep all the others from being.
            log.exception("decision_failed", loop=self.name, subject=subject, reason=reason)
            return 0
        self._say(subject, reason)
        return 1

    def _say(self, subject: Hashable, reason: str) -> None:
        if self._said.get(subject) == reason:
            return
        if len(self._said) >= MAX_SAID:
            self._said.clear()
        self._said[subject] = reason
        log.info("decided", loop=self.name, subject=subject, reason=reason)


def batched(decisions: Sequence[DecisionT], most: int) -> Iterator[Sequence[DecisionT]]:
    for first in range(0, len(decisions), most):
        yield decisions[first : first + most]
