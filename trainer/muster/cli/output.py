"""Output of every command: data on stdout (tables, or JSON with --json), the rest on stderr."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .exit_codes import EXIT_ERROR, EXIT_UNREACHABLE, EXIT_USAGE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from muster.client import ClientError

_wants_json = False
MAX_WRITTEN_OUT = 1e15
"""Numbers below are written without an exponent, and with separators: 38,000 rows/s."""
STATE_STYLES = {
    "QUEUED": "dim",
    "WAITING": "dim",
    "STARTING": "cyan",
    "RUNNING": "green",
    "RETRY_WAIT": "yellow",
    "STOPPING": "yellow",
    "PAUSED": "yellow",
    "COMPLETED": "bold green",
    "DOUBTFUL": "bold yellow",
    "STOPPED_EARLY": "blue",
    "FAILED": "bold red",
    "CANCELED": "magenta",
    "ONLINE": "green",
    "SUSPECT": "yellow",
    "LOST": "bold red",
}


class CommandFailure(Exception):
    """An expected error of a command: one sentence, a hint, and the exit code."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        exit_code: int = 1,
        code: str = "cli.error",
        fields: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.code = code
        self.fields = tuple(fields)


def usage_error(message: str, hint: str | None = None) -> CommandFailure:
    """Return the error of a command that is used incorrectly."""
    return CommandFailure(message, hint, exit_code=EXIT_USAGE)


def report_error(error: Exception, *, as_json: bool) -> int | None:
    """Print an expected error and return its exit code; None if it is not one."""
    from typer.exceptions import TyperException

    from muster.client import ClientError, NotConfigured, Unreachable
    from muster.code.bundle import BundleError

    fields: Sequence[Mapping[str, Any]] = ()
    if isinstance(error, CommandFailure):
        message, hint, code = error.message, error.hint, error.code
        fields, exit_code = error.fields, error.exit_code
    elif isinstance(error, ClientError):
        message, hint, code, fields = error.message, error.hint, error.code, error.fields
        gone = isinstance(error, NotConfigured | Unreachable)
        exit_code = EXIT_UNREACHABLE if gone else EXIT_ERROR
    elif isinstance(error, BundleError):
        message, hint, code, exit_code = error.message, error.hint or None, "cli.code", EXIT_ERROR
    elif isinstance(error, TyperException):
        message, hint, code = error.format_message(), None, "cli.usage"
        exit_code = error.exit_code
    else:
        return None
    if as_json:
        body = {"code": code, "message": message, "hint": hint, "fields": list(fields)}
        print(json.dumps({"error": body}), file=sys.stderr)
        return exit_code
    print(f"error: {message}", file=sys.stderr)
    print_fields(fields)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return exit_code


def print_fields(fields: Sequence[Mapping[str, Any]]) -> None:
    for field in fields:
        place = f"{field['path']}: " if field.get("path") else ""
        print(f"  {place}{field['message']}", file=sys.stderr)
        if field.get("hint"):
            print(f"    hint: {field['hint']}", file=sys.stderr)


def say(text: str) -> None:
    """Print a message for people to stderr; not data."""
    print(text, file=sys.stderr, flush=True)


def report_outage(error: ClientError) -> None:
    """Explain to a follower why nothing arrives while the server is out of reach."""
    say(f"{error.message} Waiting for the server; Ctrl-C stops.")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def choose_json(is_chosen: bool) -> None:
    """Note whether the command that begins has --json."""
    global _wants_json
    _wants_json = is_chosen


def wants_json() -> bool:
    """Return whether the command that runs has --json."""
    return _wants_json


def printed_json(value: Any) -> bool:
    """Print `value` if the command has --json; return whether it has."""
    if _wants_json:
        print_json(value)
    return _wants_json


def report(value: Any, text: str) -> None:
    """Print what a command has done: `value` as JSON, or a message for people."""
    if not printed_json(value):
        say(text)


def console() -> Console:
    from rich.console import Console

    # Into a pipe a table is as wide as it needs to be: nobody wants cut values in `grep`.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 240)


SENTENCES = frozenset(
    {
        "error",
        "health",
        "message",
        "note",
        "outcome",
        "reason",
        "sent when",
        "what it does",
        "what to write",
        "why",
    }
)
"""Columns of tables whose cells are sentences."""


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table. Where the terminal is too narrow, columns of sentences are wrapped first:
    without them, a long reason would take the room of every name."""
    from rich.table import Table

    result = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in right else "left"
        result.add_column(column, justify=justify, no_wrap=column not in SENTENCES)
    return result


class Markup(str):
    """Text with rich markup; what others wrote in it is escaped."""

    __slots__ = ()


Row = TypeVar("Row", bound=Mapping[str, Any])
Cell = str | tuple[str, Callable[[Any], str]] | Callable[[Row], str]
"""A key of a row, a key and what writes its value, or what writes the row."""


def print_rows(rows: Sequence[Row], columns: Mapping[str, Cell[Row]], *, empty: str = "") -> None:
    """Print rows as JSON, or as a table.

    columns: cells by title; a column whose title begins with ">" is aligned to the right. Cells are
    escaped, except for Markup.
    empty: said to people instead of a table without rows.
    """
    if printed_json(rows):
        return
    if empty and not rows:
        say(empty)
        return
    right = [title[1:] for title in columns if title.startswith(">")]
    shown = table(*(title.removeprefix(">") for title in columns), right=right)
    for row in rows:
        shown.add_row(*(_cell(row, column) for column in columns.values()))
    console().print(shown)


def _cell(row: Row, column: Cell[Row]) -> str:
    if isinstance(column, tuple):
        key, write = column
        text = write(row[key])
    else:
        text = str(row[column]) if isinstance(column, str) else column(row)
    return text if isinstance(text, Markup) else escape(text)


def styled_state(state: str) -> Markup:
    style = STATE_STYLES.get(state)
    return Markup(f"[{style}]{state}[/{style}]" if style else state)


def escape(text: str) -> str:
    """Return text of others, escaped for rich markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(printable(text))


def printable(text: str) -> str:
    """Return text without control characters: a name or log line must not control the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in text)


def number(value: Any, digits: int = 4) -> str:
    """Return a metric for people; "–" if there is none. Takes wire numbers ("NaN")."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if not isinstance(value, float):
        return str(value)
    is_large = 10**digits <= abs(value) < MAX_WRITTEN_OUT
    return f"{value:,.0f}" if is_large else f"{value:.{digits}g}"


def age(moment: str | None) -> str:
    """Return the time since an ISO time, for example "3 min"; "–" for none."""
    if not moment:
        return "–"
    then = dt.datetime.fromisoformat(moment)
    return duration((dt.datetime.now(dt.UTC) - then).total_seconds())


def last_use(moment: str | None) -> str:
    """Return the time since an ISO time as `age` does; "never" for none."""
    return age(moment) if moment else "never"


def between(start: str | None, end: str | None) -> str:
    """Return the time from one ISO time to another, or to now; "–" without a start."""
    if not start:
        return "–"
    last = dt.datetime.now(dt.UTC) if not end else dt.datetime.fromisoformat(end)
    return duration((last - dt.datetime.fromisoformat(start)).total_seconds())


def until(moment: str | None) -> str:
    """Return the time until an ISO time, for example "in 3 min"; "now" if it has passed; "–" for
    none."""
    if not moment:
        return "–"
    left_s = (dt.datetime.fromisoformat(moment) - dt.datetime.now(dt.UTC)).total_seconds()
    return f"in {duration(left_s)}" if left_s >= 1 else "now"


DURATIONS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
"""Units of a duration, the largest first, with their length in seconds."""


def duration(seconds: float) -> str:
    """Return seconds in at most two units, as the dashboard does: "38 s", "4 min 5 s", "2 h",
    "3 d 4 h"; "0 s" below one second."""
    rest = max(0, int(seconds))
    first = next((at for at, (_, size) in enumerate(DURATIONS) if rest >= size), None)
    if first is None:
        return "0 s"
    parts = []
    for unit, size in DURATIONS[first : first + 2]:
        many, rest = divmod(rest, size)
        if many:
            parts.append(f"{many} {unit}")
    return " ".join(parts)
