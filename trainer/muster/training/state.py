"""What a checkpoint of the built-in trainer holds, and how a training goes on from it.

Tensors, each worker's parts in a file of its own: the model, the optimizer's state, what the strategy
has beside them, and the workers' random generators. And `training.pt`, everything else that is needed
to go on exactly where the training was; it loads with weights_only=True.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from muster import wire
from muster.document.strategy import StrategySection
from muster.document.strategy_rules import STAGES_PER_WORKER, axes
from muster.document.train_config import ConfigError
from muster.measure import agreement
from muster.sdk import checkpoints, object_store, shards
from muster.sdk.local_store import LocalStore
from muster.sdk.run import Run
from muster.sdk.stops import StopNotice
from muster.training.saving import on_nodes
from muster.training.saving.files import Saved
from muster.training.saving.saver import Saver
from muster.training.strategies import parts
from muster.training.strategies.base import OWN, Strategy
from muster.training.watching import EarlyStoppingWatch

RNG = "rng/"


@dataclass
class TrainState:
    """The moving parts of a training."""

    strategy: Strategy
    """Holds the model and the optimizer, wherever their parts are."""
    scheduler: torch.optim.lr_scheduler.LambdaLR
    watch: EarlyStoppingWatch
    """What was concluded from the validations so far."""
    step: int = 0
    """Optimizer steps done."""
    num_skipped: int = 0
    """Steps' worth of samples that were skipped: step n uses those of step n + num_skipped."""
    global_batch: int = 0
    steps_per_epoch: int = 1
    seed: int = 0
    settings: list[dict[str, Any]] = field(default_factory=list)
    """Settings of the optimizer's parameter groups, as requested."""
    trained_s: float = 0.0
    """Seconds of training before the checkpoint that it resumed from."""
    began_at: float = field(default_factory=time.monotonic)
    """When the first step began, moved later by the time spent waiting at rungs."""

    @property
    def epoch(self) -> float:
        return self.step / self.steps_per_epoch

    def place(self, step: int) -> tuple[int, int]:
        """Return the epoch of the data and the position in it after `step`, in samples."""
        epoch, num = divmod(step + self.num_skipped, self.steps_per_epoch)
        return epoch, num * self.global_batch

    @property
    def seconds(self) -> float:
        """Seconds of training, including attempts before a checkpoint but not start-up and waiting
        at rungs."""
        return self.trained_s + time.monotonic() - self.began_at

    def trained(self, unit: str) -> float:
        """Return how far training has come, in steps, epochs, samples or seconds.

        For seconds every rank must call it, and the slowest rank's count for all.
        """
        if unit == "seconds":
            return agreement.agree_max(int(self.seconds * 1000)) / 1000
        known = {"steps": self.step, "epochs": self.epoch, "samples": self.step * self.global_batch}
        return known[unit]


def save(
    saver: Saver,
    run: Run,
    state: TrainState,
    metrics: Mapping[str, float],
    *,
    stop: StopNotice | None = None,
) -> None:
    """Save a checkpoint. Every rank must call it, after it has sent the metrics of all steps."""
    strategy = state.strategy
    tensors = {parts.MODEL + n: t for n, t in strategy.model_part().items()}
    tensors |= {parts.OPTIMIZER + n: t for n, t in strategy.optimizer_part().items()}
    tensors |= {OWN + n: t for n, t in strategy.own_part().items()}
    tensors[f"{RNG}{run.info.rank}"] = torch.get_rng_state()
    others = {
        "groups": parts.groups_of(strategy.optimizer),
        "settings": state.settings,
        "strategy": {"kind": strategy.options.kind, "state": strategy.own_state()},
        "scheduler": state.scheduler.state_dict(),
        "step": state.step,
        "epoch": state.epoch,
        "position": {
            "samples_in_epoch": state.place(state.step)[1],
            "global_batch": state.global_batch,
            "num_skipped": state.num_skipped,
        },
        "watch": state.watch.state(),
        "trained_s": state.seconds,
        "world_size": run.info.world_size,
    }
    saver.save(state.step, state.epoch, tensors, others, metrics=metrics, stop=stop)


def to_continue(run: Run) -> Saved | None:
    """Return the checkpoint to continue from; None when there is nothing to continue. Every rank
    must call it.

    A damaged one is passed over for the newest intact one before it, and the trial's events say so.
    Raises ConfigError when there is none.
    """
    wanted, store = run.reporter.resumes_at, run.reporter.store
    if isinstance(store, LocalStore) and store.spans_nodes:
        found = on_nodes.newest(run, store)
        stored = max(0, checkpoints.step_of(wanted.rpartition("/")[2]))
        step = stored if found is None else checkpoints.read_manifest(found).step
        if run.info.rank == 0 and run.resume_step not in (step, stored):
            text = f"that of step {run.resume_step:,} is not whole on the disks of the nodes"
            _tell_passed_over(run, text, resume_step=step)
        if found is not None:
            return _open(found)
    return _open(_agreed_intact(run, wanted)) if wanted else None


def global_batch_of(saved: Saved | None) -> int | None:
    """Return the global batch that a checkpoint was made with."""
    return int(saved.training()["position"]["global_batch"]) if saved is not None else None


def with_kept_cut(options: StrategySection, saved: Saved | None, *, slots: int) -> StrategySection:
    """Return the options with the pipeline's cut that a checkpoint was made with, unless the
    document has one, or there are as many stages no more: measured anew it might be another one."""
    if saved is None or options.blocks_per_stage:
        return options
    cut = tuple(saved.training()["strategy"]["state"].get("blocks_per_stage", ()))
    stages = axes(options, slots)["pp"] * STAGES_PER_WORKER[options.schedule]
    return dataclasses.replace(options, blocks_per_stage=cut) if len(cut) == stages else options


def restore(run: Run, saved: Saved, state: TrainState) -> None:
    """Continue from a checkpoint. Every rank must call it.

    Raises ConfigError when the global batch is another one: the same step number would then mean
    another place in the data.
    """
    training = saved.training()
    if training["position"]["global_batch"] != state.global_batch:
        raise ConfigError(
            f"the checkpoint was made with a global batch of {training['position']['global_batch']}, "
            f"this training has {state.global_batch}"
        )
    _load_model(state, saved, "continue from")
    state.strategy.load_optimizer(saved, training["groups"])
    if training["strategy"]["kind"] == state.strategy.options.kind:
        state.strategy.load_own(training["strategy"]["state"], saved)
    state.scheduler.load_state_dict(training["scheduler"])
    _keep_settings(state, training.get("settings"))
    state.watch.load(training["watch"])
    state.step = int(training["step"])
    state.num_skipped = int(training["position"].get("num_skipped", 0))
    if state.step == run.resume_step:  # and not another one, because that was damaged
        state.num_skipped += -(-run.reporter.around.skip_samples // state.global_batch)
    state.trained_s = float(training.get("trained_s", 0.0))
    if training["world_size"] == run.info.world_size:
        torch.set_rng_state(saved.read(f"{RNG}{run.info.rank}"))
    else:
        # Another number of workers: nobody's generator fits, and starting them anew would draw the
        # masks of the beginning again.
        seed_rank(state.seed, state.strategy.data_rank, step=state.step)


def _keep_settings(state: TrainState, before: list[dict[str, Any]] | None) -> None:
    """Train on with the settings that are asked for now, not with those of the checkpoint.

    They differ when it is that of the trial this one is a fork or a clone of, with another learning
    rate or weight decay, and when the training is longer now. before: the settings asked for when it
    was made; None: it is of a version that did not store them.
    """
    groups, asked = state.strategy.optimizer.param_groups, state.settings
    for group, own, old in zip(groups, asked, before or asked, strict=True):
        # What an optimizer counts in its groups is no setting, and stays.
        group.update({k: v for k, v in own.items() if k not in old or old[k] != v})
    scheduler = state.scheduler
    scheduler.base_lrs = [own["initial_lr"] for own in asked]
    for group, base, factor in zip(groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
        group["initial_lr"], group["lr"] = base, base * factor(scheduler.last_epoch)
    scheduler._last_lr = [group["lr"] for group in groups]


def _agreed_intact(run: Run, wanted: str) -> Path:
    """Return the newest checkpoint, `wanted` or one before it, that is intact on every node. One
    worker of each node reads it all, and fetches it first from an object store. Raises ConfigError
    when there is none."""
    last = wanted
    while True:
        step = -1
        problems: list[str] = []
        if run.info.local_rank == 0:
            found = _newest_intact(run, last)
            if found is not None:
                _, manifest, problems = found
                step = manifest.step
        # The smallest of those who looked; -1 is someone's who found none.
        looked = run.info.local_rank == 0
        agreed = -agreement.agree_max(-step if looked else -(2**31 - 1))
        for problem in problems:
            _tell_passed_over(run, problem)
        if agreed < 0:
            raise ConfigError(f"no intact checkpoint at or before {wanted}")
        name = checkpoints.folder_name(agreed)
        last = f"{wanted.rstrip('/').rpartition('/')[0]}/{name}"
        if not agreement.agree_any(looked and step != agreed):
            return object_store.fetched(last, run.checkpoint_dir)


def _tell_passed_over(run: Run, problem: str, *, resume_step: int | None = None) -> None:
    run.reporter.answer(
        wire.MessageRecord(
            level="warning",
            text=f"checkpoint passed over: {problem}"[:2000],
            event=wire.CHECKPOINT_DAMAGED,
            resume_step=resume_step,
        )
    )


def _newest_intact(run: Run, wanted: str) -> tuple[Path, checkpoints.Manifest, list[str]] | None:
    if object_store.is_url(wanted):
        return object_store.newest_intact(wanted, run.checkpoint_dir)
    return checkpoints.newest_intact(Path(wanted))


def _verified(run: Run, place: str) -> Path:
    """Return a checkpoint on this node's disk. One worker of each node fetches and reads it all.
    Every rank must call it. Raises CheckpointDamaged, on all of them."""
    problem: Exception | None = None
    if run.info.local_rank == 0:
        try:
            if object_store.is_url(place):
                object_store.fetch(place, run.checkpoint_dir)
            else:
                checkpoints.verify_checkpoint(place)
        except (checkpoints.CheckpointDamaged, OSError) as error:
            problem = error
    if agreement.agree_any(problem is not None):
        raise checkpoints.CheckpointDamaged(str(problem or f"{place}: another worker says so"))
    return object_store.fetched(place, run.checkpoint_dir)


def _open(folder: Path) -> Saved:
    """Raises ConfigError when another program made it."""
    try:
        return Saved(folder)
    except FileNotFoundError:
        raise ConfigError(f"{folder} holds no {shards.INDEX}: another program made it") from None


def _load_model(state: TrainState, saved: Saved, purpose: str) -> None:
    try:
        state.strategy.load_model(saved)
    except RuntimeError as error:
        raise ConfigError(
            f"the checkpoint to {purpose} is of another model: {str(error)[:500]}"
        ) from error


def seed_rank(seed: int, rank: int, *, step: int = 0) -> None:
    """Seed this rank's generator: ranks draw different dropout masks, and others at each step from
    which a training is continued with another number of workers."""
    torch.manual_seed((seed * 1_000_003 + rank + step * 7_368_787) % 2**63)


def take_weights(run: Run, state: TrainState) -> bool:
    """Begin with the model of run.reporter.weights_at, everything else fresh. False when there is none.

    Raises ConfigError when that checkpoint is damaged, is not one of this trainer, or is of a
    model of another shape.
    """
    if not run.reporter.weights_at:
        return False
    try:
        saved = _open(_verified(run, run.reporter.weights_at))
    except checkpoints.CheckpointDamaged as error:
        raise ConfigError(f"the checkpoint to start from is damaged: {error}") from error
    _load_model(state, saved, "start from")
    return True


def load_best(run: Run, state: TrainState) -> bool:
    """Put the model of the best checkpoint in place of the last one. Every rank must call it. False
    when one of them cannot read it: it was deleted, or lies on another node."""
    store, best, saved = run.reporter.store, state.watch.best_step, None
    place = store.place_of(checkpoints.folder_name(best))
    if isinstance(store, LocalStore) and store.spans_nodes:
        place = str(on_nodes.newest(run, store, step=best) or place)
    with contextlib.suppress(checkpoints.CheckpointDamaged, OSError):
        saved = Saved(_verified(run, place))
    if agreement.agree_any(saved is None):
        return False
    assert saved is not None
    state.strategy.load_model(saved)
    return True
