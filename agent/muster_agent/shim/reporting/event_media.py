"""Hands the media of event files to the keeper of what a job logs."""

from __future__ import annotations

from muster import media
from muster_agent.event_files.events import BadEvent, EventValue
from muster_agent.event_files.media import HPARAMS, TEXT_SUFFIX, EventMedia, media_of
from muster_agent.shim.reporting.media import MediaKeeper

_JSON = "application/json"


class EventMediaTaker:
    def __init__(self, keeper: MediaKeeper) -> None:
        """Create the taker; it is called in the loop of the keeper."""
        self._keeper = keeper

    def __call__(
        self, name: str, value: EventValue, plugin: str, *, step: int, rank: int, time_ms: int
    ) -> None:
        """Hand over the items of a value; broken ones are counted among those left out."""
        name = "hparams" if value.tag == HPARAMS else name.removesuffix(TEXT_SUFFIX)
        try:
            for item in media_of(value, plugin):
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
