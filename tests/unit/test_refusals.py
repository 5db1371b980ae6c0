"""Which refusals are told."""

from __future__ import annotations

from muster_server.security.refusals import KINDS_MAX, OTHERS, WINDOW_S, RefusalCounts


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_flood_from_one_place_is_a_handful_of_lines() -> None:
    counts = RefusalCounts(monotonic=Clock())
    told = [r.times for _ in range(12_345) if (r := counts.count("a", "token:7", "10.0.0.9"))]
    assert told == [1, 2, 3, 4, 5, 10, 100, 1000, 10_000]


def test_a_flood_from_everywhere_is_bounded_and_still_counted() -> None:
    counts = RefusalCounts(monotonic=Clock())
    told = [counts.count("a", "token:unknown", f"10.0.{n >> 8}.{n & 255}") for n in range(50_000)]
    lines = [line for line in told if line is not None]
    assert len(lines) == KINDS_MAX + 9
    assert (lines[-1].subject, lines[-1].address, lines[-1].times) == (OTHERS, "", 10_000)


def test_counting_starts_anew_after_the_window() -> None:
    clock = Clock()
    counts = RefusalCounts(monotonic=clock)
    for _ in range(50):
        counts.count("a", "s", "here")
    clock.now = WINDOW_S
    again = counts.count("a", "s", "here")
    assert again is not None
    assert again.times == 1
