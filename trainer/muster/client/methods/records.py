"""Methods of the client for what trials recorded: logs, metrics, outputs, checkpoints."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from muster.numbers import decode_number

from ..errors import Refused
from ..frames import Frame
from ..waiting import Looks, streaming, waiting
from .experiments import ExperimentMethods

if TYPE_CHECKING:
    from .. import schema
    from ..outputs import Fetched


LOG_PAGE_LIMIT = 2000
"""Lines per request: the server's maximum."""
COLLECTED = frozenset({"complete", "off", "deleted"})
"""States of outputs that do not change any more by themselves."""
CURVE_POINTS = 1000
"""Points per curve, unless others are asked for."""
_NAMES = {"NaN", "Infinity", "-Infinity"}

Axis = Literal["step", "epoch", "time", "relative"]


class RecordMethods(ExperimentMethods):
    """Read logs and metrics, fetch outputs and checkpoints."""

    def log_batches(
        self,
        trial_id: int | None = None,
        *,
        experiment_id: int | None = None,
        trials: Sequence[int] = (),
        ranks: Sequence[int] = (),
        nodes: Sequence[str] = (),
        stream: str | None = None,
        attempt: int | None = None,
        levels: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        query: str | None = None,
        regex: bool = False,
        match_case: bool = False,
        tail: int | None = None,
        follow: bool = False,
        poll_s: float = 0.7,
    ) -> Iterator[list[schema.LogLine] | float]:
        """Yield lists of log lines of a trial, or of an experiment, in order, and in between the
        seconds to wait before looking again; `log_lines` yields the lines one by one. Each comes once: a
        last line without an end only when the log is complete, or when nothing is followed.

        tail: only that many lines (at least 1) from the end. follow: until the log is complete (see
            `patience`); otherwise what is there now.
        experiment_id: instead of a trial, all trials of this experiment, or those with the numbers
            `trials`. Of more than 500 streams those that were written to last are read.
        since, until: times as ISO 8601 with a zone. query: text that the lines contain, with
        `regex` a pattern of RE2; letters count as equal in either case unless `match_case`.
        """
        params: dict[str, Any] = {
            "rank": list(ranks) or None,
            "node": list(nodes) or None,
            "stream": stream,
            "attempt": attempt,
            "level": list(levels) or None,
            "since": since,
            "until": until,
            "q": query,
            "regex": True if regex else None,
            "match_case": True if match_case else None,
            "limit": LOG_PAGE_LIMIT,
        }
        if (trial_id is None) == (experiment_id is None):
            raise ValueError("a log is of a trial or of an experiment: give one of their ids")
        if experiment_id is not None:
            params["trial"] = list(trials) or None
        kind, number = (
            ("trials", trial_id) if experiment_id is None else ("experiments", experiment_id)
        )

        def page_at(**place: Any) -> schema.LogPage:
            return self.get(f"/{kind}/{number}/logs", **{**params, **place})

        if tail is None:
            page = page_at(**{"from": "head"})
        else:
            page = self._last_lines(page_at, max(1, tail))
        while True:
            # The beginning of a line comes with every page until its end has come.
            whole = [line for line in page["lines"] if not line.get("partial")]
            # Without lines a search may only have used up its time, and goes on.
            is_end = not whole and not page.get("search_stopped")
            yield page["lines"] if is_end and not follow else whole
            if is_end:
                if page["complete"] or not follow:
                    return
                yield poll_s
            page = page_at(cursor=page["newer"])

    log_lines = streaming(log_batches)

    @staticmethod
    def _last_lines(page_at: Callable[..., schema.LogPage], count: int) -> schema.LogPage:
        """Return a page with the last `count` lines, which may take several pages of the server."""
        last = page_at(**{"from": "tail", "limit": min(count, LOG_PAGE_LIMIT)})
        pieces, left, older = [last["lines"]], count - len(last["lines"]), last["older"]
        while left > 0 and older is not None:
            page = page_at(cursor=older, limit=min(left, LOG_PAGE_LIMIT))
            pieces.append(page["lines"])
            left, older = left - len(page["lines"]), page["older"]
        return {**last, "lines": [line for piece in reversed(pieces) for line in piece]}

    def metrics(self, trial_id: int) -> list[schema.SeriesInfo]:
        """Return every series of a trial with its summary: name, rank, count, min, max, last."""
        return list(self.get(f"/trials/{trial_id}/metrics")["items"])

    def series(
        self,
        trial_id: int,
        *names: str,
        ranks: Sequence[int] = (),
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> Frame:
        """Return every point of a trial's series: name, rank, attempt_no, step, time_ms, value.

        names, ranks: without them, all. Values may be NaN and infinite.
        """
        reply = self.call(
            "GET",
            f"/trials/{trial_id}/series.jsonl",
            params={
                "name": list(names) or None,
                "rank": list(ranks) or None,
                "from_step": from_step,
                "to_step": to_step,
            },
        )
        found: dict[str, list[Any]] = {
            name: [] for name in ("name", "rank", "attempt_no", "step", "time_ms", "value")
        }
        for line in reply.iter_lines():
            point = json.loads(line)
            for name, column in found.items():
                column.append(point[name])
        found["value"] = [decode_number(value) for value in found["value"]]
        return Frame(found)

    def curves(
        self,
        trial_ids: Sequence[int],
        names: Sequence[str],
        *,
        x: Axis = "step",
        max_points: int = CURVE_POINTS,
    ) -> Frame:
        """Return metrics of several trials for one chart: experiment_id, trial_no, trial_id, name, rank,
        step, x, value.

        x: what lies along the x axis: step, epoch, time (ms since 1970) or relative (ms since the
            trial began); None for points that have none.
        max_points: longer curves come as buckets, of which the value is the mean.
        """
        reply = self.get(
            "/series", trial=list(trial_ids), name=list(names), x=x, max_points=max_points
        )
        rows = []
        for curve in reply["items"]:
            series = curve["series"]
            for i, step in enumerate(series["step"]):
                value = series["last" if series["raw"] else "mean"][i]
                rows.append(
                    {
                        "experiment_id": curve["experiment_id"],
                        "trial_no": curve["trial_no"],
                        "trial_id": curve["trial_id"],
                        "name": series["name"],
                        "rank": series["rank"],
                        "step": step,
                        "x": _x_of(curve, i, x),
                        "value": _number(series["last"][i] if value is None else value),
                    }
                )
        return Frame.of_rows(rows)

    def compare(self, *experiment_ids: int, metrics: Sequence[str] = ()) -> Frame:
        """Return the trials of experiments, one per row: experiment, trial, trial_id, state, step,
        metric (the best value of its search metric), then hyperparameters, then the last values of
        `metrics`.

        Nested hyperparameters have names with dots. A value that a trial does not have is None.
        """
        rows = []
        for experiment_id in experiment_ids:
            for trial in self.trials(experiment_id):
                summary = self.trial(trial["id"])["summary"] if metrics else {}
                rows.append(
                    {
                        "experiment": experiment_id,
                        "trial": trial["no"],
                        "trial_id": trial["id"],
                        "state": trial["state"],
                        "step": trial["step"],
                        "metric": _number(trial["metric"]),
                        **dict(_flat(trial["hparams"])),
                        **{m: _number(summary[m]["last"]) for m in metrics if m in summary},
                    }
                )
        return Frame.of_rows(rows)

    def outputs(self, trial_id: int) -> list[schema.OutputFileOut]:
        """Return the files that a trial wrote, by path."""
        from ..outputs import list_outputs

        return list_outputs(self, trial_id)

    @waiting
    def wait_for_outputs(
        self, trial_id: int, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[schema.OutputsSummaryOut]:
        """Return the summary of a trial's outputs once it has ended and all of them are collected,
        which is some seconds after its end. Raises TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            summary = self.get(f"/trials/{trial_id}/outputs/summary")
            if summary["state"] in COLLECTED:
                return summary
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"the outputs of trial {trial_id} are not collected yet: {summary['state']}"
                )
            yield poll_s

    def download_outputs(
        self,
        trial_id: int,
        folder: str | os.PathLike[str],
        patterns: Sequence[str] = (),
        *,
        force: bool = False,
    ) -> Fetched:
        """Fetch outputs of a trial into a folder, and return what came of it.

        patterns: paths, folders or patterns such as "*.pt"; without them, everything.
        force: replace files that are there with other content; without it, they raise.
        """
        from ..outputs import fetch_outputs

        return fetch_outputs(self, trial_id, patterns, Path(folder), force=force)

    def checkpoints(
        self, trial_id: int | None = None, *, experiment_id: int | None = None
    ) -> list[schema.CheckpointOut] | list[schema.CheckpointListItem]:
        """Return the checkpoints of a trial, of an experiment, or all that there are, newest first."""
        if trial_id is not None:
            return list(self.pages(f"/trials/{trial_id}/checkpoints"))
        return list(self.pages("/checkpoints", experiment=experiment_id))

    def pin_checkpoint(self, checkpoint_id: int) -> schema.CheckpointListItem:
        """Keep a checkpoint, whatever the policy of its experiment."""
        return self.post(f"/checkpoints/{checkpoint_id}:pin", repeatable=True)

    def unpin_checkpoint(self, checkpoint_id: int) -> schema.CheckpointListItem:
        """Leave a checkpoint to the policy of its experiment again."""
        return self.post(f"/checkpoints/{checkpoint_id}:unpin", repeatable=True)

    @waiting
    def export_checkpoint(self, checkpoint_id: int, to: str | os.PathLike[str]) -> Looks[Path]:
        """Write a checkpoint to a file, and return its path: the model as safetensors if the built-in
        trainer saved it; else the file that the script saved, several as a tar archive.

        Raises Refused if no agent can read the checkpoint.
        """
        from ..exports import looks_at_export

        asked = self.post(f"/checkpoints/{checkpoint_id}:export", repeatable=True)
        export = yield from looks_at_export(self, asked, on_wait=lambda _: None)
        if export["state"] == "failed":
            raise Refused(
                f"Checkpoint {checkpoint_id} was not exported: {export['message']}.",
                code="client.export_failed",
            )
        path = Path(to)
        self.download_to(f"/exports/{export['id']}/file", path)
        return path


def _number(value: Any) -> Any:
    """Return a number of an answer, where NaN and infinities are text; None for None."""
    return decode_number(value) if value in _NAMES else value


def _x_of(curve: schema.Curve, i: int, x: Axis) -> Any:
    series = curve["series"]
    if curve["x"] is not None:
        return _number(curve["x"][i])
    if x == "step":
        return series["step"][i]
    time_ms = series["time_ms"][i]
    if x == "time":
        return time_ms
    return None if curve["start_ms"] is None else time_ms - curve["start_ms"]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
