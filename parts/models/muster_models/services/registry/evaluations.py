"""Evaluations of versions: ranked where they can be compared, and by version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_models.domain.registry.leaderboard import Evaluated, leaderboards
from muster_models.schemas.registry import LeaderboardOut, LeaderboardRowOut
from muster_server.db.models import ModelAliasRow, ModelRow, ModelUseRow, ModelVersionRow

EVALUATIONS_MAX = 1000
"""Newest evaluations that leaderboards are made of."""
LEADERBOARDS_MAX = 50
ROWS_MAX = 200
"""Most rows of one leaderboard."""
SHOWN_ON_CARD = 20


def read_leaderboards(session: Session, *, data: str | None) -> list[LeaderboardOut]:
    """Return the leaderboards, that of the newest evaluation first.

    data: only of this data set; None for all.
    """
    query = select(ModelUseRow).where(
        ModelUseRow.kind == "evaluation", ModelUseRow.result.is_not(None)
    )
    if data is not None:
        query = query.where(ModelUseRow.result["data"].as_string() == data)
    rows = session.scalars(query.order_by(ModelUseRow.id.desc()).limit(EVALUATIONS_MAX)).all()
    by_id = {row.id: row for row in rows}
    boards = leaderboards([found for row in rows if (found := evaluated(row)) is not None])
    boards = boards[:LEADERBOARDS_MAX]
    versions = _versions(session, [by_id[r.evaluation.use_id] for b in boards for r in b.rows])
    return [
        LeaderboardOut.from_row(
            board.key,
            metric=board.metric,
            goal=board.goal,
            num_versions=len(board.rows),
            rows=[
                _row(by_id[row.evaluation.use_id], row.rank, row.evaluation, versions)
                for row in board.rows[:ROWS_MAX]
            ],
        )
        for board in boards
    ]


def evaluated(row: ModelUseRow) -> Evaluated | None:
    """Return an evaluation as it is compared; None for a result of another form, as a job of the user's
    own may report."""
    result: dict[str, Any] = row.result or {}
    metrics = result.get("metrics")
    texts = [result.get(name) for name in ("data", "split", "data_digest")]
    version = result.get("metrics_version")
    if not isinstance(metrics, dict) or not all(isinstance(text, str) for text in texts):
        return None
    if not isinstance(version, int):
        return None
    try:
        values = {str(name): decode_number(value) for name, value in metrics.items()}
    except (ValueError, TypeError):
        return None
    return Evaluated(
        use_id=row.id,
        version_id=row.version_id,
        data=str(texts[0]),
        split=str(texts[1]),
        data_digest=str(texts[2]),
        metrics_version=version,
        metrics=values,
    )


def of_version(session: Session, version_id: int) -> list[Evaluated]:
    """Return the newest evaluations of a version, for its card."""
    rows = session.scalars(
        select(ModelUseRow)
        .where(
            ModelUseRow.version_id == version_id,
            ModelUseRow.kind == "evaluation",
            ModelUseRow.result.is_not(None),
        )
        .order_by(ModelUseRow.id.desc())
        .limit(SHOWN_ON_CARD)
    )
    return [found for row in rows if (found := evaluated(row)) is not None]


def _versions(
    session: Session, rows: Sequence[ModelUseRow]
) -> dict[int, tuple[str, int, list[str]]]:
    """Return model, number and aliases of the versions of these rows, by id."""
    ids = {row.version_id for row in rows}
    found: dict[int, tuple[str, int, list[str]]] = {
        version_id: (name, number, [])
        for version_id, name, number in session.execute(
            select(ModelVersionRow.id, ModelRow.name, ModelVersionRow.number)
            .join(ModelRow, ModelRow.id == ModelVersionRow.model_id)
            .where(ModelVersionRow.id.in_(ids))
        )
    }
    aliases = select(ModelAliasRow.version_id, ModelAliasRow.name).where(
        ModelAliasRow.version_id.in_(ids)
    )
    for version_id, alias in session.execute(aliases.order_by(ModelAliasRow.name)):
        found[version_id][2].append(alias)
    return found


def _row(
    use: ModelUseRow,
    rank: int | None,
    evaluation: Evaluated,
    versions: dict[int, tuple[str, int, list[str]]],
) -> LeaderboardRowOut:
    model, number, aliases = versions[use.version_id]
    result = use.result or {}
    speed = result.get("speed")
    numbers = speed.items() if isinstance(speed, dict) else ()
    return LeaderboardRowOut(
        rank=rank,
        model=model,
        version=number,
        aliases=aliases,
        experiment_id=use.experiment_id,
        evaluated_at=use.result_at or use.created_at,
        metrics=dict(evaluation.metrics),
        speed={str(name): float(v) for name, v in numbers if isinstance(v, int | float)},
        num_samples=_whole(result.get("num_samples")),
        num_parameters=_whole(result.get("num_parameters")),
        peak_memory_bytes=_whole(result.get("peak_memory_bytes")),
        device=str(result.get("device") or ""),
        slots=_whole(result.get("slots")),
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
