"""Whether a value costs as much in a long training as in a short one: over HTTP, up to 10^8 values.

    python bench/ingest_flat.py [--values N] [--database KIND] [--minutes M]

One trial of 20 metrics, one agent, one API server, as in ingest_http.py: requests of 10 records of 20
metrics × 50 steps, each answered when it is committed; after every half a million values they are
compacted, as the Celery worker does it. The values are noise as a training logs it, in float32.
For each power of ten, of what came since the one before: the time of the clock and of the processor
that a value takes until it is durable (the API server's, and PostgreSQL's own), the same for
compaction, what a value takes on disk, and how long windows of one curve take at that size.

After M minutes it stops where it is and says so. Disk: about 8 bytes per value.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from dataclasses import dataclass

import httpx
import numpy as np
from ingest_http import NUM_NAMES, Trial, bytes_on_disk, vacuum
from timing import of

from support.processes import Kind, control_plane

RECORDS, STEPS = 10, 50
PER_REQUEST = RECORDS * STEPS * NUM_NAMES
REQUESTS_AT_ONCE = 50
FIRST_DECADE = 100_000
POOL = 20_000
"""Pieces of curves to draw from: so many that no block holds one twice, which would compress."""
WINDOWS = 20


class Curves:
    """Requests as an agent sends them, made from text: what is measured is the server."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        noise = np.random.default_rng(1).normal(1.0, 0.1, (POOL, STEPS)).astype(np.float32)
        self._pieces = [json.dumps([float(v) for v in piece]) for piece in noise]
        self._names = [json.dumps(f"group/metric_{no}") for no in range(NUM_NAMES)]

    def record(self, first: int) -> str:
        steps = json.dumps(list(range(first, first + STEPS)))
        times = json.dumps([1_000_000 + 100 * step for step in range(first, first + STEPS)])
        series = ",".join(
            f'{{"name":{name},"steps":{steps},"times_ms":{times},'
            f'"values":{self._pieces[self._chance.randrange(POOL)]}}}'
            for name in self._names
        )
        step = first + STEPS - 1
        return f'{{"type":"metrics","local_rank":0,"rank":0,"series":[{series}],"step":{step}}}'

    def request(self, trial: Trial) -> bytes:
        numbered = []
        for _ in range(RECORDS):
            trial.seq += 1
            numbered.append(
                f'{{"seq":{trial.seq},"at_ms":0,"record":{self.record(trial.step + 1)}}}'
            )
            trial.step += STEPS
        head = {
            "node_id": trial.agent.node_id,
            "session_epoch": trial.agent.epoch,
            "attempt_no": trial.agent.specs[trial.allocation_id].spec.attempt_no,
        }
        return f'{json.dumps(head)[:-1]},"records":[{",".join(numbered)}]}}'.encode()


@dataclass
class Cost:
    """Seconds."""

    sent: float = 0.0
    server: float = 0.0
    compacted: float = 0.0
    compacting: float = 0.0
    """Of the processor."""
    postgres: float = 0.0
    num: int = 0

    def text(self) -> str:
        def per(seconds: float) -> str:
            return f"{1e6 * seconds / self.num:.2f}"

        postgres = f", PostgreSQL {per(self.postgres)}" if self.postgres else ""
        return (
            f"in {per(self.sent)} us (processor: server {per(self.server)}), compacted"
            f" {per(self.compacted)} us (processor {per(self.compacting)}){postgres}"
        )


def add(trial: Trial, curves: Curves, num: int, cost: Cost) -> None:
    """`num` values more, at least those of a request."""
    bodies = [curves.request(trial) for _ in range(max(1, num // PER_REQUEST))]
    before = trial.plane.usage()
    cost.sent += trial.send(bodies)
    own = time.process_time()
    cost.compacted += trial.compact()
    cost.compacting += time.process_time() - own
    after = trial.plane.usage()
    cost.server += after["server-1"].cpu_s - before["server-1"].cpu_s
    if "postgres" in after:
        cost.postgres += after["postgres"].cpu_s - before["postgres"].cpu_s
    cost.num += len(bodies) * PER_REQUEST


def windows(trial: Trial, client: httpx.Client) -> str:
    """How long the whole curve takes, and a hundredth of it at any place."""
    chance = random.Random(7)

    def ask(**edges: int) -> float:
        start = time.perf_counter()
        reply = client.get(
            f"/api/v1/trials/{trial.id}/series",
            params={"name": "group/metric_0", "rank": 0, **edges},
        )
        reply.raise_for_status()
        return time.perf_counter() - start

    width = max(100, trial.step // 100)
    places = [chance.randrange(max(1, trial.step - width)) for _ in range(WINDOWS)]
    ask()
    texts = []
    for label, took in (
        ("all of a curve", [ask() for _ in range(WINDOWS)]),
        ("a hundredth", [ask(from_step=at + 1, to_step=at + width) for at in places]),
    ):
        median, p95 = of(took)
        texts.append(f"{label} {median:.1f} ms, p95 {p95:.1f}")
    return "; ".join(texts)


def measure(kind: Kind, num_values: int, minutes: float) -> None:
    end = time.monotonic() + 60 * minutes
    curves = Curves()
    with control_plane(kind, settings={"MUSTER_NODE_LOST_S": "36000"}) as plane:
        trial = Trial(plane)
        headers = {"Authorization": f"Bearer {trial.user_token}"}
        url = next(iter(plane.urls.values()))
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            add(trial, curves, FIRST_DECADE // 10, Cost())
            vacuum(plane.database)
            empty, sent = bytes_on_disk(plane.database), 0
            decade = FIRST_DECADE
            while decade <= num_values:
                cost = Cost()
                while sent < decade and time.monotonic() < end:
                    more = min(REQUESTS_AT_ONCE * PER_REQUEST, decade - sent)
                    before = cost.num
                    add(trial, curves, more, cost)
                    sent += cost.num - before
                vacuum(plane.database)
                size = (bytes_on_disk(plane.database) - empty) / sent
                print(
                    f"{kind} {sent:>11,} values: {cost.text()}; {size:.2f} bytes each on disk;"
                    f" {windows(trial, client)}; load {os.getloadavg()[0]:.1f}"
                )
                if sent < decade:
                    print(f"{kind}: {minutes:g} minutes were up before {decade:,} values")
                    break
                decade *= 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, default=10_000_000, help="from 100,000 on")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--minutes", type=float, default=30, help="at most, per database")
    given = parser.parse_args()
    if given.values < FIRST_DECADE or given.minutes <= 0:
        parser.error(f"--values from {FIRST_DECADE}, --minutes above 0")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    kinds: list[Kind] = ["sqlite", "postgres"] if given.database == "both" else [given.database]
    for kind in kinds:
        measure(kind, given.values, given.minutes)


if __name__ == "__main__":
    main()
