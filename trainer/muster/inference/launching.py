"""The start of a built-in program: what it is to do with which version of a model."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import muster
from muster.document.codec import load
from muster.document.experiment import ExperimentConfig
from muster.document.inference import JOB_MODEL, UsedModel
from muster.document.train_config import ConfigError
from muster.launch.variables import MODEL_PREFIX
from muster.sdk.run import Run

from .loading import CannotLoad

EXIT_BAD_DOCUMENT = 2


@dataclass(frozen=True, kw_only=True)
class ModelJob:
    """What a program was started with."""

    run: Run
    section: Any
    """Section of the document, such as EvaluateSection."""
    used: UsedModel
    folder: Path
    """Folder with the files of the version."""
    config: ExperimentConfig


def run_program(kind: str, work: Callable[[ModelJob], None]) -> int:
    """Do the work of the section `kind` of the document; return the exit code of the process.

    EXIT_BAD_DOCUMENT stands for what another attempt would not cure: a model that cannot be loaded,
    or data that do not fit it. `work` raises ConfigError or CannotLoad for it.
    """
    run = muster.init()
    # Before torch is imported, which takes seconds: an early stop must not look like a crash.
    signal.signal(signal.SIGTERM, lambda *_: run.request_stop("received SIGTERM"))
    try:
        work(_job(run, kind))
    except (ConfigError, CannotLoad) as error:
        run.message(str(error), "error")
        print(f"muster: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_DOCUMENT
    return 0


def _job(run: Run, kind: str) -> ModelJob:
    config = load(ExperimentConfig, {"name": "", **run.get_config()})
    section = getattr(config, kind)
    used = config.models.get(JOB_MODEL)
    folder = os.environ.get(f"{MODEL_PREFIX}{JOB_MODEL.upper()}")
    if section is None or not isinstance(used, UsedModel) or folder is None:
        raise ConfigError(f"{kind}: this program is started by Muster, with a version of a model")
    return ModelJob(run=run, section=section, used=used, folder=Path(folder), config=config)
