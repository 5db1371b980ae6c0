"""The tracking server of one allocation: requests in, records for the spool and files out.

It answers from here, whether the control plane can be reached or not: MLflow's clients give up after
about four minutes, and the spool holds what they log for as long as an outage lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from muster import wire
from muster.run_names import RunNames
from muster.series_rules import clean_name
from muster.tracking import (
    ModelShelf,
    Registrations,
    RunChange,
    TrackedPoint,
    TrackedRun,
    TrackingBook,
    TrackingError,
    VersionSource,
    answer,
    artifact_path,
    invalid,
    missing,
    registry_call,
    sane_time,
    series_name,
)
from muster_agent.clock import unix_ms
from muster_agent.records.child_runs import ChildRuns
from muster_agent.records.points import MetricPoint, NameRoutes, Route, metrics_record
from muster_agent.tracking.artifacts import FOLDER, ArtifactStore
from muster_agent.tracking.http import (
    BodyTooLarge,
    ConnectionBroken,
    HttpReply,
    HttpRequest,
    HttpServer,
    read_body,
)

BODY_MAX_BYTES = 8 * 2**20
"""Most bytes of a JSON body; those of MLflow's clients have at most 1 MB of text."""
BODIES_MAX = 16
"""Most JSON bodies in memory at a time."""
SAVE_INTERVAL_S = 5.0
"""Seconds between two writes of a run's file while it changes."""
TAG_RECORDED_MAX_CHARS = 8_000
"""Longer tags, which only MLflow's own bookkeeping has, stay in the job."""
EARLIER_RUNS_MAX = 5_000
CLOSE_TIMEOUT_S = 2.0
REGISTRY_TIMEOUT_S = 20.0
"""How long a request to the model registry waits for the server: far less than clients wait."""
AWAY_TIMEOUT_S = 1.0
"""How long it waits once the server has not answered."""
MLMODEL_MAX_BYTES = 64 * 1024
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"

log = logging.getLogger("muster.shim")


class JobTracker:
    def __init__(
        self,
        spec: wire.AllocationSpec,
        *,
        token: str,
        record: Callable[[str, bool], None],
        warn: Callable[[str], None],
        members: Callable[[], Iterable[Any]],
        names: NameRoutes,
        child_runs: ChildRuns,
        uid: int | None = None,
        min_free_bytes: int = 0,
    ) -> None:
        """Create the server; it listens after `listen`, and keeps artifacts after `open`.

        token: what every request must show.
        record: takes the JSON text of a record, and whether it holds metrics.
        members: returns the processes of the job, each with a `pid`.
        names: which routes report which metrics."""
        self._spec = spec
        self._token = token
        self._record = record
        self._members = members
        self._names = names
        self._child_runs = child_runs
        self._uid = uid
        self._min_free_bytes = min_free_bytes
        self._runs = RunNames()
        """Runs of the script within one run of MLflow, whose steps begin again."""
        self._store: ArtifactStore | None = None
        self._earlier: dict[str, TrackedRun] | None = None
        self._unsaved: dict[str, TrackedRun] = {}
        self._save_at = 0.0
        self._bodies = asyncio.Semaphore(BODIES_MAX)
        self._http = HttpServer(self._handle)
        self.uri = ""
        """Where scripts reach it; "" while nothing listens."""
        trial = f"{spec.cluster_id}/{spec.trial_id}"
        self._book = TrackingBook(
            trial=trial,
            points=self._take_points,
            changed=self._take_change,
            warn=warn,
            trial_name=f"trial-{spec.experiment_id}.{spec.trial_no}",
            recall=self._recall,
        )
        self._shelf = ModelShelf(self._book.run, trial=trial)
        self._registrations = Registrations(
            send=lambda record: self._record(wire.dump(record), False), find=self._source
        )
        self._warn = warn
        self._answered = asyncio.Event()
        """Set and replaced whenever the server has answered a registration."""
        self._is_server_away = False

    async def listen(self) -> None:
        """Listen on the loopback interface. Raises OSError."""
        self.uri = f"http://127.0.0.1:{await self._http.listen()}"

    def open(self, files: Path) -> None:
        """Keep artifacts in the files of the work folder from now on."""
        self._store = ArtifactStore(files, uid=self._uid, min_free_bytes=self._min_free_bytes)

    async def close(self) -> None:
        """Stop listening, and keep the runs for a later attempt."""
        await self._http.close(timeout_s=CLOSE_TIMEOUT_S)
        self._save(is_due=True)

    # ------------------------------------------------------------ requests

    async def _handle(self, request: HttpRequest) -> HttpReply:
        try:
            return await self._answer(request)
        except TrackingError as error:
            return HttpReply.of(error.body, error.status)
        except ConnectionBroken:
            raise
        except FileNotFoundError:
            return HttpReply.of(missing(f"No such artifact: {request.path[-300:]}").body, 404)
        except BodyTooLarge as error:
            return HttpReply.of(invalid(str(error)).body, 400)
        except OSError as error:
            return _failed(f"the node could not do it: {error.strerror or error}")
        except Exception as error:
            log.exception("a tracking request failed: %s %s", request.method, request.path)
            return _failed(f"{type(error).__name__}: {error}")

    async def _answer(self, request: HttpRequest) -> HttpReply:
        if request.path == "/health":
            return HttpReply(body=b"OK", content_type="text/plain")
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode("utf-8", "replace"), self._token.encode()):
            raise TrackingError(
                401, "UNAUTHENTICATED", "the token is not that of MLFLOW_TRACKING_TOKEN in this job"
            )
        if request.path.startswith(_ARTIFACTS):
            return await self._artifact(request, request.path.removeprefix(_ARTIFACTS).strip("/"))
        body = request.query
        if request.method != "GET":
            async with self._bodies:
                body = _json(await read_body(request, max_bytes=BODY_MAX_BYTES))
        if (call := registry_call(request.path)) is not None:
            return HttpReply.of(await self._registry(request.method, call, body))
        rank = self._spec.rank_offset
        if self._spec.world_size > 1 and request.path.endswith("/runs/create"):
            rank = await asyncio.to_thread(self._rank_at, request.peer_port)
        found = answer(self._book, self._shelf, request.method, request.path, body, rank=rank)
        self._save(is_due=request.path.endswith("/runs/update"))
        return HttpReply.of(found)

    def _rank_at(self, port: int) -> int:
        """Return the rank of the worker that has connected from a port.

        A token could not tell: torchrun gives all its workers one environment, and which of several
        nodes has rank 0 is decided only when its torchruns meet."""
        for member in self._members():
            try:
                process = psutil.Process(member.pid)
                if any(c.laddr and c.laddr.port == port for c in process.net_connections("tcp")):
                    return int(process.environ()["RANK"]) + self._spec.rank_base
            except (psutil.Error, OSError, KeyError, ValueError):
                continue
        return self._spec.rank_offset

    # ------------------------------------------------------------ registered models

    def take_registration(self, done: wire.ModelRegistration) -> None:
        """Take what the server has made of a registration."""
        self._registrations.take(done)
        self._is_server_away = False
        self._answered.set()
        self._answered = asyncio.Event()

    async def _registry(
        self, method: str, call: tuple[str, str], body: Mapping[str, Any]
    ) -> dict[str, Any]:
        no, shown = self._registrations.ask(method, call, body, now_ms=unix_ms())
        try:
            async with asyncio.timeout(
                AWAY_TIMEOUT_S if self._is_server_away else REGISTRY_TIMEOUT_S
            ):
                while no and not self._registrations.is_answered(no):
                    await self._answered.wait()
        except TimeoutError:
            if not self._is_server_away:
                self._is_server_away = True
                self._warn(
                    "The server did not answer when the script registered a model: the script is told "
                    "version 0, and the version gets its number when the server answers."
                )
        return shown()

    def _source(self, source: str) -> VersionSource:
        """Return what the source of a version means. Raises TrackingError."""
        path = artifact_path(source)
        if not path or self._store is None:
            raise invalid(
                f"Invalid source {source[:200]!r}: a version is made of what this job has logged, such "
                "as runs:/<run_id>/model. Files from elsewhere: `muster model upload`"
            )
        place = self._place(path)
        if not self._store.entries(place):
            raise missing(f"There are no artifacts under {source[:200]!r}: log the model first.")
        mlmodel = ""
        with contextlib.suppress(OSError, TrackingError, UnicodeDecodeError):
            size, pieces = self._store.read([*place, "MLmodel"])
            if size <= MLMODEL_MAX_BYTES:
                mlmodel = b"".join(pieces).decode()
        return VersionSource(f"mlflow-artifacts:/{path}", "/".join((*FOLDER, *place)), mlmodel)

    # ------------------------------------------------------------ artifacts

    async def _artifact(self, request: HttpRequest, path: str) -> HttpReply:
        store = self._store
        if store is None:
            raise missing("artifacts are kept once the job has started")
        match request.method:
            case "GET" if not path:
                place = self._place(str(request.query.get("path") or ""))
                return HttpReply.of({"files": await asyncio.to_thread(store.entries, place)})
            case "GET":
                size, pieces = await asyncio.to_thread(store.read, self._file(path))
                return HttpReply(size=size, pieces=pieces, content_type="application/octet-stream")
            case "PUT":
                await self._put(store, self._file(path), request)
                return HttpReply()
            case "DELETE":
                await asyncio.to_thread(store.delete, self._file(path))
                return HttpReply()
            case _:
                raise TrackingError(
                    404,
                    "ENDPOINT_NOT_FOUND",
                    f"Muster does not offer {request.method} of MLflow's artifacts",
                )

    async def _put(self, store: ArtifactStore, place: list[str], request: HttpRequest) -> None:
        length = request.headers.get("content-length", "0")
        store.check_room(int(length) if length.isdecimal() else 0)
        with store.created(place) as fd:
            since_check = 0
            async for piece in request.pieces():
                since_check += len(piece)
                if since_check > 64 * 2**20:
                    store.check_room(0)
                    since_check = 0
                await asyncio.to_thread(_write_all, fd, piece)

    def _file(self, path: str) -> list[str]:
        place = self._place(path)
        if len(place) < 3:
            raise invalid(f"Invalid path of an artifact: {path[:300]!r} names no file")
        return place

    def _place(self, path: str) -> list[str]:
        """Return the names below the folder of all runs for <experiment>/<run>/artifacts/… and
        <experiment>/models/<model>/artifacts/…"""
        match ArtifactStore.parts_of(path.strip("/")):
            case [_, "models", model_id, "artifacts", *rest]:
                return [*self._shelf.model(model_id).folder.split("/"), *rest]
            case [_, run_id, "artifacts", *rest]:
                return [self._book.run(run_id).folder, "artifacts", *rest]
            case _:
                raise invalid(
                    f"Invalid path of an artifact: {path[:300]!r} is not that of a run or model"
                )

    # ------------------------------------------------------------ what is new

    def _take_points(self, run: TrackedRun, points: list[TrackedPoint]) -> None:
        new = []
        for p in points:
            own = series_name(run.label, p.key)
            name = self._runs.name(run.run_id, own, p.step)
            self._child_runs.note_of(name, own)
            time_ms = sane_time(p.time_ms, run.started_ms)
            new.append(MetricPoint(clean_name(name), p.step, time_ms, p.value))
        # What the script's own process has reported already is in the run, and once in the charts.
        new = [point for point in new if self._names.allows(point.name, Route.TRACKING)]
        if new:
            local_rank = run.rank % len(self._spec.slots)
            self._record(metrics_record(new, rank=run.rank, local_rank=local_rank), True)
        self._unsaved[run.run_id] = run

    def _take_change(self, change: RunChange) -> None:
        run = change.run
        record = wire.TrackedRunRecord(
            run_id=run.run_id,
            name=run.name,
            label=run.label,
            folder="/".join(("mlflow", run.folder)),
            parent_id=run.parent_id,
            status="DELETED" if run.stage == "deleted" else run.status,
            started_ms=run.started_ms,
            ended_ms=run.ended_ms,
            is_new=change.is_new,
            params=dict(change.params),
            tags=_recorded(change.tags),
            removed_tags=list(change.removed_tags),
        )
        self._record(wire.dump(record), False)
        self._unsaved[run.run_id] = run

    def _recall(self, run_id: str) -> TrackedRun | None:
        if self._store is None:
            return None
        if self._earlier is None:
            self._earlier = self._store.runs(limit=EARLIER_RUNS_MAX)
        return self._earlier.get(run_id)

    def _save(self, *, is_due: bool) -> None:
        if self._store is None or not self._unsaved:
            return
        if not is_due and time.monotonic() < self._save_at:
            return
        self._save_at = time.monotonic() + SAVE_INTERVAL_S
        for run_id, run in list(self._unsaved.items()):
            try:
                self._store.save(run)
            except (OSError, TrackingError) as error:
                log.warning("the run %s could not be written: %s", run.name, error)
            del self._unsaved[run_id]


def _recorded(tags: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in tags.items() if len(v) <= TAG_RECORDED_MAX_CHARS}


def _json(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid("the body must be a JSON object")
    return body


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _failed(message: str) -> HttpReply:
    return HttpReply.of({"error_code": "INTERNAL_ERROR", "message": message}, 507)
