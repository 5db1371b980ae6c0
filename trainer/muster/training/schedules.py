"""The learning rate over a training. Pure, no torch."""

from __future__ import annotations

import dataclasses
import math

from muster.document.train_config import TrainConfig


def settled(config: TrainConfig, *, global_batch: int, steps_per_epoch: int) -> TrainConfig:
    """Return the settings with the learning rate for this global batch, and the warm-up in
    steps."""
    return dataclasses.replace(
        config,
        lr=scaled_lr(config, global_batch),
        warmup_steps=warmup_steps(config, steps_per_epoch),
        lr_scaling="none",
        warmup_epochs=None,
    )


def scaled_lr(config: TrainConfig, global_batch: int) -> float:
    """Return the learning rate for a global batch, where `config.lr` is right for one of
    `config.reference_batch` samples (without it: for the batch of a single slot).

    linear: × global_batch / reference (Goyal et al. 2017, arXiv:1706.02677, section 2.1), the rule
    for SGD. sqrt: × its square root, which keeps the variance of the update the same
    (Krizhevsky 2014, arXiv:1404.5997, section 5; You et al. 2020, arXiv:1904.00962, for LAMB).
    """
    reference = config.reference_batch or config.batch_size
    ratio = global_batch / reference
    return config.lr * {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[config.lr_scaling]


def warmup_steps(config: TrainConfig, steps_per_epoch: int) -> int:
    """Steps of the warm-up, which may be given in epochs; rounded up."""
    if config.warmup_epochs is not None:
        return math.ceil(config.warmup_epochs * steps_per_epoch)
    return config.warmup_steps


def factor(config: TrainConfig, step: int, *, num_steps: int) -> float:
    """Return the factor of the learning rate at `step` (0-based) of `num_steps`: 0..1.

    It rises linearly over the first `warmup_steps` and is 1 at the end of them; afterwards, with
    `done` going from 0 to 1 over the steps that are left:
    constant: 1. linear: falls to `final_lr_ratio`. cosine: falls to it as half a cosine
    (Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5, without restarts).
    step: × `decay_factor` at each of the shares `decay_at` of the whole training, warm-up included.
    """
    warmup = config.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "step":
        passed = sum(step >= share * num_steps for share in config.decay_at)
        return config.decay_factor**passed
    done = min((step - warmup) / max(num_steps - warmup, 1), 1.0)
    falling = 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return config.final_lr_ratio + (1.0 - config.final_lr_ratio) * falling
