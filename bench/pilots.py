"""How long a pass takes that decides about many pilots, and how that grows.

    .venv/bin/python bench/pilots.py

Gangs of 1 to 8 nodes wait, pilots are asked for, start and run. Processor time of one decision, in ms.
Goal: 100 ms for 1,000 of each.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import statistics
import time

from muster_server.domain.providers import Gang, Pilot, PilotState, Provider, plan_pilots

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
STATES = (PilotState.PENDING, PilotState.STARTING, PilotState.UP)


def provider() -> Provider:
    return Provider(
        name="Slurm partition main", slots=8, min_pilots=0, max_pilots=5000, walltime_s=43_200.0
    )


def gang(number: int, rng: random.Random) -> Gang:
    return Gang(
        trial_id=number,
        nodes=rng.choice([1, 1, 2, 4, 8]),
        slots_per_node=rng.choice([1, 4, 8]),
        limit_s=3600.0,
        grace_s=30.0,
        since=NOW - HOUR,
    )


def pilot(number: int, rng: random.Random) -> Pilot:
    state = rng.choice(STATES)
    is_up = state is PilotState.UP
    return Pilot(
        id=str(number),
        state=state,
        since=NOW - HOUR,
        ref="7",
        has_node=is_up,
        is_heard=is_up,
        was_up=is_up,
        free_slots=rng.randrange(9),
        ends_at=NOW + 11 * HOUR,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args()
    print(f"processor time of a decision, ms, n {given.repeat}")
    print(f"{'gangs and pilots':>16} {'median':>8} {'min':>8} {'max':>8}")
    for number in (250, 500, 1000, 2000):
        rng = random.Random(7)
        gangs = [gang(n, rng) for n in range(number)]
        pilots = [pilot(n, rng) for n in range(number)]
        took = []
        for _ in range(given.repeat):
            begun = time.process_time()
            plan_pilots(provider(), gangs, pilots, now=NOW)
            took.append(1e3 * (time.process_time() - begun))
        print(f"{number:>16} {statistics.median(took):8.1f} {min(took):8.1f} {max(took):8.1f}")


if __name__ == "__main__":
    main()
