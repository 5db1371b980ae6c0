"""Count the collectives of a training twice, at the measured group and from torch's flight recorder.

    torchrun agreeing.py FOLDER SCRIPT          run a script that says nothing of Muster
    torchrun agreeing.py FOLDER                train FOLDER/cases.json, as `strategies.py` does

Writes FOLDER/rank-N.json: {case: {"missed", "measured", "recorded"}}, both of the last
{group: {kind: [number, bytes]}}, by torch's names of the groups.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist

from muster.measure import comm, recorder, uncovered
from muster.measure.measured_group import MeasuredGroup, num_bytes

Counts = dict[str, dict[str, tuple[int, int]]]

measured: Counts = collections.defaultdict(dict)
launch = MeasuredGroup._launch


@functools.wraps(launch)
def counted(self: MeasuredGroup, kind: str, payload: Any, *args: Any, **kwargs: Any) -> Any:
    count, total = measured[self.group_name].get(kind, (0, 0))
    measured[self.group_name][kind] = count + 1, total + num_bytes(payload)
    return launch(self, kind, payload, *args, **kwargs)


def since(now: Counts, before: Counts) -> Counts:
    found: Counts = {}
    for group, kinds in now.items():
        for kind, (count, total) in kinds.items():
            old = before.get(group, {}).get(kind, (0, 0))
            if count > old[0]:
                found.setdefault(group, {})[kind] = count - old[0], total - old[1]
    return found


class Counting:
    def __init__(self) -> None:
        self.recorder = recorder.Recorder(uncovered.rings()["gloo"])
        self.found: dict[str, Any] = {}
        self._before: tuple[Counts, Counts] = ({}, {})

    def end(self, case: str) -> None:
        self.recorder.read()
        totals = self.recorder.totals
        recorded = {
            name: dict(group.kinds)
            for name, group in totals.groups.items()
            if not group.description.startswith("muster_")
        }
        now = {name: dict(kinds) for name, kinds in measured.items()}, recorded
        self.found[case] = {
            "missed": totals.num_missed,
            "measured": since(now[0], self._before[0]),
            "recorded": since(now[1], self._before[1]),
        }
        self._before = now


def main() -> None:
    MeasuredGroup._launch = counted  # type: ignore[method-assign]
    folder, rank, world = Path(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    counting = Counting()
    if len(sys.argv) > 2:
        from muster.launch import attach

        sys.argv = sys.argv[2:]
        attach.install({attach.STEPS})
        runpy.run_path(sys.argv[0], run_name="__main__")
        counting.end("script")
    else:
        import strategies

        dist.init_process_group(comm.backend("gloo", measure=True))
        for case in json.loads((folder / "cases.json").read_text()):
            strategies.train(folder / case["name"], case["document"], rank, world)
            counting.end(case["name"])
        dist.destroy_process_group()
    (folder / f"rank-{rank}.json").write_text(json.dumps(counting.found))


if __name__ == "__main__":
    main()
