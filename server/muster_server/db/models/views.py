"""What people keep of the dashboard."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import ForeignKey, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class SavedViewRow(Base):
    """A page's address under a name: columns, order, filters."""

    __tablename__ = "saved_views"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    page: Mapped[str] = mapped_column(String(32))
    """schemas.saved_views.ViewPage."""
    owner_id: Mapped[int] = belongs_to("users.id")
    project_id: Mapped[int | None] = belongs_to("projects.id", index=True)
    """Set, everybody sees it, with the project; null: its owner alone does."""
    name: Mapped[str] = mapped_column(String(200))
    query: Mapped[str] = mapped_column(String(4000))
    """The address after the question mark."""
    is_default: Mapped[bool] = mapped_column(default=False)
    """Its owner's page opens with it; at most one of each page."""
    created_at: Mapped[dt.datetime]
    changed_at: Mapped[dt.datetime]

    __table_args__ = (UniqueConstraint("owner_id", "page", "name"),)


class DismissalRow(Base):
    """One entry of the overview that a user does not want to see any more."""

    __tablename__ = "dismissals"

    user_id: Mapped[int] = belongs_to("users.id", primary_key=True)
    key: Mapped[str] = mapped_column(String(120), primary_key=True)
    """What it is about, and when that happened."""
    dismissed_at: Mapped[dt.datetime] = mapped_column(index=True)


class PanelRow(Base):
    """A chart, a table or a text of one's own beside the charts of an experiment or a project."""

    __tablename__ = "panels"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = belongs_to("projects.id", index=True)
    experiment_id: Mapped[int | None] = belongs_to("experiments.id", index=True)
    """Experiment that it belongs to; null: every experiment of the project shows it."""
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    position: Mapped[int]
    """Place among the panels of the same experiment or project, from 0."""
    title: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(16))
    """schemas.panels.PanelKind."""
    expressions: Mapped[list[Any]]
    """Metrics and expressions of metrics; for images the names of media."""
    x: Mapped[str | None] = mapped_column(String(500))
    """Metric or expression along the x axis; null: the step."""
    text: Mapped[str]
    """Markdown; "" for the other kinds."""
    created_at: Mapped[dt.datetime]
    changed_at: Mapped[dt.datetime]


class ReportRow(Base):
    """A page of text, charts, tables and media over runs of a project."""

    __tablename__ = "reports"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = belongs_to("projects.id", index=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    title: Mapped[str] = mapped_column(String(200))
    blocks: Mapped[list[Any]]
    """schemas.reports.Block as JSON, from the top of the page."""
    version: Mapped[int] = mapped_column(default=1)
    """Number of the change that made it what it is, from 1."""
    created_at: Mapped[dt.datetime]
    changed_at: Mapped[dt.datetime]
    frozen_at: Mapped[dt.datetime | None]
    """Time whose values it shows; null: it shows those of the moment it is read."""
    frozen: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    """schemas.reports.ReportContentOut of that time as JSON."""


class ReportCommentRow(Base):
    """What somebody wrote below a report."""

    __tablename__ = "report_comments"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    report_id: Mapped[int] = belongs_to("reports.id", BigId, index=True)
    author_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    text: Mapped[str]
    created_at: Mapped[dt.datetime]


class ReportLinkRow(Base):
    """A secret that shows one report to whoever has it, without an account."""

    __tablename__ = "report_links"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    report_id: Mapped[int] = belongs_to("reports.id", BigId, index=True)
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    created_by: Mapped[str] = mapped_column(String(160))
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    last_used_at: Mapped[dt.datetime | None]
