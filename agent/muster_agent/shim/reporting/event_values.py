"""Metrics that a job writes into TensorBoard's event files: with TensorFlow, in another process, or
with a tool that nobody knows. They are read beside the shim's loop, and at last when all processes
have ended, since some writers flush rarely.

Writers in the job's own processes are captured there, at once. Such a process says into which folders
it writes; of the files in these, scalars are passed over here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

from muster.document.codec import load
from muster.document.running import MeasureSection
from muster.run_names import ProcessNames, RunNames
from muster.sdk.metrics import MEASURED
from muster.series_rules import clean_name, whole_step
from muster.tag_names import TagNames, is_of_hparams, is_placeholder
from muster_agent.event_files.events import BadEvent, EventValue, LoggedEvent, scalar_of
from muster_agent.event_files.follow import EventFiles, FoundEvents
from muster_agent.records.child_runs import ChildRuns
from muster_agent.records.points import MetricPoint, NameRoutes, Route, metrics_record

POLL_S = 2.0
LAST_BYTES_MAX = 256 * 2**20
"""Most bytes that are read after the processes have ended."""
POINTS_MAX = 2_000
"""Most points of one record."""
CAPTURED_FOLDERS_MAX = 1_000
PLUGINS_MAX = 10_000
"""Tags whose plugin is remembered."""
NAMES_SHOWN = 8

Say = Callable[[Literal["info", "warning"], str], None]


class TakesMedia(Protocol):
    """Takes in what event files hold beside scalars."""

    def __call__(
        self, name: str, value: EventValue, plugin: str, *, step: int, rank: int, time_ms: int
    ) -> None: ...


class EventValues:
    def __init__(
        self,
        config: dict[str, Any],
        *,
        place_of: Callable[[int | None], tuple[int, int]],
        names: NameRoutes,
        record: Callable[[str, bool], None],
        say: Say,
        child_runs: ChildRuns,
        media: TakesMedia | None = None,
    ) -> None:
        """Create the reader; it reads from `start` to `close`.

        config: resolved document.
        place_of: returns local rank and rank of the process with this id; of the node's first worker
            for None or any other process.
        record: takes the JSON text of a record, and whether it holds metrics.
        say: takes the level and text of a message for the trial's events.
        media: called in the shim's loop; None leaves media in the files."""
        measure = load(MeasureSection, config.get("measure") or {})
        self._is_on = "tensorboard" in measure.capture
        self._place_of = place_of
        self._names = names
        self._record = record
        self._say = say
        self._child_runs = child_runs
        self._media = media
        self._files: EventFiles | None = None
        self._root = ""
        self._tags = TagNames()
        self._captured: set[str] = set()
        self._plugins: dict[tuple[str, str], str] = {}
        """Plugin of each tag in a folder."""
        self._last_steps: dict[str, int] = {}
        """Folder → greatest step of its scalars."""
        self._has_said_runs = False
        self._runs: dict[tuple[int, str], RunNames] = {}
        """Runs of each rank and file, one after another."""
        self._writers: dict[int, ProcessNames] = {}
        """Files of each rank, side by side."""
        self._has_said_route = False
        self._restarted: set[str] = set()
        self._left_out: set[str] = set()
        """Files of which it was said that values are left out."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def captures(self, folder: str) -> None:
        """Pass over the scalars in a folder, an absolute path: the process that writes them reports
        them."""
        if len(self._captured) < CAPTURED_FOLDERS_MAX:
            self._captured.add(folder)

    async def start(self, files: Path) -> None:
        """Read from now on what processes write below a folder; what is there already is passed
        over."""
        if not self._is_on or self._task is not None:
            return
        self._files = EventFiles(str(files))
        try:
            self._root = await asyncio.to_thread(os.path.realpath, files)
            await asyncio.to_thread(self._files.start)
        except OSError as error:
            self._say("warning", f"Event files are not read: {error.strerror or error}.")
            return
        self._task = asyncio.create_task(self._run(self._files))

    async def close(self) -> None:
        """Read what is left; every process has ended and reported all it has."""
        if self._task is None or self._files is None:
            return
        self._closing.set()
        await self._task
        left = LAST_BYTES_MAX
        while left > 0:
            num = await self._poll(self._files, is_last=True)
            if not num:
                break
            left -= num
        else:
            self._say(
                "warning",
                f"Event files were read to {LAST_BYTES_MAX} bytes beyond the end of the job; the rest "
                "was not.",
            )

    async def _run(self, files: EventFiles) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._closing.wait()
                    return
            await self._poll(files, is_last=False)

    async def _poll(self, files: EventFiles, *, is_last: bool) -> int:
        try:
            found, num = await asyncio.to_thread(files.read, is_last=is_last)
        except OSError as error:
            self._say("warning", f"Event files are not read: {error.strerror or error}.")
            return 0
        for each in found:
            self._take(each)
        for problem in files.problems():
            self._say("warning", f"Event file {problem}")
        return num

    def _take(self, found: FoundEvents) -> None:
        folder = f"{self._root}/{found.folder}" if found.folder else self._root
        local_rank, rank = self._place_of(found.pid)
        # torch writes each `add_hparams` into a file and a folder of its own.
        writer = "" if is_of_hparams(found.folder) else found.file
        runs = self._runs.setdefault((rank, writer), RunNames())
        writers = self._writers.setdefault(rank, ProcessNames())
        points: list[MetricPoint] = []
        for event in found.events:
            time_ms = int(event.wall_time * 1000) if 0 < event.wall_time < 1e11 else 0
            problem = whole_step(event.step)[1]
            if problem:
                self._leave_out(found.file, event, problem)
                continue
            if event.restarts:
                runs.goes_back("", event.step)
                self._report_restart(found.folder, event)
            for value in event.values:
                plugin = self._plugin_of(folder, value)
                scalar = self._scalar(value, plugin)
                if scalar is None:
                    if self._media is not None:
                        name = self._name(folder, value.tag)
                        self._media(
                            name, value, plugin, step=event.step, rank=rank, time_ms=time_ms
                        )
                elif folder not in self._captured:
                    if is_placeholder(value.tag, scalar):
                        continue
                    name = self._name(folder, value.tag)
                    of_run = runs.name("", name, event.step)
                    shown = writers.name(writer, of_run, [event.step])
                    self._child_runs.note_of(of_run, name)
                    self._child_runs.note_of(shown, of_run)
                    shown = clean_name(shown)
                    if shown != name:
                        self._report_run(found.file, name, shown)
                    self._last_steps[found.folder] = max(
                        self._last_steps.get(found.folder, 0), event.step
                    )
                    points.append(MetricPoint(shown, event.step, time_ms, scalar))
        points = [p for p in points if self._names.allows(p.name, Route.EVENT_FILES)]
        for at in range(0, len(points), POINTS_MAX):
            batch = points[at : at + POINTS_MAX]
            self._record(metrics_record(batch, rank=rank, local_rank=local_rank), True)
        if points and not self._has_said_route:
            self._has_said_route = True
            names = list(dict.fromkeys(point.name for point in points))
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            self._say(
                "info",
                f"Values are read from TensorBoard's event files: {', '.join(names[:NAMES_SHOWN])}"
                f"{more}. measure.capture: [] switches it off.",
            )

    def _leave_out(self, path: str, event: LoggedEvent, problem: str) -> None:
        if event.values and path not in self._left_out and len(self._left_out) < NAMES_SHOWN:
            self._left_out.add(path)
            self._say(
                "warning",
                f"Event file {path}: values of {event.values[0].tag[:80]!r} are left out: {problem} "
                "(said once).",
            )

    def _name(self, folder: str, tag: str) -> str:
        name = clean_name(self._tags.name(folder, tag))
        for run in self._tags.runs:
            self._child_runs.note(run)
        return f"tensorboard/{name}" if name.startswith(MEASURED) else name

    def _plugin_of(self, folder: str, value: EventValue) -> str:
        key = (folder, value.tag)
        if value.plugin and len(self._plugins) < PLUGINS_MAX:
            self._plugins.setdefault(key, value.plugin)
        return value.plugin or self._plugins.get(key, "")

    def _scalar(self, value: EventValue, plugin: str) -> float | None:
        try:
            return scalar_of(value, plugin)
        except BadEvent:
            return None

    def _report_run(self, path: str, name: str, shown: str) -> None:
        if not self._has_said_runs:
            self._has_said_runs = True
            self._say(
                "info",
                f"The steps of {name!r} begin again in event file {path}: its values are those of another "
                f"run from then on, {shown!r}.",
            )

    def _report_restart(self, folder: str, event: LoggedEvent) -> None:
        """Say that a writer has begun again at a step that this attempt was beyond. Earlier attempts
        end at the step from which this one goes on, so there is nothing to say of them."""
        if event.step <= self._last_steps.get(folder, -1) and folder not in self._restarted:
            self._restarted.add(folder)
            self._say(
                "warning",
                f"A writer of event files in {folder or 'the work folder'} began again at step "
                f"{event.step}: values at later steps from before are kept.",
            )
