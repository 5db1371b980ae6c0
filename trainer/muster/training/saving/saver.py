"""Saves checkpoints while training goes on: it waits for the copy of its state alone.

A save is under way from the copy until the checkpoint has been published. There is one at a time:
the next one waits for it, so that memory holds one copy, and checkpoints appear in order. A save
that fails ends the training with the next call of any method here, on every rank.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from muster.document.train_config import ConfigError
from muster.measure import agreement
from muster.sdk import checkpoints, shards
from muster.sdk.checkpoints import FileFacts, Manifest
from muster.sdk.local_store import LocalStore
from muster.sdk.run import Run
from muster.sdk.shards import Stored
from muster.sdk.stops import StopNotice
from muster.training.saving import files

DELIVER_S = 1.0
"""How long a save waits until what its rank has reported is out; it does not wait for the agent."""
LEAVE_S = 30.0
"""How long a training that fails waits for a save that is under way."""


class Saver:
    """Every rank has one, and all of them call its methods together."""

    def __init__(self, run: Run, *, background: bool) -> None:
        """Prepare saving.

        background: let training continue while files are written. Raises ConfigError if there is
        nowhere to save to.
        """
        self._run = run
        self._rank, self._num_ranks = run.info.rank, run.info.world_size
        self._background = background
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="muster-save")
        self._under_way: Future[None] | None = None
        self._longest_s = 0.0
        _check(run)
        self._is_shared = (
            self._num_ranks == 1 or run.reporter.store.is_everywhere or _is_shared(run)
        )
        if self._num_ranks > 1:
            agreement.saving_group()

    def save(
        self,
        step: int,
        epoch: float,
        tensors: Mapping[str, Tensor],
        others: Mapping[str, Any],
        *,
        metrics: Mapping[str, float],
        stop: StopNotice | None = None,
    ) -> bool:
        """Save what the ranks have of a state. Rows of all steps up to it must have been sent.

        tensors: this rank's, by names that all ranks together have; sharded ones are DTensors, any
            other is the same on all ranks that have it.
        others: what is no tensor; that of rank 0 counts.
        stop: the notice for which the training ends. When less time is left than a save has taken,
            it is not begun, and the newest checkpoint is the one before. False is returned then.
        Raises OSError when a disk refuses, the same on every rank.
        """
        self.finish()
        if stop is not None and not self._fits(stop):
            self._run.message(
                f"no time to save step {step}: a checkpoint has taken {self._longest_s:.1f} s",
                "warning",
            )
            return False
        began = time.monotonic()
        write = self._job(step, epoch, tensors, others, metrics)

        def job() -> None:
            write()
            self._longest_s = max(self._longest_s, time.monotonic() - began)

        if self._background and stop is None:
            self._under_way = self._thread.submit(job)
        else:
            job()
        return True

    def finish(self) -> None:
        """Wait for the save under way. Raises what it raised."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def close(self) -> None:
        """Let go, also after a failure: a save under way may be finished, for a while."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            with suppress(BaseException):
                under_way.result(LEAVE_S)
        self._thread.shutdown(wait=False)

    def _fits(self, stop: StopNotice) -> bool:
        left = stop.seconds_left
        return not agreement.agree_any(left is not None and left < self._longest_s)

    def _job(
        self,
        step: int,
        epoch: float,
        tensors: Mapping[str, Tensor],
        others: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> Callable[[], None]:
        """Copies the tensors. What it returns writes them, and may be called in another thread."""
        run, store = self._run, self._run.reporter.store
        begun: list[tuple[str, Manifest]] = []

        def begin(is_short: bool = False) -> Path:
            if isinstance(store, LocalStore):
                return store.begin(step, is_short=is_short)
            return store.begin(step)

        def publish(
            folder: Path, index: Mapping[str, Stored], written: Mapping[str, FileFacts]
        ) -> None:
            shards.write_index(folder, index)
            torch.save(dict(others), folder / files.TRAINING)
            if self._is_shared and isinstance(store, LocalStore) and store.is_part(folder):
                own = {f: checkpoints.settle(folder / f) for f in (shards.INDEX, files.TRAINING)}
                manifest = checkpoints.manifest_of(
                    own | dict(written), step=step, epoch=epoch, metrics=metrics
                )
                begun.append((folder.name, manifest))
                return
            final, manifest = store.commit(
                folder, step=step, epoch=epoch, metrics=metrics, settled=written
            )
            run.reporter.register_checkpoint(final, manifest)

        def alone(mine: Mapping[str, Tensor]) -> None:
            folder = begin()
            name = files.file_name(0)
            publish(
                folder, files.whole_index(mine, rank=0), {name: files.write(folder / name, mine)}
            )

        if self._num_ranks == 1:
            staged = _copied(tensors)
            return lambda: alone(staged)
        if not self._is_shared:
            staged = _gathered(tensors, rank=self._rank)
            return (lambda: alone(staged)) if self._rank == 0 else (lambda: None)

        from muster.training.saving import distributed

        parts = distributed.stage(tensors)

        def together() -> None:
            # A training that goes on from here does not tell of these steps again: each rank's rows
            # are out of its hands before rank 0 learns that its part is written.
            run.reporter.deliver(DELIVER_S)
            distributed.save(
                parts,
                store=store,
                rank=self._rank,
                group=agreement.saving_group(),
                begin=begin,
                publish=publish,
            )
            if isinstance(store, LocalStore) and store.spans_nodes:
                from muster.training.saving import on_nodes

                on_nodes.publish(run, store, begun, group=agreement.saving_group())

        return together


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        n: t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for n, t in tensors.items()
    }


def _gathered(tensors: Mapping[str, Tensor], *, rank: int) -> dict[str, Tensor]:
    """Return everything on rank 0, where the others do not see the folder; empty elsewhere."""
    mine = _copied({n: files.gathered(t) for n, t in tensors.items()})
    parts: list[Any] | None = [None] * dist.get_world_size() if rank == 0 else None
    # What is whole on rank 0 need not be sent, but nobody else knows which that is.
    dist.gather_object(mine, parts, dst=0, group=agreement.control_group())
    found: dict[str, Tensor] = {}
    for part in reversed(parts or []):
        found |= part
    return found


def _check(run: Run) -> None:
    """See that every rank can write to where checkpoints go. Raises ConfigError where none ever
    will, and OSError, on all of them."""
    problem: OSError | None = None
    try:
        run.reporter.store.check(run.info.rank)
    except OSError as error:
        problem = error
    if not agreement.agree_any(problem is not None):
        return
    text = f"checkpoints.storage: {problem.strerror if problem else 'another worker cannot use it'}"
    if agreement.agree_any(getattr(problem, "is_final", False)):
        raise ConfigError(text)
    raise OSError(problem.errno if problem else errno.EIO, text)


def _is_shared(run: Run) -> bool:
    """Return whether all ranks see the folder that rank 0 writes into."""
    directory, group = run.checkpoint_dir, agreement.control_group()
    probe: list[Any] = [None]
    if run.info.rank == 0:
        directory.mkdir(parents=True, exist_ok=True)
        probe = [checkpoints.probe(directory)]
    dist.broadcast_object_list(probe, 0, group=group)
    is_missing = not (directory / probe[0]).exists()
    answer = not agreement.agree_any(is_missing)
    if run.info.rank == 0:
        (directory / probe[0]).unlink()
    return answer
