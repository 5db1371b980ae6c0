"""The data path: metric batches and blocks, log bytes, uploaded bundles.

Metrics: one append-only `metric_batches` row per acknowledged record (L0), compacted per series
into `metric_blocks` of 4,096 points with roll-ups (L1). Reading costs pixels, not points.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class MetricSeriesRow(Base):
    __tablename__ = "metric_series"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = belongs_to("trials.id")
    attempt_no: Mapped[int]
    rank: Mapped[int]
    name: Mapped[str] = mapped_column(String(200))
    # Summary, maintained at ingest. Non-finite values count but never become min, max or last_finite.
    count: Mapped[int] = mapped_column(BigInteger, default=0)
    num_non_finite: Mapped[int] = mapped_column(BigInteger, default=0)
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    last_step: Mapped[int | None] = mapped_column(BigInteger)
    last_time_ms: Mapped[int | None] = mapped_column(BigInteger)
    last_value: Mapped[float | None]
    """None when it is NaN or infinite; `last_text` then says which."""
    last_text: Mapped[str] = mapped_column(String(12), default="")
    min_value: Mapped[float | None]
    max_value: Mapped[float | None]
    compacted_step: Mapped[int | None] = mapped_column(BigInteger)

    __table_args__ = (UniqueConstraint("trial_id", "attempt_no", "rank", "name"),)


class MetricBatchRow(Base):
    """L0: the columnar body of one acknowledged record. The key makes a retry count once."""

    __tablename__ = "metric_batches"

    allocation_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(BigInteger)
    attempt_no: Mapped[int]
    rank: Mapped[int]
    num_points: Mapped[int]
    first_step: Mapped[int] = mapped_column(BigInteger)
    last_step: Mapped[int] = mapped_column(BigInteger)
    received_at: Mapped[dt.datetime]
    body: Mapped[bytes] = mapped_column(LargeBinary)

    __table_args__ = (
        Index("ix_metric_batches_trial_id_attempt_no_rank", "trial_id", "attempt_no", "rank"),
    )


class MetricBlockRow(Base):
    """L1: up to 4,096 consecutive points of one series, with some 32 roll-up buckets."""

    __tablename__ = "metric_blocks"

    series_id: Mapped[int] = belongs_to("metric_series.id", primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    last_step: Mapped[int] = mapped_column(BigInteger)
    first_time_ms: Mapped[int] = mapped_column(BigInteger)
    last_time_ms: Mapped[int] = mapped_column(BigInteger)
    num_points: Mapped[int]
    rollup: Mapped[bytes] = mapped_column(LargeBinary)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """Points, or where in a file of cold metrics they are: see `metrics_codec.cold_place`."""


class MetricSpanRow(Base):
    """L2: the roll-ups of 64 consecutive blocks once more, in some 128 buckets; made of blocks that
    are done, and dropped when one of them is written again. Never the only place of anything."""

    __tablename__ = "metric_spans"

    series_id: Mapped[int] = belongs_to("metric_series.id", primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    last_step: Mapped[int] = mapped_column(BigInteger)
    num_points: Mapped[int] = mapped_column(BigInteger)
    bucket_steps: Mapped[int] = mapped_column(BigInteger)
    rollup: Mapped[bytes] = mapped_column(LargeBinary)


class MetricFileRow(Base):
    """A Parquet file with the points of a trial's blocks, in the store of cold metrics. Written before the
    file is, and deleted after it, so that no file is there without its row."""

    __tablename__ = "metric_files"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    trial_id: Mapped[int] = mapped_column(BigInteger, index=True)
    """No foreign key: the file outlives its trial until it is deleted."""
    name: Mapped[str] = mapped_column(String(120))
    """Path within the store."""
    size_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    num_points: Mapped[int] = mapped_column(BigInteger, default=0)
    group_rows: Mapped[int]
    """Rows of each row group but the last."""
    created_at: Mapped[dt.datetime]
    stored_at: Mapped[dt.datetime | None]
    """When the file had been written and read back. Blocks refer to it from then on."""
    finished_at: Mapped[dt.datetime | None]
    """When nobody was at work on it any more."""
    retired_at: Mapped[dt.datetime | None]
    """When the last block that referred to it was gone; the file is deleted some time later."""


class LogStreamRow(Base):
    """One stream of one worker of one allocation (local_rank -1: the launcher)."""

    __tablename__ = "log_streams"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    allocation_id: Mapped[str] = mapped_column(String(32))
    trial_id: Mapped[int] = belongs_to("trials.id", index=True)
    attempt_no: Mapped[int]
    node_name: Mapped[str] = mapped_column(String(128))
    local_rank: Mapped[int]
    rank: Mapped[int]
    """-1 for the launcher."""
    member: Mapped[str] = mapped_column(String(48), default="")
    """Worker of a gang of roles as people name it, "rollout/0"; "" for any other."""
    stream: Mapped[str] = mapped_column(String(8))
    size_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    num_lines: Mapped[int] = mapped_column(BigInteger, default=0)
    is_complete: Mapped[bool] = mapped_column(default=False)

    __table_args__ = (UniqueConstraint("allocation_id", "local_rank", "stream"),)


class LogChunkRow(Base):
    __tablename__ = "log_chunks"

    stream_id: Mapped[int] = belongs_to("log_streams.id", primary_key=True)
    offset: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    length: Mapped[int]
    """Uncompressed bytes."""
    first_line: Mapped[int] = mapped_column(BigInteger)
    """Number (from 0) of the line that contains the chunk's first byte."""
    num_newlines: Mapped[int]
    # Finished lines of the stream up to the end of this chunk that name each level; like first_line
    # a running count, so that those between two moments are a difference.
    num_debug: Mapped[int] = mapped_column(BigInteger, default=0)
    num_info: Mapped[int] = mapped_column(BigInteger, default=0)
    num_warning: Mapped[int] = mapped_column(BigInteger, default=0)
    num_error: Mapped[int] = mapped_column(BigInteger, default=0)
    num_critical: Mapped[int] = mapped_column(BigInteger, default=0)
    received_at: Mapped[dt.datetime]
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """zlib."""

    __table_args__ = (
        # `offset` makes the index answer alone where a stream's lines of a time begin.
        Index("ix_log_chunks_stream_id_received_at", "stream_id", "received_at", "offset"),
    )


class BlobRow(Base):
    """An uploaded code bundle, in the database so that every API server can serve it."""

    __tablename__ = "blobs"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[dt.datetime]


class BlobChunkRow(Base):
    __tablename__ = "blob_chunks"

    sha256: Mapped[str] = belongs_to("blobs.sha256", primary_key=True)
    idx: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
