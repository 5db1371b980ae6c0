"""Reading blocks whose points have left the database.

A trial whose metrics are cold keeps its series, blocks and spans with their roll-ups. Of a block the points
are rows of a Parquet file, and its data say which (metrics_codec.ColdPlace). So whoever reads blocks asks
`decoded` for their points, and knows no difference; a chart that roll-ups are fine enough for reads no file.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import MetricFileRow
from muster_server.db.queries.metrics import chunked
from muster_server.db.queries.metrics_codec import (
    ColdPlace,
    Points,
    cold_place,
    concat,
    decode_block,
)

from . import cold_store

BlockKey = tuple[int, int]
"""(series, first step) of a block."""
CACHE_BYTES = 64 << 20
"""Row groups that a process keeps decoded, those last used."""
FOOTERS_MAX = 32
"""Ends of files, which say where their row groups are, that a process keeps; some 400 bytes for each
row group."""
POINT_BYTES = 24
COLUMNS = ("step", "time_ms", "value")


class ColdFile(NamedTuple):
    """What reading needs to know of a file."""

    id: int
    name: str
    group_rows: int


def decoded(session: Session, data: Mapping[BlockKey, bytes]) -> dict[BlockKey, Points]:
    """Return the points of these encoded blocks, wherever they are. Raises Unavailable."""
    places = {key: cold_place(block) for key, block in data.items()}
    ids = {place.file_id for place in places.values() if place is not None}
    files: dict[int, ColdFile] = {}
    for some in chunked(ids):
        rows = session.execute(
            select(MetricFileRow.id, MetricFileRow.name, MetricFileRow.group_rows).where(
                MetricFileRow.id.in_(some)
            )
        )
        files |= {row.id: ColdFile(*row) for row in rows}
    return {
        key: decode_block(data[key]) if place is None else _points(files, place)
        for key, place in places.items()
    }


def _points(files: Mapping[int, ColdFile], place: ColdPlace) -> Points:
    file = files.get(place.file_id)
    if file is None:
        raise cold_store.unavailable(f"the database does not know the file {place.file_id}.")
    end = place.first_row + place.num_rows
    parts = []
    for index in range(place.first_row // file.group_rows, (end - 1) // file.group_rows + 1):
        begin = index * file.group_rows
        group = _cached_group(file, index)
        rows = slice(max(0, place.first_row - begin), end - begin)
        parts.append(Points(group.steps[rows], group.times_ms[rows], group.values[rows]))
    points = concat(parts)
    if len(points) != place.num_rows:
        raise cold_store.unavailable(f"{file.name} ends before row {end:,}.")
    return points


# ---------------------------------------------------------------- row groups

_lock = threading.Lock()
_groups: OrderedDict[tuple[str, int], Points] = OrderedDict()


def _cached_group(file: ColdFile, index: int) -> Points:
    key = (file.name, index)
    with _lock:
        found = _groups.get(key)
        if found is not None:
            _groups.move_to_end(key)
            return found
    with cold_store.opened(file.name) as source:
        found = read_group(source, index, footer=_footer(file.name))
    with _lock:
        _groups[key] = found
        while sum(map(len, _groups.values())) * POINT_BYTES > CACHE_BYTES and len(_groups) > 1:
            _groups.popitem(last=False)
    return found


def read_group(source: Any, index: int, *, footer: Any = None) -> Points:
    """Return the points of one row group of an open file, whose checksums are compared."""
    from pyarrow import parquet

    reader = parquet.ParquetFile(source, metadata=footer, page_checksum_verification=True)
    table = reader.read_row_group(index, columns=list(COLUMNS), use_threads=False)
    steps, times_ms, values = (table.column(name).to_numpy() for name in COLUMNS)
    return Points(steps, times_ms, np.asarray(values, np.float64))


@lru_cache(maxsize=FOOTERS_MAX)
def _footer(name: str) -> Any:
    from pyarrow import parquet

    with cold_store.opened(name) as source:
        return parquet.read_metadata(source)
