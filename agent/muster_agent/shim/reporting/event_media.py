"""Hands the media of event files to the keeper of what a job logs."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from muster import media, wire
from muster_agent.event_files.events import BadEvent, EventValue
from muster_agent.event_files.media import HPARAMS, TEXT_SUFFIX, EventMedia, media_of
from muster_agent.shim.reporting.media import MediaKeeper

RUNS_MAX = 200
"""Most combinations of hyperparameters of one job."""
_JSON = "application/json"


class EventMediaTaker:
    def __init__(
        self, keeper: MediaKeeper, *, trial: str, record: Callable[[str, bool], None]
    ) -> None:
        """Create the taker; it is called in the loop of the keeper.

        trial: what no other trial is called.
        record: takes the JSON text of a record, and whether it holds metrics."""
        self._keeper = keeper
        self._trial = uuid.uuid5(uuid.NAMESPACE_URL, f"muster:{trial}")
        self._record = record
        self._hyperparameters: list[list[tuple[str, str | float | bool]]] = []
        """Hyperparameters that the script has recorded, each combination once."""

    def __call__(
        self, name: str, value: EventValue, plugin: str, *, step: int, rank: int, time_ms: int
    ) -> None:
        """Hand over the items of a value; broken ones are counted among those left out."""
        name = "hparams" if value.tag == HPARAMS else name.removesuffix(TEXT_SUFFIX)
        try:
            for item in media_of(value, plugin):
                if value.tag == HPARAMS:
                    self._take_hyperparameters(item.rows, time_ms)
                content, mime = _content(item)
                self._keeper.add(
                    item.kind,
                    name,
                    content,
                    mime,
                    step=step,
                    rank=rank,
                    time_ms=time_ms or None,
                    width=item.width,
                    height=item.height,
                )
        except (BadEvent, ValueError):
            self._keeper.left_out(rank, "invalid")

    def _take_hyperparameters(
        self, rows: list[tuple[str, str | float | bool]], time_ms: int
    ) -> None:
        """Show hyperparameters where those of MLflow's runs are: the first of them as the trial's."""
        if rows in self._hyperparameters or len(self._hyperparameters) >= RUNS_MAX:
            return
        self._hyperparameters.append(rows)
        no = len(self._hyperparameters)
        label = "" if no == 1 else f"add_hparams-{no}"
        run = wire.TrackedRunRecord(
            run_id=uuid.uuid5(self._trial, f"add_hparams {no}").hex,
            name=label or "add_hparams",
            label=label,
            folder="",
            parent_id="",
            status="FINISHED",
            started_ms=time_ms,
            ended_ms=time_ms,
            is_new=True,
            params={name: _text(value) for name, value in rows},
        )
        self._record(wire.dump(run), False)


def _text(value: str | float | bool) -> str:
    """Return a value as the script wrote it: event files have every number as a float."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value)) if is_whole else str(value)


def _content(item: EventMedia) -> tuple[bytes, str]:
    """Return content and type of an item. Raises ValueError."""
    match item.kind:
        case "histogram":
            return media.histogram_content(item.counts, item.edges), _JSON
        case "pr_curve":
            return media.pr_curve_content(item.precision, item.recall, item.thresholds), _JSON
        case "table":
            return media.table_content(("name", "value"), item.rows), _JSON
    return item.data, item.mime
