"""The Run that a script gets: its settings, what it reports, its checkpoints."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from muster import wire
from muster.launch.variables import DATA_PREFIX
from muster.sdk import stops
from muster.sdk.env import RankInfo
from muster.sdk.media import MediaMethods
from muster.sdk.reporter import EXIT_FLUSH_S, Reporter, current, never_raises
from muster.sdk.stops import StopNotice

OUTPUT_DIR = "muster-outputs"
"""Folder of outputs in the current folder, where nobody has named one."""


class Run(MediaMethods):
    """A training, as its script sees it. Methods may be called from any thread."""

    def __init__(self, reporter: Reporter, *, defaults: Mapping[str, Any] | None = None) -> None:
        """Create the script's view of a reporter; `defaults` are hyperparameters for names that the trial does
        not set."""
        self.reporter = reporter
        """For Muster's own code."""
        self._defaults = dict(defaults or {})

    # ------------------------------------------------ what this worker is

    @property
    def info(self) -> RankInfo:
        return self.reporter.info

    def get_hparams(self) -> dict[str, Any]:
        """Return this trial's hyperparameters, over the defaults given to `init`."""
        return {**self._defaults, **self.reporter.trial.hparams}

    def get_config(self) -> dict[str, Any]:
        """Return the resolved experiment document; empty without Muster."""
        return dict(self.reporter.trial.config)

    @property
    def hparams(self) -> dict[str, Any]:
        """`get_hparams` as a value, for scripts written before it."""
        return self.get_hparams()

    @property
    def config(self) -> dict[str, Any]:
        """`get_config` as a value, for scripts written before it."""
        return self.get_config()

    @property
    def data(self) -> dict[str, Path | str]:
        """The document's data sets by name: a path on this node, or a URL as text. Empty without
        Muster."""
        names = self.reporter.trial.config.get("data") or {}
        places = {name: os.environ.get(f"{DATA_PREFIX}{name.upper()}", "") for name in names}
        return {name: at if "://" in at else Path(at) for name, at in places.items() if at}

    @property
    def seed(self) -> int:
        return self.reporter.trial.seed

    @property
    def resume_step(self) -> int:
        """Step of the checkpoint to continue from; 0 for a fresh start."""
        return self.reporter.around.resume_step

    @property
    def checkpoint_dir(self) -> Path:
        return self.reporter.checkpoint_dir

    @property
    def output_dir(self) -> Path:
        """Folder whose content is always kept as outputs of the trial."""
        return Path(self.reporter.around.output_dir or OUTPUT_DIR)

    def resume_folder(self) -> Path | None:
        """Return the checkpoint to continue from, or None for a fresh start. One in an object store
        is fetched and verified first, which raises OSError or checkpoints.CheckpointDamaged."""
        return self._here(self.reporter.resumes_at)

    def weights_folder(self) -> Path | None:
        """Return a checkpoint of another trial whose weights to begin with, at step 0; or None. It
        is fetched like that of `resume_folder`."""
        return self._here(self.reporter.weights_at)

    @property
    def resume_from(self) -> Path | None:
        """`resume_folder` as a value, for scripts written before it."""
        return self.resume_folder()

    @property
    def weights_from(self) -> Path | None:
        """`weights_folder` as a value, for scripts written before it."""
        return self.weights_folder()

    def _here(self, place: str) -> Path | None:
        if not place:
            return None
        from muster.sdk import object_store

        if object_store.is_url(place):
            return object_store.fetch(place, self.checkpoint_dir)[0]
        return Path(place)

    # ------------------------------------------------ reporting

    def log(
        self,
        metrics: Mapping[str, Any],
        *,
        step: int | None = None,
        epoch: float | None = None,
        num_steps_planned: int | None = None,
    ) -> None:
        """Report values at a step. Numbers, numpy scalars and one-element tensors are accepted;
        NaN and infinities are kept.

        step: optimizer step; without it, one more than that of the last call.
        """
        self.reporter.log(metrics, step=step, epoch=epoch, num_steps_planned=num_steps_planned)

    def report_group(
        self,
        name: str,
        ranks: Sequence[int],
        kind: str = "custom",
        *,
        backend: str = "",
    ) -> None:
        """Tell Muster about a process group. Every member may call it; the first one reports."""
        self.reporter.report_group(name, ranks, kind, backend=backend)

    @never_raises
    def report_evaluation(
        self,
        name: str,
        *,
        step: int,
        metrics: Mapping[str, Any] | None = None,
        classes: Sequence[str] = (),
        confusion: Sequence[Sequence[int]] = (),
    ) -> None:
        """Report how good the model of `step` is, to be shown on the trial's page. Call it on one
        rank; a later call with the same name replaces an earlier one.

        name: of the samples it was judged by, such as "test".
        classes: names, in the order of `confusion`, at most 128.
        confusion: [true class][predicted class] → number of samples. Precision, recall and F1 of
            each class follow from it.
        """
        values = self.reporter.cleaned(metrics or {})
        self.reporter.record(
            wire.EvaluationRecord(
                name=name,
                step=int(step),
                metrics={k: wire.encode_number(v) for k, v in values.items()},
                classes=[str(c) for c in classes],
                confusion=[[int(n) for n in row] for row in confusion],
            )
        )

    def message(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """Add a message to the trial's events."""
        self.reporter.message(text, level)

    @contextlib.contextmanager
    def checkpoint(
        self,
        *,
        step: int,
        epoch: float | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> Iterator[Path]:
        """Write a checkpoint: put files into the folder this gives; it becomes visible, and is
        registered, only when the block ends without an error.

        Call it on one rank. Errors of the disk do raise: a checkpoint that silently does not
        exist is worse than a failed trial. Raises RuntimeError where another rank has begun to save
        meanwhile.
        """
        reporter = self.reporter
        folder = reporter.store.begin(step)
        try:
            yield folder
            values = reporter.cleaned(metrics or {})
            final, manifest = reporter.store.commit(folder, step=step, epoch=epoch, metrics=values)
        except Exception as error:
            is_refused = isinstance(error, OSError) and error.errno != errno.ENOENT
            if is_refused or folder.is_dir():
                raise
            raise RuntimeError(
                f"step {step} is not saved: another process has begun to save a checkpoint in "
                f"{folder.parent} meanwhile. Save on one rank only, below `if run.info.rank == 0:`"
            ) from error
        for callback in reporter.before_checkpoint:
            callback()
        reporter.register_checkpoint(final, manifest)

    def should_stop(self, *, agree: bool = False) -> StopNotice | None:
        """Return a notice when Muster wants this worker to finish its step, save a checkpoint and
        exit 0: its `kind`, `reason` and `seconds_left`. None otherwise.

        agree: ask all ranks together and give all of them the same answer (a small blocking
            all-reduce: every rank must call it). Without it ranks may see the request one step
            apart, and the one that goes on waits for the others until the timeout.
        """
        notice = self.reporter.stop_notice
        if agree and self.info.world_size > 1:
            from muster.measure.agreement import agree_max

            notice = stops.from_vote(agree_max(stops.as_vote(notice)), notice)
        if notice is not None:
            self.reporter.acknowledge_stop()
        return notice

    def request_stop(self, reason: str, *, kind: str = "signal") -> None:
        """Make `should_stop` answer from inside, for example from a signal handler."""
        self.reporter.request_stop(reason, kind=kind)

    def flush(self, timeout_s: float = EXIT_FLUSH_S) -> bool:
        """Wait until the agent has everything reported so far. Return False on a timeout."""
        return self.reporter.flush(timeout_s)

    def close(self, timeout_s: float = EXIT_FLUSH_S) -> bool:
        """Send what is left and disconnect. Called automatically at exit. Whatever is reported later in
        this process connects again."""
        return self.reporter.close(timeout_s)


# ---------------------------------------------------------------- the process's one Run

_run: Run | None = None
_run_lock = threading.Lock()


def init(*, hparams: Mapping[str, Any] | None = None) -> Run:
    """Return the process's Run, created on the first call. After values that were logged without steps,
    a further call begins another run, whose steps count from 0 and whose series are its own.

    hparams: defaults, used where the trial does not set the name; so that a script has sensible
        values when it runs without Muster.
    Raises ValueError when MUSTER_CONFIG_FILE is set but unreadable; nothing else.
    """
    run = process_run(hparams)
    run.reporter.begin_again()
    return run


def process_run(hparams: Mapping[str, Any] | None = None) -> Run:
    """Return the process's Run as `init` does, without beginning another one."""
    global _run
    reporter = current(is_attached=False)
    with _run_lock:
        if _run is None or _run.reporter is not reporter:
            _run = Run(reporter)
        _run._defaults.update(hparams or {})
        return _run
