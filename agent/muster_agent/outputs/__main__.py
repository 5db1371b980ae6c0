"""`python -m muster_agent.outputs`: one collection, in a process of its own beside the training.

It ends with the agent that started it (end of its standard input), and says its result in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from pathlib import Path

from muster_agent.jobs.helpers import answer, read_given
from muster_agent.outputs.collect import CollectionResult, Collector, Interrupted, say
from muster_agent.outputs.store import (
    BucketOutputs,
    FolderOutputs,
    StorageAway,
    open_outputs,
    why,
)
from muster_agent.outputs.work import TrialWork


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m muster_agent.outputs")
    parser.add_argument("--home", required=True, type=Path)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--storage", required=True, type=Path)
    parser.add_argument("--bytes-per-s", required=True, type=int)
    parser.add_argument("--final", action="store_true")
    options = parser.parse_args()
    _step_back(is_final=options.final)
    read_given()
    # A writer that opens a file in the moment in which it is looked at is told by this signal.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    work = TrialWork.named(options.home, options.folder)
    result = _collect(
        work, options.storage, is_final=options.final, bytes_per_s=options.bytes_per_s
    )
    answer(say(result))
    return 0


def _collect(
    work: TrialWork, storage: Path, *, is_final: bool, bytes_per_s: int
) -> CollectionResult:
    lock = work.lock_files()
    if lock is None:
        return CollectionResult(outcome="busy")
    try:
        use = work.read_use()
        if use is None or use.outputs is None:
            return CollectionResult(outcome="interrupted")

        def open_folder(name: str) -> FolderOutputs | BucketOutputs:
            return open_outputs(
                storage=storage,
                folder=f"{use.folder.rpartition('/')[0]}/{name}",
                url=f"{use.url.rpartition('/')[0]}/{name}" if use.url else "",
                sending=work.sending,
                cluster_id=use.cluster_id,
                writer=f"n{use.node_rank}",
            )

        store = open_folder(use.folder.rpartition("/")[2])
        with contextlib.closing(store):
            store.clear_drafts()
            collector = Collector(
                work,
                use,
                use.outputs,
                store,
                is_final=is_final,
                bytes_per_s=bytes_per_s,
                open_beside=open_folder,
            )
            return collector.run()
    except Interrupted:
        return CollectionResult(outcome="interrupted")
    except StorageAway as error:
        return CollectionResult(outcome="away", problem=str(error))
    except OSError as error:
        return CollectionResult(
            outcome="away", problem=f"the work folder cannot be read: {why(error)}"
        )
    finally:
        os.close(lock)


def _step_back(*, is_final: bool) -> None:
    """Leave processor and disk to training. After the end of a job somebody may wait for its files,
    and a processor that is never idle must not keep them for ever."""
    with contextlib.suppress(OSError):
        os.nice(19)
    if not is_final and hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        # Where Linux groups processes by session, the above counts within this session only.
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text("19")
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import psutil

        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


if __name__ == "__main__":
    sys.exit(main())
