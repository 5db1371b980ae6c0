"""What the blocks of a report show: runs, their values, curves and media, read now."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from muster.document.codec import dump
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.experiments.columns import FIXED_OF_RUNS
from muster_server.domain.messages import Message
from muster_server.domain.reports import (
    ReportTable,
    Scalar,
    place_of,
    table_rows,
    value_text,
    with_baseline,
)
from muster_server.domain.states import TrialState
from muster_server.errors import MusterError
from muster_server.schemas.base import parts_out
from muster_server.schemas.reports import (
    RUNS_MAX,
    Block,
    BlockContentOut,
    ChartBlock,
    MarkdownBlock,
    MediaBlock,
    ReportContentOut,
    ReportMediaOut,
    ReportRunOut,
    RunSet,
    TableBlock,
)

from ..experiments.columns import json_member, read_column, value_in
from ..experiments.filters import ExperimentFilter, conditions
from ..metrics import trial_curves
from ..runtime import media

CONTENT_BYTES_MAX = 8 * 2**20
"""What all blocks show together, as JSON."""
ENTRIES_MAX = 20_000
"""Points or buckets of a chart, over all its curves."""
POINTS_MAX = 300
"""Points or buckets of one curve."""
MEDIA_MAX = 48
"""Media items of a block."""
MEDIA_RUNS_MAX = 24
"""Runs of a block of media, each of which is looked through."""
MEDIA_PER_NAME = 8
"""Media items of one name of one run: what its ranks have logged at the step."""


@dataclass(frozen=True, kw_only=True)
class ReportRun:
    """A run of a block, with the values of the columns that the block names."""

    out: ReportRunOut
    values: dict[str, Scalar]


class _Problem(Exception):
    """Why a block shows nothing."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.english)
        self.message = message


def read_content(
    session: Session, project_id: int, blocks: Sequence[Block], now: dt.datetime
) -> ReportContentOut:
    """Return what the blocks show of runs of the project.

    A block that cannot show anything says why. So do all blocks after CONTENT_BYTES_MAX.
    """
    shown: list[BlockContentOut] = []
    size = 0
    for block in blocks:
        try:
            if size > CONTENT_BYTES_MAX:
                raise _too_large()
            out = _content_of(session, project_id, block)
            size += len(out.model_dump_json())
            if size > CONTENT_BYTES_MAX:
                raise _too_large()
        except _Problem as problem:
            message = problem.message
            out = BlockContentOut(
                kind=block.kind,
                title=getattr(block, "title", ""),
                problem=message.english,
                problem_parts=parts_out(message),
            )
        shown.append(out)
    return ReportContentOut(at=now, blocks=shown)


def is_cut(content: ReportContentOut) -> bool:
    """Return whether a block shows nothing because all together would be too large."""
    return any(
        part.code == "report.too_large" for block in content.blocks for part in block.problem_parts
    )


def check_columns(blocks: Sequence[Block]) -> None:
    """Raise InvalidRequest, naming the block, for a column that is none."""
    for no, block in enumerate(blocks):
        if isinstance(block, TableBlock):
            for field in ("columns", "group_by"):
                for at, text in enumerate(getattr(block, field)):
                    read_column(text, f"blocks.{no}.{field}.{at}", FIXED_OF_RUNS)
        elif isinstance(block, ChartBlock) and block.group_by is not None:
            read_column(block.group_by, f"blocks.{no}.group_by", FIXED_OF_RUNS)


def _too_large() -> _Problem:
    return _Problem(Message("report.too_large", mib=CONTENT_BYTES_MAX // 2**20))


def _content_of(session: Session, project_id: int, block: Block) -> BlockContentOut:
    if isinstance(block, MarkdownBlock):
        return BlockContentOut(kind="markdown", title="", text=block.text)
    if isinstance(block, TableBlock):
        return _table(block, _read_runs(session, project_id, block.runs, _columns_of(block)))
    if isinstance(block, ChartBlock):
        by = [block.group_by] if block.group_by else []
        return _chart(session, block, _read_runs(session, project_id, block.runs, by))
    runs = _read_runs(session, project_id, block.runs, (), limit=MEDIA_RUNS_MAX)
    return _media(session, block, runs)


def _columns_of(block: TableBlock) -> list[str]:
    return [*block.group_by, *block.columns]


# ---------------------------------------------------------------- runs


def _read_runs(
    session: Session,
    project_id: int,
    runs: RunSet,
    columns: Sequence[str],
    *,
    limit: int | None = None,
) -> list[ReportRun]:
    """Return the runs of a set with their values in columns, by experiment and number.

    limit: RUNS_MAX by default. Raises _Problem for none and for more.
    """
    limit = limit or RUNS_MAX
    wanted = [read_column(text, "columns", FIXED_OF_RUNS) for text in dict.fromkeys(columns)]
    names = list(dict.fromkeys(column.path[0] for column in wanted if column.kind == "metric"))
    query = (
        select(
            ExperimentRow,
            TrialRow.id,
            TrialRow.no,
            TrialRow.state,
            TrialRow.step,
            TrialRow.seed,
            TrialRow.hparams,
            *(json_member(TrialRow.summary, name) for name in names),
        )
        .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
        .where(ExperimentRow.project_id == project_id, ExperimentRow.deleting_at.is_(None))
        .where(_is_in(runs))
        .order_by(ExperimentRow.id, TrialRow.no)
        .limit(limit + 1)
    )
    if runs.only_completed:
        query = query.where(TrialRow.state == TrialState.COMPLETED)
    rows = session.execute(query).all()
    if not rows:
        raise _Problem(Message("report.no_runs"))
    if len(rows) > limit:
        raise _Problem(Message("report.too_many_runs", limit=limit))
    configs: dict[int, Any] = {}
    found = []
    for experiment, trial_id, no, state, step, seed, hparams, *entries in rows:
        is_search = experiment.config.search.trials != 1
        name = f"{experiment.name} #{no}" if is_search else experiment.name
        fixed = {
            "name": experiment.name,
            "experiment": experiment.id,
            "trial": trial_id,
            "state": str(state),
            "step": step,
            "seed": seed,
        }
        summary = dict(zip(names, entries, strict=True))
        if any(column.kind == "config" for column in wanted) and experiment.id not in configs:
            configs[experiment.id] = dump(experiment.config)
        sources = {
            "fixed": fixed,
            "config": configs.get(experiment.id),
            "label": experiment.labels,
            "hparam": hparams,
        }
        out = ReportRunOut(
            trial_id=trial_id, trial_no=no, experiment_id=experiment.id, name=name, group=None
        )
        values = {
            column.text: value_in(experiment, sources.get(column.kind) or {}, summary, column)
            for column in wanted
        }
        found.append(ReportRun(out=out, values=values))
    return found


def _is_in(runs: RunSet) -> ColumnElement[bool]:
    chosen: list[ColumnElement[bool]] = [TrialRow.id.in_(runs.trials)]
    if runs.experiments:
        chosen.append(ExperimentRow.id.in_(runs.experiments))
    if runs.labels:
        chosen.append(and_(*conditions(ExperimentFilter(labels=runs.labels))))
    return or_(*chosen)


# ---------------------------------------------------------------- kinds of blocks


def _table(block: TableBlock, runs: Sequence[ReportRun]) -> BlockContentOut:
    values = {run.out.trial_id: run.values for run in runs}
    rows = table_rows(values, block.group_by, block.columns, block.decimals)
    if block.baseline is not None:
        try:
            rows = with_baseline(rows, block.baseline)
        except LookupError:
            raise _Problem(Message("report.no_baseline", trial=block.baseline)) from None
    table = ReportTable(
        head=_head(block),
        num_keys=len(block.group_by),
        is_grouped=bool(block.group_by),
        rows=rows,
    )
    return BlockContentOut(
        kind="table", title=block.title, runs=[run.out for run in runs], table=table
    )


def _head(block: TableBlock) -> list[str]:
    """Return the names of the columns: as they were chosen, else as short as they differ."""
    columns = [read_column(text, "columns", FIXED_OF_RUNS) for text in _columns_of(block)]
    short = [
        f"{'.'.join(column.path)} ({column.statistic})"
        if column.statistic in ("min", "max", "best")
        else ".".join(column.path)
        for column in columns
    ]
    return [
        block.headers.get(column.text) or (name if short.count(name) == 1 else column.text)
        for column, name in zip(columns, short, strict=True)
    ]


def _chart(session: Session, block: ChartBlock, runs: Sequence[ReportRun]) -> BlockContentOut:
    per_curve = ENTRIES_MAX // (len(runs) * len(block.metrics))
    curves = trial_curves.curves(
        session,
        [run.out.trial_id for run in runs],
        names=block.metrics,
        ranks=None,
        from_step=None,
        to_step=None,
        max_points=min(POINTS_MAX, per_curve),
        axis="step",
        x_name=None,
    )
    return BlockContentOut(
        kind="chart",
        title=block.title,
        runs=_in_groups(runs, block.group_by),
        curves=curves,
        expressions=block.expressions or block.metrics,
        x=block.x,
        log=block.log,
        smoothing=block.smoothing,
        num_left_out=curves.num_matching - len(curves.items),
    )


def _in_groups(runs: Sequence[ReportRun], by: str | None) -> list[ReportRunOut]:
    """Return the runs with the names of their groups, and in the order of these."""
    if by is None:
        return [run.out for run in runs]
    name = by.rpartition(".")[2]
    return [
        run.out.model_copy(update={"group": f"{name}={value_text(run.values[by]) or '–'}"})
        for run in sorted(runs, key=lambda run: place_of(run.values[by]))
    ]


def _media(session: Session, block: MediaBlock, runs: Sequence[ReportRun]) -> BlockContentOut:
    found: list[ReportMediaOut] = []
    num = 0
    for run in runs:
        for name in block.names:
            latest = media.list_items(
                session,
                run.out.trial_id,
                names=[name],
                kinds=(),
                rank=None,
                from_step=None,
                to_step=block.step,
                descending=True,
                cursor=None,
                limit=MEDIA_PER_NAME,
            ).items
            for item in latest:
                if item.step != latest[0].step:
                    continue
                num += 1
                if num <= MEDIA_MAX:
                    data = _data(session, run.out.trial_id, item.id)
                    found.append(ReportMediaOut(item=item, data=data))
    return BlockContentOut(
        kind="media",
        title=block.title,
        runs=[run.out for run in runs],
        media=found,
        num_left_out=num - len(found),
    )


def _data(session: Session, trial_id: int, media_id: int) -> str | None:
    """Return the content in base64; None for a file beside the run."""
    try:
        data = media.content(session, trial_id, media_id).data
    except MusterError:
        return None
    return None if data is None else base64.b64encode(data).decode()
