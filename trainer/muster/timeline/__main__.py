"""Prints the summary of traces as JSON: `python -m muster.timeline MAX_BYTES RANK FILE …`.

The service runs it as a process of its own, because traces come from jobs: whatever they make of it, its
memory is limited, and its caller can end it.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from .kineto_file import MAX_MEMORY_BYTES
from .summary import summarize


def main(arguments: Sequence[str]) -> None:
    """Print the summary of the traces of these ranks."""
    max_bytes, *rest = arguments
    # Address space, not resident memory: an interpreter reserves some that it does not use.
    limit = 2 * MAX_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    files = [(int(rank), Path(file)) for rank, file in zip(rest[::2], rest[1::2], strict=True)]
    json.dump(summarize(files, max_bytes=int(max_bytes)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
