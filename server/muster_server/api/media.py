"""Media that scripts log per step; see docs/guides/media.md."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from fastapi import Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from muster.media import EXTENSIONS
from muster.wire import MediaKind
from muster_server.api.http.deps import By, Config, Cursor, Db, Id, Limit
from muster_server.api.http.routing import Router, Snapshot, Write
from muster_server.schemas.base import Page, SafeStr
from muster_server.schemas.media import MediaContentOut, MediaItemOut, MediaOverviewOut
from muster_server.services.checkpoints import exports
from muster_server.services.runtime import media

router = Router(tags=["media"])

MediaId = Annotated[int, Path(ge=1, le=2**63 - 1)]
Step = Annotated[int | None, Query(ge=0, le=2**53)]

_INLINE = ("image/", "audio/", "video/", "text/plain")
_ACTIVE = ("image/svg+xml",)
"""Types that can hold scripts: a browser that opens the address itself only saves them."""


@router.get("/trials/{trial_id}/media/series")
def list_media_series(trial_id: Id, session: Snapshot) -> MediaOverviewOut:
    """List the names that a trial has logged media under, with kind, ranks and steps, and how many
    items were left out. Items of an earlier attempt after the step at which a later one resumed are
    not shown."""
    return media.overview(session, trial_id)


@router.get("/trials/{trial_id}/media")
def list_media(
    trial_id: Id,
    session: Snapshot,
    names: Annotated[
        list[SafeStr], Query(alias="name", max_length=50, description="Absent: all.")
    ] = [],  # noqa: B006
    kinds: Annotated[
        list[MediaKind], Query(alias="kind", max_length=9, description="Absent: all.")
    ] = [],  # noqa: B006
    rank: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    from_step: Step = None,
    to_step: Step = None,
    order: Literal["asc", "desc"] = "asc",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[MediaItemOut]:
    """List the media of a trial by step, without their content."""
    return media.list_items(
        session,
        trial_id,
        names=names,
        kinds=kinds,
        rank=rank,
        from_step=from_step,
        to_step=to_step,
        descending=order == "desc",
        cursor=cursor,
        limit=limit,
    )


@router.post("/trials/{trial_id}/media/{media_id}:fetch", status_code=202)
def fetch_media_content(
    trial_id: Id, media_id: MediaId, session: Write, by: By, settings: Config
) -> MediaContentOut:
    """Have the content of an item sent by a node that has it, unless the server holds it. Ask again
    until it is ready; it stays for an hour."""
    return media.fetch(session, trial_id, media_id, by, settings=settings)


@router.get(
    "/trials/{trial_id}/media/{media_id}/content",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        206: {"description": "The range that was asked for."},
        304: {"description": "The client has it."},
    },
)
def get_media_content(
    trial_id: Id,
    media_id: MediaId,
    db: Db,
    if_none_match: Annotated[str | None, Header(max_length=200)] = None,
    range_: Annotated[str | None, Header(alias="Range", max_length=200)] = None,
) -> Response:
    """Return the content of an item. 422 if it must be fetched first, 409 while it is on its way."""
    with db.read() as session:
        found = media.content(session, trial_id, media_id)
    item = found.item
    etag = f'"{item.sha256}"'
    # The middleware adds nosniff and a policy with `sandbox`.
    headers = {
        "ETag": etag,
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f'{_disposition(item.mime)}; filename="{_file_name(item)}"',
        "Accept-Ranges": "bytes",
    }
    if if_none_match == etag:
        return Response(status_code=304, headers=headers)
    media_type = f"{item.mime}; charset=utf-8" if item.mime.startswith("text/") else item.mime
    span = _span(range_, item.size_bytes)
    if span is None and found.export_id is not None:
        headers["Content-Length"] = str(item.size_bytes)
        pieces = exports.stream(db, found.export_id)
        return StreamingResponse(pieces, media_type=media_type, headers=headers)
    data = found.data
    if data is None:
        assert found.export_id is not None
        data = b"".join(exports.stream(db, found.export_id))
    if span is None:
        return Response(data, media_type=media_type, headers=headers)
    first, last = span
    headers["Content-Range"] = f"bytes {first}-{last}/{item.size_bytes}"
    return Response(data[first : last + 1], status_code=206, media_type=media_type, headers=headers)


def _disposition(mime: str) -> str:
    is_shown = mime.startswith(_INLINE) and mime not in _ACTIVE
    return "inline" if is_shown else "attachment"


def _file_name(item: MediaItemOut) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", item.name).strip("-.") or "media"
    return f"{name[-100:]}-step-{item.step}-rank-{item.rank}{EXTENSIONS[item.mime]}"


def _span(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """Return first and last byte of a single range, which players ask for; None for all of it."""
    found = re.fullmatch(r"bytes=(\d{1,15})-(\d{0,15})", header or "")
    if found is None or int(found[1]) >= size_bytes:
        return None
    last = min(int(found[2]), size_bytes - 1) if found[2] else size_bytes - 1
    return (int(found[1]), last) if last >= int(found[1]) else None
