"""Contexts of Determined's Core API: metrics, checkpoints, preemption, searcher operations."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import muster
from muster.det_compat.distributed import DistributedContext
from muster.sdk.checkpoints import FolderStore, folder_name
from muster.sdk.run import Run

METADATA = "metadata.json"
EPOCHS = ("epochs", "epoch")
"""Validation metrics that say how many epochs are trained, for searches that count in epochs."""
RECORDS = "records"
"""Validation metric that says how many samples are trained."""
GROUPS = {"training": "train", "validation": "val"}


class PreemptMode(enum.Enum):
    """Who asks whether to stop."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class TensorboardMode(enum.Enum):
    """Accepted, without a meaning: files of TensorBoard are outputs of the job."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class DownloadMode(enum.Enum):
    """Whether workers of a node share what they fetch."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


class EarlyExitReason(enum.Enum):
    """Why a trial ends early."""

    INVALID_HP = "INVALID_HP"
    USER_REQUESTED_STOP = "USER_REQUESTED_STOP"


class Unit(enum.Enum):
    """What a trial's length is counted in."""

    EPOCHS = "EPOCHS"
    RECORDS = "RECORDS"
    BATCHES = "BATCHES"


class SearcherMode(enum.Enum):
    """Accepted, without a meaning: there is one operation."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"


class TrainContext:
    """Reports of the training."""

    def __init__(self, run: Run, distributed: DistributedContext) -> None:
        self._run = run
        self._distributed = distributed
        self._metadata = Path(os.environ.get("MUSTER_OUTPUT_DIR", "."), "metadata.json")

    def report_training_metrics(
        self,
        steps_completed: int,
        metrics: Mapping[str, Any],
        batch_metrics: list[Mapping[str, Any]] | None = None,
    ) -> None:
        """Report metrics of a training step as train/…; those of single batches are dropped."""
        del batch_metrics
        self.report_metrics("training", steps_completed, metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Report metrics of a validation as val/…, by which a search compares trials."""
        self.report_metrics("validation", steps_completed, metrics)

    def report_metrics(self, group: str, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Report metrics of a group of your own as group/…"""
        if "." in group:
            raise ValueError(f"group {group!r} must not have a dot")
        prefix = GROUPS.get(group, group)
        values = {f"{prefix}/{name}": value for name, value in metrics.items()}
        epoch = next((metrics[name] for name in EPOCHS if name in metrics), None)
        if group == "validation" and RECORDS in metrics:
            values["progress/samples"] = metrics[RECORDS]
        self._run.log(values, step=steps_completed, epoch=None if epoch is None else float(epoch))

    def report_progress(self, progress: float) -> None:
        """Do nothing: progress is shown by steps."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress={progress} is not between 0 and 1")

    def set_status(self, status: str) -> None:
        """Add the status to the trial's events."""
        self._run.message(status)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """End the trial. For INVALID_HP this raises muster.InvalidHyperparameters, so that the search
        may try another point."""
        if reason is EarlyExitReason.INVALID_HP:
            raise muster.InvalidHyperparameters("the script reports invalid hyperparameters")
        self._run.message("The script stops early, as its user asks.")

    def get_metadata(self) -> dict[str, Any] | None:
        """Return what `set_metadata` stored; None if nothing."""
        try:
            found: dict[str, Any] = json.loads(self._metadata.read_text())
        except FileNotFoundError:
            return None
        return found

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Store metadata as the output `metadata.json` of the job."""
        self._metadata.parent.mkdir(parents=True, exist_ok=True)
        self._metadata.write_text(json.dumps(dict(metadata), indent=1))

    def get_tensorboard_path(self) -> Path:
        """Return a folder for files of TensorBoard, which is kept among the outputs."""
        folder = self._metadata.parent / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def upload_tensorboard_files(self, *_: Any, **__: Any) -> None:
        """Do nothing: outputs are collected."""

    def get_experiment_best_validation(self) -> float | None:
        """Return None: a job does not know the results of other trials."""
        return None


class CheckpointContext:
    """Checkpoints of the trial, named by their folder."""

    def __init__(self, run: Run, distributed: DistributedContext) -> None:
        self._run = run
        self._distributed = distributed

    @contextlib.contextmanager
    def store_path(
        self, metadata: Mapping[str, Any] | None = None, *, shard: bool = False
    ) -> Iterator[tuple[Path, str]]:
        """Give a folder to write into and the id of the checkpoint, which exists when the block ends
        without an error.

        metadata: must have `steps_completed`. shard: all workers call it and write into one folder,
        which they must share; otherwise the chief alone may call it (RuntimeError).
        """
        step = dict(metadata or {}).get("steps_completed")
        if not isinstance(step, int):
            raise ValueError("metadata must have steps_completed, a whole number")
        if shard and self._distributed.size > 1:
            with self._sharded(step, metadata or {}) as folder:
                yield folder, folder_name(step)
            return
        if self._distributed.rank != 0:
            raise RuntimeError(
                f"store_path(shard=False) was called on rank {self._distributed.rank}: only the "
                "chief, rank 0, may call it"
            )
        with self._run.checkpoint(step=step) as folder:
            yield folder, folder_name(step)
            _write_metadata(folder, metadata or {})

    @contextlib.contextmanager
    def _sharded(self, step: int, metadata: Mapping[str, Any]) -> Iterator[Path]:
        if (
            not isinstance(self._run.reporter.store, FolderStore)
            and self._distributed.cross_size > 1
        ):
            raise RuntimeError("shard=True over several nodes needs a shared folder of checkpoints")
        if self._distributed.rank == 0:
            with self._run.checkpoint(step=step) as folder:
                self._distributed.broadcast(str(folder))
                error: BaseException | None = None
                try:
                    yield folder
                except BaseException as raised:
                    error = raised
                    raise
                finally:
                    failed = self._distributed.allgather(error is not None)
                if any(failed):
                    raise RuntimeError("another worker failed while it saved its shard")
                _write_metadata(folder, metadata)
            self._distributed.broadcast(True)
        else:
            folder = Path(self._distributed.broadcast(None))
            has_failed = True
            try:
                yield folder
                has_failed = False
            finally:
                failed = self._distributed.allgather(has_failed)
            if any(failed):
                raise RuntimeError("another worker failed while it saved its shard")
            self._distributed.broadcast(None)

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Callable[[str], bool] | None = None,
    ) -> Iterator[Path]:
        """Give the folder of a checkpoint; do not change it. The selector has no meaning: nothing is
        copied but from an object store.

        With LocalWorkersShareDownload, all workers of the node must call it.
        """
        del selector
        if download_mode is DownloadMode.NoSharedDownload:
            yield self._folder_of(storage_id)
            return
        found = str(self._folder_of(storage_id)) if self._distributed.local_rank == 0 else None
        yield Path(self._distributed.broadcast_local(found))

    def _folder_of(self, storage_id: str) -> Path:
        """Return the folder of a checkpoint. Raises FileNotFoundError."""
        if storage_id == self._run.reporter.resumes_at:
            return cast(Path, self._run.resume_folder())
        if storage_id == self._run.reporter.weights_at:
            return cast(Path, self._run.weights_folder())
        place = storage_id if "/" in storage_id else self._run.reporter.store.place_of(storage_id)
        if "://" in place:
            from muster.sdk import object_store

            return object_store.fetch(place, self._run.checkpoint_dir)[0]
        if not Path(place).is_dir():
            raise FileNotFoundError(f"there is no checkpoint {storage_id} at {place}")
        return Path(place)

    def upload(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: Mapping[str, Any] | None = None,
        *,
        shard: bool = False,
        selector: Callable[[str], bool] | None = None,
    ) -> str:
        """Store the files of a folder as a checkpoint; return its id. Like `store_path` otherwise."""
        with self.store_path(metadata, shard=shard) as (folder, storage_id):
            if ckpt_dir is not None:
                _copy(Path(ckpt_dir), folder, selector)
        return storage_id

    def download(
        self,
        storage_id: str,
        ckpt_dir: str | os.PathLike[str],
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Callable[[str], bool] | None = None,
    ) -> None:
        """Copy a checkpoint into a folder; with a shared download once per node."""
        with self.restore_path(storage_id, download_mode) as folder:
            is_shared = download_mode is DownloadMode.LocalWorkersShareDownload
            if not is_shared or self._distributed.local_rank == 0:
                _copy(folder, Path(ckpt_dir), selector)
            if is_shared:
                self._distributed.broadcast_local(None)

    def get_metadata(self, storage_id: str) -> dict[str, Any]:
        """Return the metadata of a checkpoint; empty if it has none."""
        try:
            found: dict[str, Any] = json.loads((self._folder_of(storage_id) / METADATA).read_text())
        except FileNotFoundError:
            return {}
        return found

    def delete(self, storage_id: str) -> None:
        """Leave the checkpoint to the policy `checkpoints.keep`, and say so in the trial's events."""
        self._run.message(
            f"The script wants to delete the checkpoint {storage_id}; checkpoints.keep says which "
            "ones are kept."
        )


class PreemptContext:
    """Requests to stop."""

    def __init__(self, run: Run, distributed: DistributedContext, mode: PreemptMode) -> None:
        self._run = run
        self._distributed = distributed
        self._mode = mode

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """Return whether to save a checkpoint and end.

        With WorkersAskChief, all workers must call it, and get the same answer.
        """
        if self._mode is PreemptMode.ChiefOnly and self._distributed.rank != 0:
            raise RuntimeError("should_preempt() may be called on the chief alone with ChiefOnly")
        answer = self._run.reporter.stop_notice is not None
        if self._mode is PreemptMode.WorkersAskChief:
            answer = bool(self._distributed.broadcast(answer))
        if answer and auto_ack:
            self.acknowledge_preemption_signal()
        return answer

    def acknowledge_preemption_signal(self) -> None:
        """Tell Muster that the script is saving a checkpoint."""
        self._run.reporter.acknowledge_stop()


class SearcherOperation:
    """The training that a trial is to do."""

    def __init__(self, run: Run, length: int, is_chief: bool) -> None:
        self._run = run
        self._is_chief = is_chief
        self.length = length
        """Length to train in all, in the units of the search."""

    def report_progress(self, length: float) -> None:
        """Do nothing: progress is shown by steps."""

    def report_completed(self, searcher_metric: Any) -> None:
        """Report the search's metric at the end of the training."""
        name = (self._run.get_config().get("search") or {}).get("metric")
        if self._is_chief and name:
            self._run.log({name: searcher_metric})


class SearcherContext:
    """The one operation of a trial: train to the end. Searches stop trials by `should_preempt`."""

    def __init__(self, run: Run, distributed: DistributedContext) -> None:
        self._run = run
        self._distributed = distributed

    def operations(
        self, searcher_mode: SearcherMode = SearcherMode.WorkersAskChief, auto_ack: bool = True
    ) -> Iterator[SearcherOperation]:
        """Yield one operation. Raises RuntimeError when the document has no `search.max_length`."""
        del searcher_mode, auto_ack
        _, length = self._length()
        yield SearcherOperation(self._run, length, self._distributed.rank == 0)

    def get_configured_units(self) -> Unit | None:
        """Return what the search's length is counted in; None for seconds, and without a length."""
        length = (self._run.get_config().get("search") or {}).get("max_length") or {}
        units = {"steps": Unit.BATCHES, "epochs": Unit.EPOCHS, "samples": Unit.RECORDS}
        return next((unit for name, unit in units.items() if length.get(name)), None)

    def _length(self) -> tuple[str, int]:
        length = (self._run.get_config().get("search") or {}).get("max_length") or {}
        for unit, number in length.items():
            if number:
                return unit, int(number)
        raise RuntimeError("searcher.operations() needs a length: set search.max_length")


class ProfilerContext:
    """Nothing to switch on: nodes are measured all the time."""

    def on(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def off(self) -> None:
        """Do nothing."""


class Context:
    """What `init` gives; a context manager."""

    def __init__(self, run: Run, distributed: DistributedContext, mode: PreemptMode) -> None:
        self._run = run
        self.distributed = distributed
        self.train = TrainContext(run, distributed)
        self.checkpoint = CheckpointContext(run, distributed)
        self.preempt = PreemptContext(run, distributed, mode)
        self.searcher = SearcherContext(run, distributed)
        self.profiler = ProfilerContext()

    def alert(
        self, title: str = "", description: str = "", level: str | enum.Enum = "info", **_: Any
    ) -> None:
        """Add a message to the trial's events."""
        name = str(level.value if isinstance(level, enum.Enum) else level).lower()
        known: Literal["info", "warning", "error"] = (
            "error" if name in ("error", "critical") else "warning" if name == "warn" else "info"
        )
        self._run.message(f"{title}: {description}".strip(": "), known)

    def close(self) -> None:
        self._run.flush()
        self.distributed.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def init(
    *,
    distributed: DistributedContext | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    checkpoint_storage: Any = None,
    tensorboard_path: Any = None,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
    **_: Any,
) -> Context:
    """Return the context of this process. Outside of Muster it reports nothing and saves to
    ./checkpoints.

    distributed: this worker's place; by default that of torchrun, else a single worker.
    Other arguments are accepted without a meaning: the document says where checkpoints go.
    """
    del checkpoint_storage, tensorboard_path, tensorboard_mode
    if distributed is None:
        distributed = DistributedContext.from_torch_distributed()
    if distributed.size > 1:
        # The script's own launcher may have set none of torchrun's variables, by which ranks report.
        for name, number in (
            ("RANK", distributed.rank),
            ("WORLD_SIZE", distributed.size),
            ("LOCAL_RANK", distributed.local_rank),
            ("LOCAL_WORLD_SIZE", distributed.local_size),
            ("GROUP_RANK", distributed.cross_rank),
        ):
            os.environ.setdefault(name, str(number))
    return Context(muster.init(), distributed, preempt_mode)


def _write_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    (folder / METADATA).write_text(json.dumps(dict(metadata), indent=1))


def _copy(source: Path, target: Path, selector: Callable[[str], bool] | None) -> None:
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        name = path.relative_to(source).as_posix()
        if selector is None or selector(name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            draft = target / f"{name}.{uuid.uuid4().hex}"
            shutil.copyfile(path, draft)
            draft.replace(target / name)
