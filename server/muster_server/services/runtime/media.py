"""Media that scripts log: stored as reported, listed by name and step, fetched when looked at."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import and_, func, or_, select, tuple_
from sqlalchemy.orm import Session

from muster import media
from muster.wire import MediaDropsRecord, MediaRecord
from muster_server.db.engine import touch
from muster_server.db.models import (
    ExperimentRow,
    MediaDropsRow,
    MediaRow,
    NodeRow,
    TrialRow,
)
from muster_server.domain.metrics import visible_limits
from muster_server.errors import InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.exports import ExportOut
from muster_server.schemas.media import (
    MediaContentOut,
    MediaDropsOut,
    MediaItemOut,
    MediaOverviewOut,
    MediaSeriesOut,
)
from muster_server.settings import Settings

from ..checkpoints import exports
from ..checkpoints.lookup import OBJECT_STORE, store_of
from ..core.callers import Caller
from ..core.lookup import get_trial
from ..core.paging import decode_cursor, encode_cursor
from ..core.reporters import ReportingAllocation
from ..core.texts import storable
from ..outputs import downloads

ITEMS_PER_TRIAL = 50_000
"""Most items of one trial, over all attempts and nodes."""
DROP_REASONS_MAX = 16
SERIES_MAX = 1_000
STEPS_MAX = 2_000
"""Most steps of one name that are listed."""
FOLDER = "muster-outputs/media"
_AT_MAX_MS = 253_402_300_799_000
"""The last second of the year 9999."""

# ---------------------------------------------------------------- what agents report


def record(
    session: Session,
    allocation: ReportingAllocation,
    reported: Sequence[MediaRecord],
    now: dt.datetime,
) -> None:
    """Store items; those beyond ITEMS_PER_TRIAL, and those that no agent sends, are counted as left
    out."""
    num = session.scalar(select(func.count()).where(MediaRow.trial_id == allocation.trial_id)) or 0
    trial = session.get_one(TrialRow, allocation.trial_id)
    storage_id = ""
    left_out: dict[int, Counter[str]] = defaultdict(Counter)
    for item in reported:
        row = _row(allocation, item, now)
        if row is None:
            left_out[item.rank]["damaged"] += 1
            continue
        if num >= ITEMS_PER_TRIAL:
            left_out[item.rank]["trial"] += 1
            continue
        if row.file:
            storage_id = storage_id or _storage_id(session, allocation, trial)
            row.storage_id = storage_id
        session.add(row)
        num += 1
    for rank, reasons in left_out.items():
        drops = _drops_of(session, allocation, rank)
        drops.num = {**drops.num, **{k: drops.num.get(k, 0) + n for k, n in reasons.items()}}
    session.flush()
    touch(session, f"trial:{allocation.trial_id}")


def record_drops(
    session: Session, allocation: ReportingAllocation, reported: MediaDropsRecord
) -> None:
    """Note how many items a rank has left out since its attempt began."""
    row = _drops_of(session, allocation, _rank(reported.rank))
    counts = [(k[:16], n) for k, n in reported.num.items() if 0 < n < 2**53]
    # What was left out here stays.
    row.num = {**row.num, **dict(counts[:DROP_REASONS_MAX])}
    touch(session, f"trial:{allocation.trial_id}")


def _drops_of(session: Session, allocation: ReportingAllocation, rank: int) -> MediaDropsRow:
    key = {
        "trial_id": allocation.trial_id,
        "attempt_no": allocation.attempt_no,
        "rank": _rank(rank),
    }
    row = session.scalar(select(MediaDropsRow).filter_by(**key))
    if row is None:
        row = MediaDropsRow(**key, num={})
        session.add(row)
        session.flush()
    return row


def _row(allocation: ReportingAllocation, item: MediaRecord, now: dt.datetime) -> MediaRow | None:
    """Return the row of an item; None for one that no agent sends."""
    data: bytes | None = None
    if not item.file:
        try:
            data = base64.b64decode(item.data, validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(data) > media.INLINE_BYTES or hashlib.sha256(data).hexdigest() != item.sha256:
            return None
    elif item.file != f"{FOLDER}/{item.sha256}{media.EXTENSIONS.get(item.mime, '')}":
        return None
    if (
        media.why_unfit(item.kind, item.mime)
        or not 0 <= item.step <= 2**53
        or not 0 <= item.size_bytes <= media.ITEM_MAX_BYTES
        or len(item.sha256) != 64
        or item.rank != _rank(item.rank)
    ):
        return None
    return MediaRow(
        trial_id=allocation.trial_id,
        attempt_no=allocation.attempt_no,
        name=storable(item.name, 200) or "unnamed",
        kind=item.kind,
        step=item.step,
        rank=item.rank,
        at=_at(item.time_ms, now),
        mime=item.mime,
        sha256=item.sha256,
        size_bytes=item.size_bytes,
        caption=storable(item.caption, 500),
        width=max(0, min(item.width, 2**31 - 1)),
        height=max(0, min(item.height, 2**31 - 1)),
        data=data,
        file=item.file,
        node_name=allocation.node_name,
        storage_id="",
    )


def _rank(rank: int) -> int:
    return max(0, min(rank, 2**31 - 1))


def _storage_id(session: Session, allocation: ReportingAllocation, trial: TrialRow) -> str:
    if store_of(session.get_one(ExperimentRow, trial.experiment_id).config):
        return OBJECT_STORE
    return session.scalar(select(NodeRow.storage_id).where(NodeRow.id == allocation.node_id)) or ""


def _at(unix_ms: int, now: dt.datetime) -> dt.datetime:
    """Return the time; `now` for one that a calendar does not have."""
    if not 0 < unix_ms <= _AT_MAX_MS:
        return now
    return dt.datetime.fromtimestamp(unix_ms / 1000, dt.UTC)


# ---------------------------------------------------------------- what people see


@dataclass
class _ShownMedia:
    """What is shown of one name and kind."""

    steps: set[int] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    num_items: int = 0
    last_at: dt.datetime | None = None


def overview(session: Session, trial_id: int) -> MediaOverviewOut:
    """Return the names that a trial has logged media under, with their steps, and how many items were
    left out. Raises NotFound."""
    get_trial(session, trial_id)
    limits = _limits(session, trial_id)
    grouped = session.execute(
        select(
            MediaRow.name,
            MediaRow.kind,
            MediaRow.attempt_no,
            MediaRow.step,
            MediaRow.rank,
            func.count(),
            func.max(MediaRow.at),
        )
        .where(MediaRow.trial_id == trial_id)
        .group_by(MediaRow.name, MediaRow.kind, MediaRow.attempt_no, MediaRow.step, MediaRow.rank)
    )
    found: dict[tuple[str, str], _ShownMedia] = defaultdict(_ShownMedia)
    for name, kind, attempt_no, step, rank, num, at in grouped:
        if not _is_visible(limits.get(name, {}), attempt_no, step):
            continue
        series = found[name, kind]
        series.steps.add(step)
        series.ranks.add(rank)
        series.num_items += num
        series.last_at = max(series.last_at or at, at)
    return MediaOverviewOut(
        series=[
            MediaSeriesOut(
                name=name,
                kind=kind,  # type: ignore[arg-type]
                num_items=series.num_items,
                ranks=sorted(series.ranks),
                steps=_spread(sorted(series.steps), STEPS_MAX),
                num_steps=len(series.steps),
                last_at=series.last_at,  # type: ignore[arg-type]
            )
            for (name, kind), series in sorted(found.items())[:SERIES_MAX]
        ],
        num_series=len(found),
        dropped=_dropped(session, trial_id),
    )


def list_items(
    session: Session,
    trial_id: int,
    *,
    names: Sequence[str],
    kinds: Sequence[str],
    rank: int | None,
    from_step: int | None,
    to_step: int | None,
    descending: bool,
    cursor: str | None,
    limit: int,
) -> Page[MediaItemOut]:
    """Return one page of the visible items, by step and then in the order they were logged. Raises
    NotFound and InvalidRequest."""
    get_trial(session, trial_id)
    after = decode_cursor(cursor, int, int)
    query = select(MediaRow).where(MediaRow.trial_id == trial_id)
    if names:
        query = query.where(MediaRow.name.in_(names))
    if kinds:
        query = query.where(MediaRow.kind.in_(kinds))
    if rank is not None:
        query = query.where(MediaRow.rank == rank)
    if from_step is not None:
        query = query.where(MediaRow.step >= from_step)
    if to_step is not None:
        query = query.where(MediaRow.step <= to_step)
    hidden = [
        and_(MediaRow.name == name, MediaRow.attempt_no == attempt_no, MediaRow.step > last)
        for name, limits in _limits(session, trial_id, names).items()
        for attempt_no, last in limits.items()
        if last is not None
    ]
    if hidden:
        query = query.where(~or_(*hidden))
    key = (MediaRow.step, MediaRow.id)
    if after is not None:
        place = tuple_(*key)
        query = query.where(place < tuple(after) if descending else place > tuple(after))
    order = [column.desc() if descending else column for column in key]
    rows = session.scalars(query.order_by(*order).limit(limit + 1)).all()
    last_row = rows[limit - 1] if len(rows) > limit else None
    return Page(
        items=[MediaItemOut.from_row(row) for row in rows[:limit]],
        next=encode_cursor(last_row.step, last_row.id) if last_row is not None else None,
    )


def _limits(
    session: Session, trial_id: int, names: Sequence[str] = ()
) -> dict[str, dict[int, int | None]]:
    """Return, for each name, the last visible step of each attempt; None for all. Metrics are shown
    in the same way."""
    if get_trial(session, trial_id).attempt_no < 2:
        return {}
    query = select(MediaRow.name, MediaRow.attempt_no, func.min(MediaRow.step)).where(
        MediaRow.trial_id == trial_id
    )
    if names:
        query = query.where(MediaRow.name.in_(names))
    first_steps: dict[str, dict[int, int]] = defaultdict(dict)
    for name, attempt_no, first in session.execute(
        query.group_by(MediaRow.name, MediaRow.attempt_no)
    ):
        first_steps[name][attempt_no] = first
    return {name: visible_limits(firsts) for name, firsts in first_steps.items()}


def _is_visible(limits: dict[int, int | None], attempt_no: int, step: int) -> bool:
    last = limits.get(attempt_no)
    return last is None or step <= last


def _spread(steps: list[int], most: int) -> list[int]:
    """Return at most `most` of the steps, evenly spaced, the first and the last among them."""
    if len(steps) <= most:
        return steps
    return [steps[no * (len(steps) - 1) // (most - 1)] for no in range(most)]


def _dropped(session: Session, trial_id: int) -> list[MediaDropsOut]:
    total: Counter[str] = Counter()
    for num in session.scalars(select(MediaDropsRow.num).where(MediaDropsRow.trial_id == trial_id)):
        total.update({reason: int(n) for reason, n in num.items()})
    return [MediaDropsOut(reason=reason, num=num) for reason, num in sorted(total.items()) if num]


# ---------------------------------------------------------------- content


def fetch(
    session: Session, trial_id: int, media_id: int, caller: Caller, *, settings: Settings
) -> MediaContentOut:
    """Have the content of an item sent here, unless it is here. Raises NotFound, and Conflict when
    there is no room for it."""
    row = _find(session, trial_id, media_id)
    if not row.file:
        return MediaContentOut(id=row.id, state="ready", waits_for="", message="")
    export = _exported(session, row, caller, settings)
    state = "ready" if export.state == "done" else export.state
    return MediaContentOut(
        id=row.id, state=state, waits_for=export.waits_for, message=export.message
    )


@dataclass(frozen=True, kw_only=True)
class MediaContent:
    """Content to serve: the bytes, or the export that has them."""

    item: MediaItemOut
    data: bytes | None
    export_id: int | None


def content(session: Session, trial_id: int, media_id: int) -> MediaContent:
    """Return the content of an item. Raises NotFound, and Conflict while it is not here."""
    row = _find(session, trial_id, media_id)
    item = MediaItemOut.from_row(row)
    if not row.file:
        return MediaContent(item=item, data=row.data or b"", export_id=None)
    export = downloads.find_media(session, get_trial(session, trial_id), _stored(row))
    if export is None:
        raise InvalidRequest(
            "media.not_fetched",
            f"The content of media item {media_id} is in the storage of {row.node_name}.",
            hint=f"POST /api/v1/trials/{trial_id}/media/{media_id}:fetch has it sent here.",
        )
    return MediaContent(item=item, data=None, export_id=exports.require_done(session, export).id)


def _find(session: Session, trial_id: int, media_id: int) -> MediaRow:
    get_trial(session, trial_id)
    row = session.get(MediaRow, media_id)
    if row is None or row.trial_id != trial_id:
        raise NotFound("media.not_found", f"Trial {trial_id} has no media item {media_id}.")
    return row


def _stored(row: MediaRow) -> downloads.StoredMedia:
    return downloads.StoredMedia(
        path=row.file,
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        node_name=row.node_name,
        storage_id=row.storage_id,
    )


def _exported(session: Session, row: MediaRow, caller: Caller, settings: Settings) -> ExportOut:
    trial = get_trial(session, row.trial_id)
    return downloads.request_media(session, trial, _stored(row), caller, settings=settings)
