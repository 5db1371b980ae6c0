"""Lines over time: buckets, and the counts of levels that are kept with the chunks."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base
from muster_server.domain.logs.histogram import bucket_edges
from muster_server.domain.logs.lines import level_of
from muster_server.services.logs import histogram, storage
from muster_server.services.logs.streams import LogFilter
from support.data import NOW, add_attempt, add_experiment, add_trial

times = st.datetimes(dt.datetime(2001, 1, 1), dt.datetime(2050, 1, 1), timezones=st.just(dt.UTC))


@given(times, times, st.integers(2, 80))
def test_few_equal_buckets_hold_every_moment(a: dt.datetime, b: dt.datetime, most: int) -> None:
    first, last = sorted((a, b))
    edges = bucket_edges(first, last, most)
    assert edges[0] <= first
    assert last < edges[-1]
    assert len(edges) - 1 <= most
    widths = {after - before for before, after in itertools.pairwise(edges)}
    assert len(widths) == 1
    # No narrower readable width would do with half as many again.
    assert len(edges) - 1 > most / 4 or widths.pop() <= dt.timedelta(seconds=0.1)


def test_wrong_buckets_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        bucket_edges(NOW, NOW, 1)
    with pytest.raises(ValueError, match="before first"):
        bucket_edges(NOW, NOW - dt.timedelta(seconds=1), 10)


pieces = st.lists(
    st.tuples(
        st.sampled_from(["INFO a\n", "ERROR b\n", "c\n", "WAR", "N d\n", "\n", "e\nFATAL f\nDEB", "UG g\n"]),
        st.integers(0, 90),
    ),
    min_size=1,
    max_size=25,
)  # fmt: skip


@settings(max_examples=15)
@given(pieces, st.integers(1, 3))
@example(written=[("WAR", 0), ("WAR", 0), ("N d\n", 0)], ranks=1)
def test_what_is_counted_is_what_was_logged(written: list[tuple[str, int]], ranks: int) -> None:
    database = Database("sqlite://")
    Base.metadata.create_all(database.engine)
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        trial_id, allocation_id = trial.id, allocation.id
    at, offsets = NOW, Counter[int]()
    whole = dict.fromkeys(range(ranks), b"")
    for no, (piece, pause_s) in enumerate(written):
        at += dt.timedelta(seconds=pause_s)
        rank = no % ranks
        with database.transaction() as session:
            storage.append(
                session, allocation=session.get_one(AllocationRow, allocation_id), local_rank=rank,
                stream="stdout", offset=offsets[rank], data=piece.encode(), now=at,
            )  # fmt: skip
        offsets[rank] += len(piece)
        whole[rank] += piece.encode()
    with database.read() as session:
        found = histogram.of_trial(session, trial_id, LogFilter())
    lines = [line for data in whole.values() for line in data.split(b"\n")[:-1]]
    assert sum(found.num_lines) == len(lines)
    levels = Counter(level for line in lines if (level := level_of(line)) is not None)
    assert {name: sum(counts) for name, counts in found.levels.items() if sum(counts)} == levels
    database.dispose()
