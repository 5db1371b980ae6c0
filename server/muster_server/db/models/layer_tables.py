"""The layers of models, which nodes have listed for the planner."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, Json


class LayerTableRow(Base):
    """One model with one shape of samples: wanted of a node, and kept with what it said. A cache:
    rows may be deleted at any time."""

    __tablename__ = "layer_tables"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    """Digest of code, settings of the model, interpreter and version."""
    state: Mapped[str] = mapped_column(String(16))
    """wanted | done | refused | failed; see wire.DescriptionResult."""
    question: Mapped[dict[str, Any]] = mapped_column(Json)
    """What the node is asked; see wire.Description."""
    node_id: Mapped[str] = mapped_column(String(32))
    node_name: Mapped[str] = mapped_column(String(128))
    """The node that was asked last."""
    layers: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """wire.LayerTable; null until it is done."""
    message: Mapped[str] = mapped_column(default="")
    asked_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]

    __table_args__ = (Index("ix_layer_tables_state", "state"),)
