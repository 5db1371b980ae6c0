"""A view of a job while it runs: plain lines in a terminal, a live table in a notebook."""

from __future__ import annotations

import html
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client import schema

LINES_SHOWN = 15
"""Newest log lines in a notebook's view."""
LINE_CHARS = 200


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def view() -> PlainView | NotebookView:
    """Return the view that suits this process."""
    return NotebookView() if is_notebook() else PlainView()


def summary_of(experiment: schema.ExperimentDetail) -> str:
    """Return one line about an experiment: state, progress, trials, best value, reason."""
    parts = [str(experiment["state"])]
    if experiment["progress"] is not None:
        parts.append(f"{experiment['progress']:.0%}")
    if experiment["num_trials"] > 1:
        parts.append(f"{experiment['num_trials']} trials")
    if experiment["best_metric"] is not None:
        parts.append(f"{experiment['metric_name']} {experiment['best_metric']}")
    if experiment["reason"]:
        parts.append(str(experiment["reason"]))
    return " · ".join(parts)


class PlainView:
    """Prints each change of state, and the log."""

    def __init__(self, write: Callable[[str], Any] = print) -> None:
        self._write = write
        self._last: tuple[str, str] | None = None

    def show(self, experiment: schema.ExperimentDetail, lines: list[schema.LogLine]) -> None:
        for line in lines:
            self._write(log_text(line))
        now = (experiment["state"], experiment["reason"])
        if now != self._last:
            self._last = now
            self._write(f"{experiment['name']} ({experiment['id']}): {summary_of(experiment)}")


class NotebookView:
    """A cell output that is replaced: the state, a progress bar and the newest log lines."""

    def __init__(self) -> None:
        from IPython import display

        self._html = display.HTML
        self._handle = display.display(display.HTML(""), display_id=True)
        self._lines: deque[str] = deque(maxlen=LINES_SHOWN)

    def show(self, experiment: schema.ExperimentDetail, lines: list[schema.LogLine]) -> None:
        self._lines.extend(log_text(line) for line in lines)
        self._handle.update(self._html(html_of(experiment, list(self._lines))))


def log_text(line: schema.LogLine) -> str:
    rank = "" if line.get("rank") is None else f"[rank {line['rank']}] "
    return f"{rank}{line['text']}"


def html_of(experiment: schema.ExperimentDetail, lines: list[str]) -> str:
    """Return the view of a notebook; text of the job is escaped."""
    done = experiment["progress"]
    bar = "" if done is None else f'<progress value="{done:.3f}" max="1"></progress> '
    title = html.escape(f"{experiment['name']} ({experiment['id']})")
    shown = html.escape("\n".join(line[:LINE_CHARS] for line in lines))
    return (
        f"<b>{title}</b><br>{bar}{html.escape(summary_of(experiment))}"
        f'<pre style="max-height: 20em; overflow: auto">{shown}</pre>'
    )
