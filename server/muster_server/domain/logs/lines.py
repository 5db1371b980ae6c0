"""What a line of a log says: the text as shown, its level, and whether it passes a search.

A search must never cost more than time proportional to the text, whatever pattern a user gives, so
patterns are RE2's (https://github.com/google/re2/wiki/Syntax): no back-references, no look-around.

Level of a line: the first of these marks within its first 200 visible characters decides.

1. A level's name in capitals that stands alone: TRACE, DEBUG, INFO, NOTICE, WARN, WARNING, ERR,
   ERROR, CRITICAL, FATAL, PANIC.
2. The same in any case where it is set off: `level=warn`, `"level": "warn"`, `[warn]`, `<warn>`, or
   at the beginning of the line with a colon behind it (`error: …`).
3. glog's prefix: I, W, E or F, four digits, a time (`W1121 10:00:00`).
4. At the beginning of the line (past `[rank0]: `) `Traceback (most recent call last)` or the name of an exception
   (`ValueError: …`), which are errors; `UserWarning: …` and its like, which are warnings.

Other lines have no level; the lines within a traceback are such.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Set
from typing import Any, Final, Literal

import re2

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error", "critical")
LEVEL_MAX_CHARS: Final = 200
"""Only the beginning of a line is searched for a level: further on it is what the line is about."""
COUNTED_BYTES: Final = 4_096
"""Text in which levels are counted at once, up to the end of its line."""
PATTERN_MAX_CHARS: Final = 500
PATTERN_MAX_BYTES: Final = 1 << 20
"""Memory that one compiled pattern may take; RE2 for Python keeps the last 128 of them."""


class BadPattern(ValueError):
    """A pattern that RE2 does not accept; the text says why."""


# ---------------------------------------------------------------- levels

_NAMES: Final[dict[Level, tuple[str, str]]] = {
    "debug": ("TRACE|DEBUG", ""),
    "info": ("INFO|NOTICE", "I"),
    "warning": ("WARN|WARNING", "W"),
    "error": ("ERR|ERROR", "E"),
    "critical": ("CRITICAL|FATAL|PANIC", "F"),
}
_START = r"^(?:\[rank\d+\]: ?)?"
_ALSO: Final[dict[Level, str]] = {
    "error": rf"|{_START}Traceback \(most recent call last\)"
    rf"|{_START}(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?::|$)",
    "warning": rf"|(?:{_START}|:\d+: )(?:\w+\.)*\w*Warning:",
}


def _marks(level: Level) -> str:
    names, letter = _NAMES[level]
    set_off = (
        rf"\blevel(?:name)?\"?\s*[=:]\s*\"?(?:{names})\b|[\[<](?:{names})[\]>]|{_START}(?:{names}):"
    )
    glog = rf"|{_START}{letter}\d{{4}} \d\d:\d\d:\d\d" if letter else ""
    return rf"\b(?:{names})\b|(?i:{set_off}){glog}{_ALSO.get(level, '')}"


def _options(*, match_case: bool = True, captures: bool = False) -> Any:
    options = re2.Options()
    options.case_sensitive = match_case
    options.never_capture = not captures
    options.log_errors = False
    options.max_mem = PATTERN_MAX_BYTES
    return options


_ANY_LEVEL = re2.compile(
    "(?m:" + "|".join(f"({_marks(level)})" for level in LEVELS) + ")", _options(captures=True)
)


def level_of(text: bytes) -> Level | None:
    """Return the level of one line of `visible` text; None when it names none."""
    found = _ANY_LEVEL.search(text.decode()[:LEVEL_MAX_CHARS])
    return None if found is None else LEVELS[found.lastindex - 1]


def count_levels(text: bytes) -> dict[Level, int]:
    """Return how many of the finished lines of `visible` text name each level, as `level_of` does.

    Levels that no line names are left out. The time is proportional to the length of the text.
    """
    counts: dict[Level, int] = {}
    end = text.rfind(b"\n") + 1
    at = 0
    while at < end:
        # The time of one search may grow with the square of the remaining length.
        border = text.find(b"\n", at + COUNTED_BYTES, end) + 1 or end
        _count_levels(text[at:border], counts)
        at = border
    return counts


def _count_levels(text: bytes, counts: dict[Level, int]) -> None:
    at = 0
    while (found := _ANY_LEVEL.search(text, at)) is not None:
        start = text.rfind(b"\n", 0, found.start()) + 1
        end = text.find(b"\n", found.start())
        level: Level | None = LEVELS[found.lastindex - 1]
        if found.end() - start > LEVEL_MAX_CHARS:  # in bytes; characters may be fewer
            level = level_of(text[start:end])
        if level is not None:
            counts[level] = counts.get(level, 0) + 1
        at = end + 1


# ---------------------------------------------------------------- searching

_NEEDS_LINE = re.compile(r"\\[AzZC]|\(\?[a-zA-Z]*[-^]")
"""Parts of a pattern whose meaning depends on where the text begins and ends."""


class LineTest:
    """What lines are searched for: a text or pattern, levels, or both.

    text: "" passes every line. is_regex: it is a pattern of RE2. levels: empty passes every line,
    else only those that have one of them. Raises BadPattern.
    """

    def __init__(
        self,
        text: str = "",
        *,
        is_regex: bool = False,
        match_case: bool = False,
        levels: Set[Level] = frozenset(),
    ) -> None:
        self._levels = levels
        self._pattern: Any = None
        self._scans: list[Any] = []
        """Each finds something in every line that passes; they look at many lines at once."""
        if text:
            options = _options(match_case=match_case)
            self._pattern = _compile(text if is_regex else re2.escape(text), options)
            if not (is_regex and _NEEDS_LINE.search(text)):
                self._scans.append(re2.compile(f"(?m:{self._pattern.pattern})", options))
        if levels:
            marks = "|".join(_marks(level) for level in LEVELS if level in levels)
            self._scans.append(re2.compile(f"(?m:{marks})", _options()))

    def __bool__(self) -> bool:
        return self._pattern is not None or bool(self._levels)

    def passes(self, text: bytes, level: Level | None) -> bool:
        """Return whether one line of `visible` text passes the filter; `level` is that of
        `level_of`."""
        if self._levels and level not in self._levels:
            return False
        return self._pattern is None or self._pattern.search(text) is not None

    def candidates(self, text: bytes) -> array[int]:
        """Numbers, from 0 and ascending, of the lines of `visible` text that may pass: every one
        that passes, and few others. Its time may grow with the square of the text's length, so the
        caller gives it little at once."""
        found = array("q")
        at = no = 0
        while at <= len(text):
            start = self._next(text, at)
            if start is None:
                break
            no += text.count(b"\n", at, start)
            found.append(no)
            end = text.find(b"\n", start)
            if end < 0:
                break
            at, no = end + 1, no + 1
        return found

    def _next(self, text: bytes, at: int) -> int | None:
        """Start of the first line from the line start `at` on in which every scan finds something."""
        while True:
            start = at
            for scan in self._scans:
                found = scan.search(text, at)
                if found is None:
                    return None
                at = text.rfind(b"\n", 0, found.start()) + 1
            if at == start:
                return start


def _compile(pattern: str, options: Any) -> Any:
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadPattern(said) from None
