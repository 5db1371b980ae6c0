"""What slots cost, what was spent, and which alerts of a budget were given."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from muster.wire import IsolationLevel
from muster_server.domain.nodes.availability import ForeignProcesses

from .base import Base, BigId, belongs_to


class PoolRow(Base):
    """What is set for a pool. One without a row is free of charge; nodes make pools by naming them."""

    __tablename__ = "pools"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    price_per_slot_hour: Mapped[float] = mapped_column(default=0.0)
    """In the currency of the settings."""
    min_isolation: Mapped[IsolationLevel] = mapped_column(String(16), default="none")
    """Weakest level of isolation (muster.wire.ISOLATION_LEVELS) at which jobs may run in it."""
    requires_containers: Mapped[bool] = mapped_column(default=False)
    """Whether only jobs with an image may run in it."""
    allowed_images: Mapped[list[Any]] = mapped_column(default=list)
    """What images may begin with; empty for all images."""
    foreign_processes: Mapped[ForeignProcesses] = mapped_column(String(8), default="wait")
    """Whether devices that somebody uses outside Muster wait until they are free: wait | ignore."""
    waste: Mapped[dict[str, Any] | None]
    """muster.document.running.WasteSection; null: the defaults."""
    spares: Mapped[int] = mapped_column(default=0)
    """Nodes held for trials that lost one."""
    changed_at: Mapped[dt.datetime]


class SpendingRow(Base):
    """What the allocations of an experiment that have freed their slots cost in all.

    Outlives its experiment: what was spent stays spent, and on SQLite it keeps the ids of deleted
    experiments from being given out again.
    """

    __tablename__ = "spending"

    experiment_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    project_id: Mapped[int] = mapped_column(BigInteger, index=True)
    slot_s: Mapped[float] = mapped_column(default=0.0)
    """Slots × seconds from reservation to the slots being free again."""
    cost: Mapped[float] = mapped_column(default=0.0)


class BudgetAlertRow(Base):
    """An alert that was given. Its key makes it once per subject, measure, limit and threshold."""

    __tablename__ = "budget_alerts"

    subject: Mapped[str] = mapped_column(String(48), primary_key=True)
    """ "experiment:12", "project:3"."""
    measure: Mapped[str] = mapped_column(String(16), primary_key=True)
    """slot_hours | cost | deadline."""
    limit: Mapped[str] = mapped_column(String(40), primary_key=True)
    """Limit as text. It belongs to the key, so that raising the limit allows a new alert."""
    threshold: Mapped[float] = mapped_column(primary_key=True)
    at: Mapped[dt.datetime]


class LedgerRow(Base):
    """How far the slot-seconds of an attempt have been accounted for; the sums are in LedgerDayRow."""

    __tablename__ = "ledgers"

    attempt_id: Mapped[int] = belongs_to("attempts.id", primary_key=True, autoincrement=False)
    trial_id: Mapped[int] = mapped_column(BigInteger, index=True)
    attempt_no: Mapped[int]
    queued_s: Mapped[float | None]
    """Seconds in the queue before it was placed; null where that is not known any more."""
    tally: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """domain.goodput.ledger.Tally: the whole blocks of rows counted so far."""
    num_rows: Mapped[int] = mapped_column(BigInteger, default=0)
    """Rows of steps that it has measured."""
    kept_step: Mapped[int | None] = mapped_column(BigInteger)
    """Step up to which its progress survived in a later attempt; null for all of it."""
    is_abandoned: Mapped[bool] = mapped_column(default=False)
    until: Mapped[dt.datetime]
    """End of the time it covers."""
    is_open: Mapped[bool] = mapped_column(default=True)
    """Whether its trial had not ended yet when it was counted last."""
    due_at: Mapped[dt.datetime | None]
    """When it has to be counted again; null: not before something else happens to its trial."""

    __table_args__ = (
        Index("ix_ledgers_due_at", "due_at"),
        Index("ix_ledgers_is_open", "is_open"),
    )


class LedgerDayRow(Base):
    """Slot-seconds that an attempt held on one day (UTC), by class. Outlives its trial, as spending
    does."""

    __tablename__ = "ledger_days"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    attempt_id: Mapped[int | None] = mapped_column(
        ForeignKey("attempts.id", ondelete="SET NULL"), index=True
    )
    day: Mapped[dt.date]
    project_id: Mapped[int] = mapped_column(BigInteger)
    owner_id: Mapped[int | None]
    """User who submitted it; null for one that is deleted."""
    pool: Mapped[str] = mapped_column(String(64))
    price_per_slot_hour: Mapped[float] = mapped_column(default=0.0)
    preparing: Mapped[float] = mapped_column(default=0.0)
    """This and the following: domain.goodput.ledger.TimeClass, in slot-seconds."""
    starting: Mapped[float] = mapped_column(default=0.0)
    restoring: Mapped[float] = mapped_column(default=0.0)
    productive: Mapped[float] = mapped_column(default=0.0)
    saving: Mapped[float] = mapped_column(default=0.0)
    evaluation: Mapped[float] = mapped_column(default=0.0)
    repeated: Mapped[float] = mapped_column(default=0.0)
    stalled: Mapped[float] = mapped_column(default=0.0)
    undetected: Mapped[float] = mapped_column(default=0.0)
    finishing: Mapped[float] = mapped_column(default=0.0)
    stopping: Mapped[float] = mapped_column(default=0.0)
    idle: Mapped[float] = mapped_column(default=0.0)
    unmeasured: Mapped[float] = mapped_column(default=0.0)
    abandoned: Mapped[float] = mapped_column(default=0.0)
    computation: Mapped[float] = mapped_column(default=0.0)
    """This and the following: domain.goodput.ledger.Part, of `productive`."""
    communication: Mapped[float] = mapped_column(default=0.0)
    data: Mapped[float] = mapped_column(default=0.0)
    bubble: Mapped[float] = mapped_column(default=0.0)

    __table_args__ = (Index("ix_ledger_days_day", "day"),)
