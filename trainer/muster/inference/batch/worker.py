"""A worker of a batch inference: holds shards, has them computed, and commits their parts.

It asks for nothing and waits for no answer. The newest orders say which shards it holds; what it has done
it says until the orders do not name it any more. A part whose lease is over counts for nothing, and is
deleted. See `muster.wire.predictions` and, for the reasons, `muster_server.services.runtime.predictions`.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from muster import wire
from muster.document.inference import PredictSection
from muster.document.train_config import ConfigError
from muster.inference import reporting
from muster.inference.launching import ModelJob

from .computing import Computing, ComputingFailed, Finished, ShardJob
from .inputs import BadInput, make_plan
from .parts import FOLDER, OpenPart, find_parts, remove_part, write_manifest
from .predictor_settings import PredictorSettings
from .rows import ShardRows

POLL_S = 0.05
REPORT_S = 1.0
"""Seconds for which finished shards are gathered while there are others to go on with."""
IDLE_REPORT_S = 1.0
"""Seconds between two reports of a worker that has nothing to do."""
REPEAT_S = 5.0
"""Seconds after which a commit is repeated that the orders do not know yet."""
METRICS_S = 1.0
RATE_WINDOW = 8
"""Micro-batches over which the speed of a worker is measured."""

Key = tuple[int, int]
"""Number and token of a shard."""


class ShardWorker:
    """One worker. `run` returns when every row is predicted, or the worker is asked to stop."""

    def __init__(self, job: ModelJob) -> None:
        self._job = job
        self._run = job.run
        self._section: PredictSection = job.section
        self._rank = job.run.info.rank
        self._folder = job.run.output_dir / FOLDER
        self._computing = Computing(
            PredictorSettings(
                folder=str(job.folder),
                function=self._section.function,
                column=self._section.column,
                key=self._section.key,
            )
        )
        self._orders_no = 0
        self._granted: dict[Key, wire.ShardGrant] = {}
        self._queue: deque[ShardJob] = deque()
        self._started: dict[Key, OpenPart] = {}
        """Shards that the computing process has."""
        self._done: dict[Key, wire.ShardDone] = {}
        """Shards that the orders still name, though they are done."""
        self._unsaid: list[Key] = []
        """Shards among them that have not been reported."""
        self._parts: list[wire.CommittedPart] = []
        self._moved_at = time.monotonic()
        """When a micro-batch was finished last, or there was nothing to do."""
        self._has_moved = False
        """Whether a micro-batch was finished since the last report."""
        self._reported_at = 0.0
        self._repeat_at = 0.0
        self._speeds: deque[tuple[float, int]] = deque(maxlen=RATE_WINDOW)
        self._has_loaded = False
        """Whether the model was loaded, so that this worker takes shards."""
        self._has_planned = False
        self._logged: tuple[float, int] | None = None
        self._first_grant_at: float | None = None
        """When this worker held its first shard, in this attempt."""

    def run(self) -> None:
        """Raises ConfigError for what another attempt does not cure, and OSError for a full disk."""
        self._folder.mkdir(parents=True, exist_ok=True)
        is_first_here = self._run.info.local_rank == 0
        self._report(parts=find_parts(self._folder) if is_first_here else None)
        self._computing.start()
        try:
            while not self._look():
                self._work()
        except (BadInput, ComputingFailed) as error:
            raise ConfigError(str(error)) from error
        finally:
            self._computing.close()

    # ------------------------------------------------------------ orders

    def _look(self) -> bool:
        """Follow the newest orders; return whether there is nothing left to do."""
        if self._run.should_stop():
            self._report(takes_none=True)
            return True
        orders = self._run.reporter.shards
        if orders is None or orders.no <= self._orders_no:
            return False
        self._orders_no = orders.no
        if orders.problem:
            raise ConfigError(orders.problem)
        if orders.wants_plan:
            self._plan()
            return False
        for no, token in orders.refused:
            remove_part(self._folder, no, token)
        self._take_grants(orders)
        if self._rank == 0:
            self._log(orders)
        if not orders.is_complete:
            return False
        return self._rank != 0 or self._take_parts(orders)

    def _plan(self) -> None:
        if self._rank != 0 or self._has_planned:
            return
        self._has_planned = True
        plan = make_plan(
            self._section.inputs,
            batch_size=self._section.batch_size,
            shard_rows=self._section.shard_rows,
            num_workers=self._run.info.world_size,
        )
        for remark in plan.remarks[:5]:
            self._run.message(remark, "warning")
        self._run.reporter.answer(plan.record())
        self._report()

    def _take_grants(self, orders: wire.ShardOrders) -> None:
        granted = {
            (grant.no, grant.token): grant for grant in orders.grants if grant.rank == self._rank
        }
        for key in self._granted.keys() - granted.keys():
            self._started.pop(key, None)
            self._done.pop(key, None)
        self._queue = deque(job for job in self._queue if (job.no, job.token) in granted)
        for key, grant in granted.items():
            if key in self._granted:
                continue
            shard = ShardRows(
                file=orders.inputs[str(grant.input_no)],
                first_row=grant.first_row,
                num_rows=grant.num_rows,
                start=grant.start,
                end=grant.end,
            )
            self._queue.append(
                ShardJob(
                    no=grant.no,
                    token=grant.token,
                    shard=shard,
                    batch_size=self._section.batch_size,
                    key=self._section.key,
                )
            )
        self._granted = granted
        if granted and self._first_grant_at is None:
            self._first_grant_at = time.monotonic()

    def _take_parts(self, orders: wire.ShardOrders) -> bool:
        """Collect the list of parts, and publish it when it is whole; return whether it is."""
        if orders.parts_from == len(self._parts):
            self._parts += orders.parts
        if len(self._parts) < orders.num_shards:
            self._report()
            return False
        used, began = self._job.used, self._first_grant_at or time.monotonic()
        manifest = write_manifest(
            self._folder,
            self._parts,
            {
                "model": {"name": used.model, "version": used.version, "digest": used.digest},
                "inputs": list(self._section.inputs),
                "shards": orders.num_shards,
            },
        )
        reporting.result(
            {
                "rows": manifest["rows"],
                "num_errors": manifest["num_errors"],
                "shards": orders.num_shards,
                "seconds_of_work": time.monotonic() - began,
                "manifest": f"muster-outputs/{FOLDER}/_manifest.json",
            }
        )
        return True

    def _log(self, orders: wire.ShardOrders) -> None:
        now = time.monotonic()
        values: dict[str, Any] = {
            "predict/rows_done": orders.rows_done,
            "predict/errors": orders.num_errors,
        }
        if self._logged is not None:
            at, rows = self._logged
            if now - at < METRICS_S and not orders.is_complete:
                return
            if now > at and orders.rows_done > rows:
                values["throughput/rows_per_s"] = (orders.rows_done - rows) / (now - at)
        self._logged = (now, orders.rows_done)
        self._run.log(values, step=orders.num_done, num_steps_planned=orders.num_shards)

    # ------------------------------------------------------------ work

    def _work(self) -> None:
        while self._queue and self._computing.has_room:
            job = self._queue.popleft()
            self._started[job.no, job.token] = OpenPart(no=job.no, token=job.token)
            self._computing.add(job)
        patience_s = self._section.lease_s / 2
        if self._computing.is_idle or not self._computing.is_ready:
            self._moved_at, self._has_moved = time.monotonic(), True
        finished = self._computing.poll(POLL_S)
        if finished is not None:
            self._take(finished)
        elif time.monotonic() > self._moved_at + patience_s:
            self._run.message(
                f"rank {self._rank}: a batch was not finished within half of predict.lease_s, "
                f"{patience_s:g} s; its process is started again",
                "warning",
            )
            self._computing.kill()
            # The worker lives, and finds out which row it is.
            self._moved_at, self._has_moved = time.monotonic(), True
        self._report_if_due()

    def _take(self, finished: Finished) -> None:
        now = time.monotonic()
        num = finished.num_rows + finished.num_errors
        self._speeds.append((now - self._moved_at, num))
        self._moved_at, self._has_moved = now, True
        key = (finished.no, finished.token)
        part = self._started.get(key)
        if part is None:
            return  # Its lease is over.
        part.add(finished.lines, finished.num_rows, finished.errors, finished.num_errors)
        if finished.is_last:
            del self._started[key]
            self._done[key] = part.write(self._folder)
            self._unsaid.append(key)

    # ------------------------------------------------------------ reports

    def _report_if_due(self) -> None:
        now = time.monotonic()
        since_s = now - self._reported_at
        if self._done and now > self._repeat_at:
            self._unsaid = list(self._done)
        is_idle = self._computing.is_idle and not self._queue
        if self._computing.is_ready and not self._has_loaded:
            self._has_loaded = True
            self._report()
        if (
            (self._unsaid and (since_s > REPORT_S or not self._queue))
            or (is_idle and since_s > IDLE_REPORT_S)
            or (self._has_moved and since_s > self._section.lease_s / 4)
        ):
            self._report()

    def _report(self, *, parts: list[list[int]] | None = None, takes_none: bool = False) -> None:
        now = time.monotonic()
        self._run.reporter.answer(
            wire.ShardsRecord(
                rank=self._rank,
                local_rank=self._run.info.local_rank,
                done=[self._done[key] for key in self._unsaid if key in self._done],
                rows_per_s=self._rows_per_s(),
                takes_none=takes_none or not self._has_loaded,
                parts=parts,
                parts_from=len(self._parts),
            )
        )
        self._run.flush(0.0)  # Without a wait: it is sent at once.
        self._unsaid, self._has_moved = [], False
        self._reported_at, self._repeat_at = now, now + REPEAT_S

    def _rows_per_s(self) -> float:
        seconds = sum(spent for spent, _ in self._speeds)
        return sum(num for _, num in self._speeds) / seconds if seconds > 0 else 0.0
