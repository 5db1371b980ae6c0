"""What a checkpoint of the built-in trainer holds, and how it is written and read.

Two files: `model.pt`, the state_dict alone, to be used elsewhere; `training.pt`, everything else
that is needed to go on exactly where the training was. Both load with weights_only=True.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from muster import checkpoints
from muster.run import Run
from muster.training.config import ConfigError
from muster.training.strategies.base import Strategy
from muster.training.watching import Watch


@dataclass
class TrainState:
    """The moving parts of a training."""

    strategy: Strategy
    """Holds the model and the optimizer, wherever their parts are."""
    scheduler: torch.optim.lr_scheduler.LRScheduler
    watch: Watch
    """What was concluded from the validations so far."""
    step: int = 0
    """Optimizer steps done."""
    global_batch: int = 0
    steps_per_epoch: int = 1
    seed: int = 0

    @property
    def epoch(self) -> float:
        return self.step / self.steps_per_epoch


def save(run: Run, state: TrainState, metrics: Mapping[str, float]) -> None:
    """Write and register a checkpoint. Every rank must call it; rank 0 writes."""
    rng_states = gather_rng(run)
    model = state.strategy.model_state()
    optimizer = state.strategy.optimizer_state()
    own = state.strategy.own_state()
    if run.info.rank != 0:
        return
    training = {
        "optimizer": optimizer,
        "strategy": {"kind": state.strategy.options.kind, "state": own},
        "scheduler": state.scheduler.state_dict(),
        "rng": rng_states,
        "step": state.step,
        "epoch": state.epoch,
        "position": {
            "samples_in_epoch": state.step % state.steps_per_epoch * state.global_batch,
            "global_batch": state.global_batch,
        },
        "watch": state.watch.state(),
        "world_size": run.info.world_size,
    }
    with run.checkpoint(step=state.step, epoch=state.epoch, metrics=metrics) as folder:
        torch.save(model, folder / "model.pt")
        torch.save(training, folder / "training.pt")


def restore(run: Run, state: TrainState) -> bool:
    """Continue from run.resume_from. False when there is nothing to continue from.

    A damaged checkpoint is passed over for the newest intact one before it, and the trial's events
    say so. Raises ConfigError when there is none, or when the global batch is another one: the
    same step number would then mean another place in the data.
    """
    if run.resume_from is None:
        return False
    found = checkpoints.newest_intact(run.resume_from)
    if found is None:
        raise ConfigError(f"no intact checkpoint at or before {run.resume_from}")
    folder, _, problems = found
    for problem in problems:
        run.message(f"checkpoint passed over: {problem}", "warning")
    model = _load(folder / "model.pt")
    training = _load(folder / "training.pt")
    if training["position"]["global_batch"] != state.global_batch:
        raise ConfigError(
            f"the checkpoint was made with a global batch of {training['position']['global_batch']}, "
            f"this training has {state.global_batch}"
        )
    state.strategy.load_model_state(model)
    state.strategy.load_optimizer_state(training["optimizer"])
    if training["strategy"]["kind"] == state.strategy.options.kind:
        state.strategy.load_own_state(training["strategy"]["state"])
    state.scheduler.load_state_dict(training["scheduler"])
    state.watch.load(training["watch"])
    state.step = int(training["step"])
    if len(training["rng"]) == run.info.world_size:
        torch.set_rng_state(training["rng"][run.info.rank])
    else:
        # Another number of workers: nobody's generator fits, and starting them anew would draw the
        # masks of the beginning again.
        seed_rank(state.seed, state.strategy.data_rank, step=state.step)
    return True


def seed_rank(seed: int, rank: int, *, step: int = 0) -> None:
    """Seed this rank's generator: ranks draw different dropout masks, and others at each step from
    which a training is continued with another number of workers."""
    torch.manual_seed((seed * 1_000_003 + rank + step * 7_368_787) % 2**63)


def take_weights(run: Run, state: TrainState) -> bool:
    """Begin with the model of run.weights_from, everything else fresh. False when there is none.

    Raises ConfigError when that checkpoint is damaged, is not one of this trainer, or is of a
    model of another shape.
    """
    if run.weights_from is None:
        return False
    try:
        checkpoints.verify_checkpoint(run.weights_from)
        state.strategy.load_model_state(_load(run.weights_from / "model.pt"))
    except checkpoints.CheckpointDamaged as error:
        raise ConfigError(f"the checkpoint to start from is damaged: {error}") from error
    except FileNotFoundError:
        raise ConfigError(
            f"{run.weights_from} holds no model.pt: another program made it"
        ) from None
    except RuntimeError as error:
        raise ConfigError(
            f"the checkpoint to start from is of another model: {str(error)[:500]}"
        ) from error
    return True


def load_best(run: Run, state: TrainState) -> bool:
    """Put the model of the best checkpoint in place of the last one. Every rank must call it. False
    when one of them cannot read it: it was deleted, or lies on another node."""
    from muster.comm import agree_max

    folder = run.checkpoint_dir / checkpoints.folder_name(state.watch.best_step)
    try:
        checkpoints.verify_checkpoint(folder)
        model = _load(folder / "model.pt")
    except (checkpoints.CheckpointDamaged, OSError):
        model = None
    if agree_max(model is None):
        return False
    state.strategy.load_model_state(model)
    return True


def gather_rng(run: Run) -> list[torch.Tensor]:
    """Every rank's CPU generator state, on every rank."""
    mine = torch.get_rng_state()
    if run.info.world_size == 1:
        return [mine]
    import torch.distributed as dist

    from muster.comm import control_group

    states = [torch.empty_like(mine) for _ in range(run.info.world_size)]
    dist.all_gather(states, mine, group=control_group())
    return states


def _load(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)
