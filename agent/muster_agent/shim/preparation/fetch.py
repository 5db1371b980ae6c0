"""`python -m muster_agent.shim.preparation.fetch --dir FOLDER`: restore a work folder from an object store.

The agent runs this before it starts the shim, which does not have the agent's credentials.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from muster import wire
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.helpers import answer, read_given
from muster_agent.outputs.restore import choose_source, is_current
from muster_agent.outputs.work import TrialWork
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.preparation.work import prepare_work


@dataclass(frozen=True, kw_only=True)
class FetchResult:
    """Outcome of restoring a work folder."""

    messages: list[list[str]] = field(default_factory=list)
    """Level and text of messages for the trial's events."""
    failed: str = ""
    """Why the allocation cannot run here; "" if it can."""
    blames: wire.Blame = ""
    passes: bool = False


def needs_fetch(home: Path, spec: wire.AllocationSpec) -> bool:
    """Return whether the work folder of a trial has to be restored from an object store."""
    source = choose_source(spec.work_from, spec.node_rank)
    if source is None or not source.storage_url:
        return False
    work = TrialWork.of(home, spec)
    use = work.read_use() if work.files.is_dir() else None
    return use is None or not is_current(
        use.attempt_no, use.node_rank, source=source, wanted_rank=spec.node_rank
    )


def main() -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    parser = argparse.ArgumentParser(prog="python -m muster_agent.shim.preparation.fetch")
    parser.add_argument("--dir", required=True, type=Path)
    folder = AllocationFolder.at(parser.parse_args().dir.absolute())
    options = wire.loads(ShimOptions, read_given())
    messages: list[list[str]] = []

    def tell(level: Literal["info", "warning"], text: str) -> None:
        messages.append([level, text])

    try:
        prepare_work(folder.read_spec(), options, folder, tell=tell)
    except PrepareFailed as error:
        result = FetchResult(
            messages=messages, failed=str(error), blames=error.blames, passes=error.passes
        )
    else:
        result = FetchResult(messages=messages)
    answer(wire.dump(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
