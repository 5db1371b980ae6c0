"""Models: immutable versions of files, the aliases that name them, and where everything came from."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class ModelRow(Base):
    __tablename__ = "models"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), index=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    name: Mapped[str] = mapped_column(String(64), unique=True)
    description: Mapped[str] = mapped_column(default="")
    tags: Mapped[dict[str, Any]] = mapped_column(default=dict)
    last_number: Mapped[int] = mapped_column(default=0)
    """Number of the newest version there ever was: none is given twice."""
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    updated_at: Mapped[dt.datetime]


class ModelVersionRow(Base):
    """A version. Files, digest, lineage, metrics and signature never change once it is ready."""

    __tablename__ = "model_versions"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    number: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    """making (its digest is not known yet) | ready | failed."""
    message: Mapped[str] = mapped_column(default="")
    """Why it failed, or what it waits for."""
    digest: Mapped[str] = mapped_column(String(80), default="")
    """muster.wire.content_digest; "" while it is being made."""
    source: Mapped[str] = mapped_column(String(16))
    """checkpoint | outputs | upload | mlflow."""
    source_uri: Mapped[str] = mapped_column(String(1000), default="")
    """Where an MLflow client registered it from: an address, or a folder of a trial's outputs."""
    checkpoint_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("checkpoints.id"))
    """Its files are those of this checkpoint, which is kept for it."""
    trial_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("trials.id"))
    experiment_id: Mapped[int | None] = mapped_column(BigId, index=True)
    step: Mapped[int | None] = mapped_column(BigInteger)
    lineage: Mapped[dict[str, Any]]
    """muster_models.services.registry.lineage: as it was known when the version was registered."""
    metrics: Mapped[dict[str, Any]]
    """name → wire number."""
    signature: Mapped[dict[str, Any] | None]
    tags: Mapped[dict[str, Any]] = mapped_column(default=dict)
    notes: Mapped[str] = mapped_column(default="")
    num_files: Mapped[int] = mapped_column(default=0)
    size_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    updated_at: Mapped[dt.datetime]

    __table_args__ = (
        UniqueConstraint("model_id", "number"),
        Index("ix_model_versions_state", "state"),
        Index("ix_model_versions_checkpoint_id", "checkpoint_id"),
        Index("ix_model_versions_trial_id", "trial_id"),
    )


class ModelFileRow(Base):
    """A file of a version, and where its bytes are: in the database, or in a storage that agents
    read."""

    __tablename__ = "model_files"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = belongs_to("model_versions.id")
    path: Mapped[str] = mapped_column(String(500))
    sha256: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Null for a file of a checkpoint of which only the total is known."""
    place: Mapped[dict[str, Any] | None]
    """muster_models.services.registry.places: where an agent finds it; null for bytes in the database."""
    blob_sha256: Mapped[str | None] = mapped_column(
        String(64), ForeignKey("model_blobs.sha256"), index=True
    )
    artifact_id: Mapped[int | None] = mapped_column(
        BigId, ForeignKey("run_artifacts.id"), index=True
    )

    __table_args__ = (UniqueConstraint("version_id", "path"),)


class ModelAliasRow(Base):
    """What an alias names now; how it came to be is in `model_alias_moves`."""

    __tablename__ = "model_aliases"

    model_id: Mapped[int] = belongs_to("models.id", BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    version_id: Mapped[int] = mapped_column(ForeignKey("model_versions.id"), index=True)
    moved_at: Mapped[dt.datetime]
    moved_by: Mapped[str] = mapped_column(String(160))
    reason: Mapped[str] = mapped_column(default="")


class ModelAliasMoveRow(Base):
    """A move of an alias. Rows are added, never changed."""

    __tablename__ = "model_alias_moves"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    model_id: Mapped[int] = belongs_to("models.id", index=True)
    alias: Mapped[str] = mapped_column(String(32))
    number: Mapped[int | None]
    """Version that it names since; null: it was removed."""
    previous: Mapped[int | None]
    at: Mapped[dt.datetime]
    by: Mapped[str] = mapped_column(String(160))
    reason: Mapped[str] = mapped_column(default="")


class ModelPromotionRow(Base):
    """A rule: the best checkpoint of an experiment becomes an alias once the experiment has ended."""

    __tablename__ = "model_promotions"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    model_id: Mapped[int] = belongs_to("models.id")
    experiment_id: Mapped[int] = belongs_to("experiments.id", index=True)
    alias: Mapped[str] = mapped_column(String(32))
    metric: Mapped[str] = mapped_column(String(200))
    goal: Mapped[str] = mapped_column(String(4))
    state: Mapped[str] = mapped_column(String(16))
    """waiting | moved | kept | refused."""
    message: Mapped[str] = mapped_column(default="")
    version_id: Mapped[int | None] = mapped_column(
        BigId, ForeignKey("model_versions.id", ondelete="SET NULL")
    )
    """Version that it registered or found."""
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    decided_at: Mapped[dt.datetime | None]

    __table_args__ = (
        UniqueConstraint("model_id", "experiment_id", "alias"),
        Index("ix_model_promotions_state", "state"),
    )


class ModelUseRow(Base):
    """What an experiment does with a version, and what came of it. Rows of a version or an experiment
    that is deleted go with it."""

    __tablename__ = "model_uses"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = belongs_to("model_versions.id", BigId, index=True)
    experiment_id: Mapped[int] = belongs_to("experiments.id", BigId)
    kind: Mapped[str] = mapped_column(String(16))
    """muster.document.inference.UseKind: input | export | evaluation | prediction | deployment."""
    name: Mapped[str] = mapped_column(String(32))
    """Name among the `models` of the document."""
    result: Mapped[dict[str, Any] | None]
    """What the job has reported last, at most MODEL_RESULT_BYTES; null before that."""
    result_at: Mapped[dt.datetime | None]
    created_at: Mapped[dt.datetime]

    __table_args__ = (
        UniqueConstraint("experiment_id", "name"),
        Index("ix_model_uses_kind", "kind"),
    )


class ModelBlobRow(Base):
    """An uploaded file, under its digest."""

    __tablename__ = "model_blobs"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    received_bytes: Mapped[int] = mapped_column(BigInteger)
    is_complete: Mapped[bool]
    """Whether all of it is there and its digest was verified."""
    changed_at: Mapped[dt.datetime]


class ModelBlobChunkRow(Base):
    __tablename__ = "model_blob_chunks"

    sha256: Mapped[str] = belongs_to("model_blobs.sha256", String(64), primary_key=True)
    idx: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
