"""Muster's training SDK. Importing it needs nothing but the standard library.

    import muster

    muster.init()
    for step, batch in enumerate(loader):
        loss = train_one(batch)
        muster.log({"train/loss": loss}, step=step)

The same script runs unchanged without Muster around: then nothing is sent anywhere. Whatever goes
wrong with reporting, these functions never raise into a training step and never wait for a network.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client import AsyncClient, Client, ClientError
    from muster.estimator import Estimator, Tuner
    from muster.measure.comm import backend, timed_hook
    from muster.measure.timing import StepTimer
    from muster.sdk.checkpoints import CheckpointDamaged, verify_checkpoint
    from muster.sdk.env import RankInfo, rank_info
    from muster.sdk.hyperparameters import InvalidHyperparameters
    from muster.sdk.run import Run, init
    from muster.sdk.sampler import sampler
    from muster.sdk.shortcuts import (
        checkpoint,
        config,
        get_config,
        get_hparams,
        hparams,
        log,
        log_audio,
        log_confusion_matrix,
        log_figure,
        log_histogram,
        log_image,
        log_pr_curve,
        log_table,
        log_text,
        log_video,
        message,
        report_evaluation,
        report_group,
        resume_folder,
        resume_from,
        should_stop,
        weights_folder,
        weights_from,
    )
    from muster.sdk.stops import StopNotice

__version__ = "0.2.0"

__all__ = [
    "AsyncClient",
    "CheckpointDamaged",
    "Client",
    "ClientError",
    "Estimator",
    "InvalidHyperparameters",
    "RankInfo",
    "Run",
    "StepTimer",
    "StopNotice",
    "Tuner",
    "__version__",
    "backend",
    "checkpoint",
    "config",
    "get_config",
    "get_hparams",
    "hparams",
    "init",
    "log",
    "log_audio",
    "log_confusion_matrix",
    "log_figure",
    "log_histogram",
    "log_image",
    "log_pr_curve",
    "log_table",
    "log_text",
    "log_video",
    "message",
    "rank_info",
    "report_evaluation",
    "report_group",
    "resume_folder",
    "resume_from",
    "sampler",
    "should_stop",
    "timed_hook",
    "verify_checkpoint",
    "weights_folder",
    "weights_from",
]

_HOME = {
    "AsyncClient": "muster.client",
    "Client": "muster.client",
    "ClientError": "muster.client",
    "Estimator": "muster.estimator",
    "Tuner": "muster.estimator",
    "CheckpointDamaged": "muster.sdk.checkpoints",
    "verify_checkpoint": "muster.sdk.checkpoints",
    "backend": "muster.measure.comm",
    "timed_hook": "muster.measure.comm",
    "InvalidHyperparameters": "muster.sdk.hyperparameters",
    "RankInfo": "muster.sdk.env",
    "rank_info": "muster.sdk.env",
    "Run": "muster.sdk.run",
    "init": "muster.sdk.run",
    "sampler": "muster.sdk.sampler",
    "StepTimer": "muster.measure.timing",
    "StopNotice": "muster.sdk.stops",
}
"""Where a public name lives; the others are in `muster.sdk.shortcuts`."""


def __getattr__(name: str) -> Any:
    # Loaded on first use: the server and the agent want only `muster.wire`, and a training script
    # should not pay for measuring before it measures.
    if name not in __all__:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "muster.sdk.shortcuts")), name)
    globals()[name] = value
    return value
