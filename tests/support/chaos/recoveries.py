"""How long it took until what was hit worked again."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

POLL_S = 0.1


class Recoveries:
    """Looks after each blow, in a thread of its own, until its check holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[str, float, Callable[[], bool]]] = []
        self._took_s: dict[str, list[float]] = defaultdict(list)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recoveries", daemon=True)

    def __enter__(self) -> Recoveries:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def watch(self, what: str, check: Callable[[], bool]) -> None:
        """From now until `check` holds. It must not raise."""
        with self._lock:
            self._pending.append((what, time.monotonic(), check))

    @property
    def took_s(self) -> Mapping[str, Sequence[float]]:
        with self._lock:
            return {what: list(values) for what, values in self._took_s.items()}

    def _run(self) -> None:
        while not self._is_over.wait(POLL_S):
            with self._lock:
                pending = list(self._pending)
            done = [(entry, time.monotonic()) for entry in pending if entry[2]()]
            with self._lock:
                for entry, at in done:
                    self._pending.remove(entry)
                    self._took_s[entry[0]].append(at - entry[1])


def describe(took_s: Mapping[str, Sequence[float]]) -> list[str]:
    """ "server answers again: median 2.1 s, most 4.0 s (n=7)", by name."""
    return [
        f"{what}: median {statistics.median(values):.1f} s, most {max(values):.1f} s "
        f"(n={len(values)})"
        for what, values in sorted(took_s.items())
    ]
