"""How fast logs go in, how soon a page of a long one opens, how fast it is searched, how small it lies.

    python bench/logs.py [--database-url URL] [--lines N] [--repeat N]

Two workers write N lines together, in appends of 64 KiB. A page is 500 lines: the time is that of
the service and of encoding the answer, which is all of the request but HTTP. Searches are for what
no line holds, so the whole log is read; the reference is Python's own `in` over the same raw text.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import tempfile
import time
from pathlib import Path

from sqlalchemy import func, select
from timing import timed

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base, LogChunkRow
from muster_server.services.logs import reading, storage
from muster_server.services.logs.reading import LogPosition
from muster_server.services.logs.streams import LogFilter
from support.data import add_attempt, add_experiment, add_trial

APPEND_BYTES = 65_536
RANKS = 2


def text_of(num_lines: int) -> bytes:
    """Lines of a training: mostly steps, some with a level, some progress bars and colours."""
    chance = random.Random(1)
    lines = []
    for no in range(num_lines):
        kind = chance.random()
        if kind < 0.01:
            lines.append(f"\x1b[33mWARNING\x1b[0m data loader waited {chance.random():.2f} s")
        elif kind < 0.02:
            lines.append("\r".join(f"epoch {no // 5000}: {p}%" for p in range(0, 101, 20)))
        else:
            lines.append(f"step {no:>8} loss {chance.random():.4f} tokens/s {chance.random():.3f}")
    return ("\n".join(lines) + "\n").encode()


def fill(database: Database, text: bytes) -> tuple[int, float]:
    """The trial, and the seconds that its appends took; each is a transaction."""
    Base.metadata.create_all(database.engine)
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial, slots=RANKS)
    start = time.perf_counter()
    for at in range(0, len(text), APPEND_BYTES):
        for rank in range(RANKS):
            with database.transaction() as session:
                storage.append(
                    session,
                    allocation=session.get_one(AllocationRow, allocation.id),
                    local_rank=rank,
                    stream="stdout",
                    offset=at,
                    data=text[at : at + APPEND_BYTES],
                    now=clock.now(),
                )
    return trial.id, time.perf_counter() - start


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database-url", help="default: a new SQLite file")
    arguments.add_argument("--lines", type=int, default=1_000_000)
    arguments.add_argument("--repeat", type=int, default=40)
    given = arguments.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, {given.lines:,} lines, "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    text = text_of(given.lines // RANKS)
    size = RANKS * len(text)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(given.database_url or f"sqlite:///{Path(folder) / 'logs.db'}")
        trial_id, seconds = fill(database, text)
        print(f"append     {size / seconds / 1e6:8.1f} MB/s raw ({size / 1e6:.0f} MB)")
        with database.read() as session:
            packed = session.scalar(select(func.sum(func.length(LogChunkRow.data)))) or 0
        print(f"size       {packed / size:8.3f} bytes of chunks per byte written")

        def page(wanted: LogFilter = LogFilter(), **place: object) -> reading.LogPage:  # noqa: B008
            with database.read() as session:
                found = reading.read_page(session, trial_id, wanted, **place)  # type: ignore[arg-type]
                found.model_dump_json()
                return found

        places: dict[str, dict[str, object]] = {
            "tail": {"start": "tail"},
            "head": {"start": "head"},
            "middle": {"start": LogPosition(fraction=0.5)},
        }
        for name, place in places.items():
            median, p95 = timed(lambda place=place: page(**place), given.repeat)
            print(f"open {name:6}{median:8.1f} ms (median), {p95:.1f} ms (95th), n {given.repeat}")

        start = time.process_time()
        assert text.count(b"nowhere to be found") == 0
        reference = len(text) / (time.process_time() - start)
        print(
            f"reference  {reference / 1e6:8.1f} MB/s of the processor: bytes.count of the raw text"
        )
        for name, wanted in {
            "text": LogFilter(text="nowhere to be found"),
            "pattern": LogFilter(text=r"loss (nan|-?inf)\b.*step", is_regex=True),
            "level": LogFilter(levels=frozenset({"critical"})),
        }.items():
            clock_s, busy_s = time.perf_counter(), time.process_time()
            found, pages = page(wanted), 1
            while found.older is not None:
                found, pages = page(wanted, cursor=found.older), pages + 1
            clock_s, busy_s = time.perf_counter() - clock_s, time.process_time() - busy_s
            print(
                f"{name:11}{size / clock_s / 1e6:8.1f} MB/s of the clock, "
                f"{size / busy_s / 1e6:.1f} MB/s of the processor, {pages} pages"
            )
        database.dispose()


if __name__ == "__main__":
    main()
