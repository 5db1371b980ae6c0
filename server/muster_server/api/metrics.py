"""Metric series: lists, windows of curves, many trials side by side, exports.

Answers are encoded from their columns in one go: going through validation and serialization per
number would cost more than reading a million-point series does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from muster.series_rules import NAME_MAX_CHARS, STEP_MAX
from muster.wire import encode_number
from muster_server.api.http.deps import Db
from muster_server.api.http.openapi import stream_of
from muster_server.db.queries.metrics import begin_snapshot
from muster_server.schemas.data import (
    CurvesReply,
    ExperimentSeriesReply,
    Series,
    SeriesList,
    SeriesReply,
)
from muster_server.services.metrics import export, trial_curves
from muster_server.services.metrics import series as metrics_series

router = APIRouter(tags=["metrics"])

Names = Annotated[
    list[Annotated[str, Query(max_length=NAME_MAX_CHARS)]],
    Query(alias="name", max_length=200, description="Metric name; repeatable. Absent: all."),
]
Ranks = Annotated[
    list[Annotated[int, Query(ge=0, le=1_000_000)]],
    Query(alias="rank", max_length=200, description="Rank; repeatable. Absent: all."),
]
Step = Annotated[int | None, Query(ge=0, le=STEP_MAX)]
TRIALS_MAX = 500
MaxPoints = Annotated[int, Query(ge=10, le=10_000)]


def _pieces(
    trial_id: int,
    db: Db,
    names: Names = [],  # noqa: B006
    ranks: Ranks = [],  # noqa: B006
    from_step: Step = None,
    to_step: Step = None,
) -> Iterator[export.Piece]:
    return export.visible_pieces(
        db,
        trial_id,
        names=names or None,
        ranks=ranks or None,
        from_step=from_step,
        to_step=to_step,
    )


def _filename(trial_id: int, db: Db) -> str:
    """Return the file name without its ending; it tells if retention has left only some of the
    points."""
    with db.read() as session:
        trial = metrics_series.get_trial(session, trial_id)
        return f"trial-{trial_id}" + ("-downsampled" if trial.num_points_dropped else "")


Pieces = Annotated[Iterator[export.Piece], Depends(_pieces)]
Filename = Annotated[str, Depends(_filename)]
"""The visible points that an export was asked for."""


@router.get("/trials/{trial_id}/metrics")
def list_trial_metrics(
    trial_id: int,
    db: Db,
    items: Annotated[
        Literal["all", "non_finite"],
        Query(
            description="non_finite: of the series only those that hold NaN or infinities; all"
            " names and ranks are there in any case."
        ),
    ] = "all",
) -> SeriesList:
    """List every series of a trial with its summary, without points."""
    with db.read() as session:
        begin_snapshot(session)
        return metrics_series.list_series(session, trial_id, non_finite=items == "non_finite")


@router.get("/trials/{trial_id}/series", response_model=SeriesReply)
def get_trial_series(
    trial_id: int,
    db: Db,
    names: Names = [],  # noqa: B006
    ranks: Ranks = [],  # noqa: B006
    from_step: Step = None,
    to_step: Step = None,
    max_points: MaxPoints = 1000,
) -> Response:
    """Return curves in a window of steps: exact points if there are few, else anchored buckets."""
    with db.read() as session:
        begin_snapshot(session)
        reply = metrics_series.series(
            session,
            trial_id,
            names=names or None,
            ranks=ranks or None,
            from_step=from_step,
            to_step=to_step,
            max_points=max_points,
        )
    return _json({**reply.__dict__, "series": [_columns(s) for s in reply.series]})


@router.get("/trials/{trial_id}/series.csv", **stream_of("text/csv"))
def export_trial_series(name: Filename, pieces: Pieces) -> StreamingResponse:
    """Download the visible points, one line each: name, rank, attempt_no, step, time_ms, value.

    The file of a trial whose metrics retention has downsampled is called so: it has what is kept.
    """
    return _file(export.as_csv(pieces), f"{name}.csv", "text/csv; charset=utf-8")


@router.get("/trials/{trial_id}/series.jsonl", **stream_of("application/x-ndjson"))
def export_trial_series_lines(name: Filename, pieces: Pieces) -> StreamingResponse:
    """Download the visible points, one JSON object per line, with the fields of the CSV file."""
    return _file(export.as_json_lines(pieces), f"{name}.jsonl", "application/x-ndjson")


@router.get("/trials/{trial_id}/series.parquet", **stream_of("application/vnd.apache.parquet"))
def export_trial_series_parquet(name: Filename, pieces: Pieces) -> StreamingResponse:
    """Download the visible points as a Parquet file, with the columns of the CSV file."""
    return _file(
        export.as_parquet(pieces),
        f"{name}.parquet",
        "application/vnd.apache.parquet",
    )


@router.get("/series", response_model=CurvesReply)
def list_curves(
    db: Db,
    trials: Annotated[
        list[Annotated[int, Query(ge=1)]],
        Query(alias="trial", min_length=1, max_length=TRIALS_MAX, description="Id; repeatable."),
    ],
    names: Annotated[
        list[Annotated[str, Query(min_length=1, max_length=NAME_MAX_CHARS)]],
        Query(alias="name", min_length=1, max_length=50, description="Metric name; repeatable."),
    ],
    ranks: Annotated[
        list[Annotated[int, Query(ge=0, le=1_000_000)]],
        Query(alias="rank", max_length=200, description="Absent: the lowest that reports a name."),
    ] = [],  # noqa: B006
    from_step: Step = None,
    to_step: Step = None,
    max_points: MaxPoints = 1000,
    x: Annotated[
        trial_curves.Axis,
        Query(
            description="step, time and relative are drawn from what every answer holds. epoch is "
            "worked out from the trial's latest epoch and step. metric takes the values of x_name, "
            "such as a count of samples or tokens that the training logs."
        ),
    ] = "step",
    x_name: Annotated[str | None, Query(min_length=1, max_length=NAME_MAX_CHARS)] = None,
) -> Response:
    """Return many metrics of many trials in one response, along any x axis."""
    with db.read() as session:
        begin_snapshot(session)
        reply = trial_curves.curves(
            session,
            trials,
            names=names,
            ranks=ranks or None,
            from_step=from_step,
            to_step=to_step,
            max_points=max_points,
            axis=x,
            x_name=x_name,
        )
    items = [
        {
            **item.__dict__,
            "series": _columns(item.series),
            "x": None if item.x is None else _wire_floats(item.x),
        }
        for item in reply.items
    ]
    return _json({**reply.__dict__, "items": items})


@router.get("/experiments/{experiment_id}/series", response_model=ExperimentSeriesReply)
def get_experiment_series(
    experiment_id: int,
    db: Db,
    name: Annotated[str, Query(min_length=1, max_length=NAME_MAX_CHARS)],
    max_points: MaxPoints = 200,
    max_trials: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return one metric over the trials of an experiment, for learning curves side by side."""
    with db.read() as session:
        begin_snapshot(session)
        reply = metrics_series.experiment_series(
            session, experiment_id, name=name, max_points=max_points, max_trials=max_trials
        )
    items = [{**item.__dict__, "series": _columns(item.series)} for item in reply.items]
    return _json({**reply.__dict__, "items": items})


def _json(answer: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _columns(series: Series) -> dict[str, Any]:
    columns = dict(series.__dict__)
    columns["attempts"] = [attempt.__dict__ for attempt in series.attempts]
    for field in ("min", "max", "mean", "last"):
        columns[field] = _wire_floats(columns[field])
    if not series.raw:
        # A mean is for drawing, and seven digits of it are; that saves a quarter of the answer.
        columns["mean"] = [
            float(f"{v:.7g}") if isinstance(v, float) else v for v in columns["mean"]
        ]
    return columns


def _wire_floats(values: Sequence[float | None]) -> Sequence[Any]:
    # One pass in C decides; a sum that is finite has only finite terms.
    try:
        if math.isfinite(math.fsum(values)):  # type: ignore[arg-type]  # None raises TypeError
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    return [v if v is None or math.isfinite(v) else encode_number(v) for v in values]


def _file(content: Iterator[bytes], name: str, media_type: str) -> StreamingResponse:
    return StreamingResponse(
        content,
        media_type=media_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
