"""What a model is worth by the samples of a data set, and how fast it is."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from muster.document.inference import EvaluateSection
from muster.document.train_config import ConfigError
from muster.inference import reporting
from muster.inference.launching import ModelJob
from muster.inference.loading import LoadedModel, load
from muster.inference.scores import (
    ECE_BINS,
    METRICS_VERSION,
    calibration_error,
    class_scores,
    macro_f1,
    percentile,
    wilson_interval,
)
from muster.training import data, own
from muster.training.data import Dataset
from muster.training.data.given import own_data
from muster.training.tasks.base import Classification

LATENCY_CALLS = 200
"""Calls at batch 1 whose times are taken, after WARM_UP_CALLS."""
WARM_UP_CALLS = 10
LATENCY_S = 10.0
"""Longest time in seconds for these calls."""
CONFUSED_SHOWN = 32
"""Classes up to which the confusion matrix is part of the result; the trial shows larger ones."""
DIGEST_ROWS = 1024
"""Rows that are hashed at once."""


def judge(job: ModelJob) -> None:
    """Report what the version of a job is worth. Raises ConfigError for data that do not fit it, and
    CannotLoad."""
    section: EvaluateSection = job.section
    device = _device()
    loaded = load(job.folder, device=device)
    dataset = _dataset(section, loaded)
    x, y = dataset.split(section.split)
    judged = _judged(section, loaded, dataset, device, x, y, stop=job.run.should_stop)
    if judged is None:
        return  # Asked to stop: half of the samples say nothing.
    metrics, classes, confusion, seconds = judged
    scores = [dataclasses.asdict(score) for score in class_scores(classes, confusion)]
    job.run.report_evaluation(
        section.split, step=0, metrics=metrics, classes=classes, confusion=confusion
    )
    reporting.result(
        {
            "data": section.data,
            "split": section.split,
            "data_digest": data_digest(x, y),
            "metrics_version": METRICS_VERSION,
            "num_samples": len(x),
            "metrics": metrics,
            "classes": scores if len(scores) <= CONFUSED_SHOWN else [],
            "confusion": confusion if len(scores) <= CONFUSED_SHOWN else [],
            "speed": {
                **_latency(loaded, x, device),
                "rows_per_s": len(x) / seconds,
                "batch_size": section.batch_size,
            },
            "peak_memory_bytes": _peak_memory(device),
            "num_parameters": loaded.num_parameters,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "slots": 1,
            "torch_version": torch.__version__,
        }
    )


def _device() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


# ---------------------------------------------------------------- data


def _dataset(section: EvaluateSection, loaded: LoadedModel) -> Dataset:
    """Return the data set, after checking that the model takes its samples. Raises ConfigError."""
    settings = dataclasses.replace(loaded.config.train_config(), data=section.data)
    if own.is_own(section.data):
        found = own_data(section.data, measured=True)
    else:
        if settings.model == "gpt":  # Texts are cut into windows of what it sees.
            settings = dataclasses.replace(settings, context=loaded.inputs[0])
        found = data.load(settings)
    # Of the user's own data only the data themselves tell the type.
    takes_text = found.is_text if loaded.config.shape is None else loaded.config.dtype == "int64"
    if found.is_text != takes_text or found.inputs != loaded.inputs:
        kinds = {True: "tokens", False: "numbers"}
        raise ConfigError(
            f"evaluate.data: {section.data} has samples of {kinds[found.is_text]} in the shape "
            f"{list(found.inputs)}, and the model takes {kinds[takes_text]} in the shape "
            f"{list(loaded.inputs)}"
        )
    if found.classes > loaded.classes:
        raise ConfigError(
            f"evaluate.data: {section.data} has {found.classes} classes, and the model tells "
            f"{loaded.classes} apart"
        )
    return found


def data_digest(x: Tensor, y: Tensor) -> str:
    """Return "sha256:…" of samples and targets: of their types, shapes and values, in order."""
    digest = hashlib.sha256()
    for tensor in (x, y):
        digest.update(f"{tensor.dtype} {list(tensor.shape)}\n".encode())
        for rows in torch.split(tensor, DIGEST_ROWS):
            digest.update(rows.contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return f"sha256:{digest.hexdigest()}"


# ---------------------------------------------------------------- quality

Judged = tuple[dict[str, float], list[str], list[list[int]], float]
"""Metrics, names of the classes, confusion matrix, and seconds."""


@torch.inference_mode()
def _judged(
    section: EvaluateSection,
    loaded: LoadedModel,
    dataset: Dataset,
    device: torch.device,
    x: Tensor,
    y: Tensor,
    *,
    stop: Callable[[], object],
) -> Judged | None:
    """Return what the model is worth by all samples; None if it was asked to stop meanwhile."""
    is_measured = y.is_floating_point()
    # Names and sizes of the confusion matrix are those of the model, which may know more classes.
    wide = dataclasses.replace(dataset, classes=loaded.classes, names=_names(dataset, loaded))
    task = None if is_measured else Classification(_settings(loaded), wide, global_batch=1)
    sums: list[Tensor] = []
    began = time.perf_counter()
    for part_x, part_y in zip(
        torch.split(x, section.batch_size), torch.split(y, section.batch_size), strict=True
    ):
        if stop():
            return None
        inputs = (part_x.long() if dataset.is_text else part_x).to(device)
        outputs = loaded.module(inputs).float()
        targets = part_y.to(device)
        if task is None:
            sums.append(_errors(outputs, targets))
        else:
            targets = targets.long()
            calibration = torch.empty(0) if dataset.predicts_tokens else _bins(outputs, targets)
            sums.append(torch.cat([calibration.double().cpu(), task.sums(outputs, targets)]))
    seconds = time.perf_counter() - began
    total = torch.stack(sums).sum(0)
    if task is None:
        return _regression(total), [], [], seconds
    num_bins = 0 if dataset.predicts_tokens else 3 * ECE_BINS
    bins, counted = total[:num_bins], total[num_bins:]
    metrics = task.metrics(counted)
    if dataset.predicts_tokens:
        return _language(metrics), [], [], seconds
    names, confusion = task.confusion(counted)
    num = len(x)
    low, high = wilson_interval(round(metrics["accuracy"] * num), num)
    found = {
        "accuracy": metrics["accuracy"],
        "accuracy_low": low,
        "accuracy_high": high,
        "log_loss": metrics["loss"],
        "ece": calibration_error(*bins.view(3, ECE_BINS).tolist()),
    }
    f1 = macro_f1(class_scores(names, confusion))
    if f1 is not None:
        found["macro_f1"] = f1
    return found, names, confusion, seconds


def _settings(loaded: LoadedModel) -> Any:
    return loaded.config.train_config()


def _names(dataset: Dataset, loaded: LoadedModel) -> tuple[str, ...]:
    names = [*dataset.names, *(str(n) for n in range(len(dataset.names), loaded.classes))]
    return tuple(names) if dataset.names else ()


def _bins(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return samples, right predictions and sum of confidences of each bin of confidence: float64
    [3 × ECE_BINS]. outputs [n, classes], targets [n]."""
    confidence, predicted = F.softmax(outputs.double(), dim=-1).max(-1)
    bins = (confidence * ECE_BINS).long().clamp(max=ECE_BINS - 1)
    found = torch.zeros(3, ECE_BINS, dtype=torch.float64, device=outputs.device)
    found[0].index_add_(0, bins, torch.ones_like(confidence))
    found[1].index_add_(0, bins, (predicted == targets).double())
    found[2].index_add_(0, bins, confidence)
    return found.flatten()


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the sums that judge measurements: float64 [5]. Raises ConfigError for other shapes."""
    if outputs.numel() != targets.numel():
        raise ConfigError(
            f"evaluate.data: the targets of a batch have the shape {list(targets.shape)}, and the "
            f"model returns {list(outputs.shape)}"
        )
    wanted = targets.double().flatten()
    error = outputs.double().flatten() - wanted
    found = [error.square().sum(), error.abs().sum(), wanted.sum(), wanted.square().sum()]
    return torch.tensor([len(wanted), *map(float, found)], dtype=torch.float64)


def _regression(sums: Tensor) -> dict[str, float]:
    num, squared, absolute, total, total_squared = sums.tolist()
    spread = total_squared - total * total / num
    found = {"rmse": math.sqrt(squared / num), "mae": absolute / num}
    return {**found, "r2": 1 - squared / spread} if spread > 0 else found


def _language(metrics: dict[str, float]) -> dict[str, float]:
    loss = metrics["loss"]
    try:
        perplexity = math.exp(loss)
    except OverflowError:
        perplexity = math.inf
    return {**metrics, "perplexity": perplexity, "bits_per_byte": loss / math.log(2)}


# ---------------------------------------------------------------- speed and size


@torch.inference_mode()
def _latency(loaded: LoadedModel, x: Tensor, device: torch.device) -> dict[str, float]:
    """Return percentiles of the time of a call with one sample, in milliseconds; data on the device."""
    times: list[float] = []
    until = time.perf_counter() + LATENCY_S
    for n in range(WARM_UP_CALLS + LATENCY_CALLS):
        row = x[n % len(x)][None]
        inputs = (row if row.is_floating_point() else row.long()).to(device)
        _synchronize(device)
        began = time.perf_counter()
        loaded.module(inputs)
        _synchronize(device)
        ended = time.perf_counter()
        if n >= WARM_UP_CALLS or ended > until:
            times.append((ended - began) * 1000)
        if ended > until:
            break
    return {f"latency_p{p}_ms": percentile(times, p) for p in (50, 95, 99)}


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak_memory(device: torch.device) -> int:
    """Return the most memory in bytes that was in use: of the device, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
