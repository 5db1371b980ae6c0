"""What is done to trainings of the built-in trainer, to compare them with one that is left alone.

The tests do each of it; docs/concepts/checkpoints.md says what follows (tests/policy compares the lists).
"""

from __future__ import annotations

from typing import Literal

FAULTS = {
    "agents": {
        "worker": "a worker is killed (`kill -9`)",
        "shim": "the shim that watches the workers is killed",
        "agent": "the agent is killed",
        "node": "the node is cut off for longer than its lease (`on_disconnect: stop`)",
        "shard": "one byte of the newest checkpoint is changed, then its shim is killed",
    },
    "workers": {
        "killed": "a worker is killed while it writes its part",
        "disk-full": "the disk is full (ENOSPC; a file system of 1 MiB, where one may be mounted)",
        "cut-short": "the disk refuses in the middle of a file (EFBIG; a limit, as a quota is)",
        "publishing-refused": "the disk is full when the index is written, all parts being there (ENOSPC)",
        "damaged": "the newest checkpoint is cut short, and the one before has another byte",
        "told-to-stop": "SIGTERM while a checkpoint is written",
        "bucket": "a worker is killed while it sends its part to an object store",
    },
}
"""By what it is tried with, and by name. agents: a stack of real agents, tests/integration/outages/test_faults.py.
workers: two processes of a training and their storage, tests/training/test_faults.py."""


def names(on: Literal["agents", "workers"]) -> set[str]:
    return set(FAULTS[on])
