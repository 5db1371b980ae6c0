"""Whether an export answers as the checkpoint does: the same inputs go through both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from muster.inference.loading import LoadedModel
from muster.training import data

ROWS = 256
"""Samples that an export is compared on, where the data set has so many."""
BATCH = 64
"""Samples that go through the two models at once."""
_SEED = 0

Predict = Callable[[Tensor], Tensor]
"""Answers of a model, one row per sample."""


class ExportFailed(Exception):
    """An export that could not be made, or does not answer as the checkpoint does."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Each number may differ by `atol` + `rtol` × its size in the checkpoint's answer."""

    atol: float
    rtol: float


@dataclass(frozen=True, kw_only=True)
class RecordedInputs:
    """Samples that exports are compared on."""

    x: Tensor
    """[n, …] float32, or int64 for tokens."""
    source: str
    """Where they come from, such as "256 validation samples of digits"."""
    has_any_length: bool
    """Whether a model takes shorter samples, too: texts."""

    @property
    def sha256(self) -> str:
        """Digest of their type, shape and numbers."""
        digest = hashlib.sha256(f"{self.x.dtype} {list(self.x.shape)} ".encode())
        digest.update(self.x.numpy().tobytes())
        return digest.hexdigest()

    def pieces(self) -> Iterator[Tensor]:
        """Yield batches of different sizes, and of different lengths where there are: what was fixed
        by mistake shows."""
        yield self.x[:1]
        if self.has_any_length and self.x.shape[1] > 1:
            yield self.x[:3, : self.x.shape[1] // 2]
        for at in range(1, len(self.x), BATCH):
            yield self.x[at : at + BATCH]

    def facts(self) -> dict[str, Any]:
        return {"source": self.source, "rows": len(self.x), "sha256": self.sha256}


def recorded_inputs(model: LoadedModel) -> RecordedInputs:
    """Return the first validation samples of the data set that a model was trained with, and training
    samples if those are too few; random ones, always the same, where the data are not there."""
    name = model.config.data
    has_any_length = model.config.trainer["model"] == "gpt"
    try:
        found = data.load(model.config.train_config())
    except (Exception, SystemExit) as error:  # the user's own function may raise anything
        lines = str(error).strip().splitlines() or [type(error).__name__]
        source = f"{ROWS} random samples, because {name} cannot be loaded here ({lines[0][:200]})"
        return RecordedInputs(x=_random(model), source=source, has_any_length=has_any_length)
    x = found.val_x[:ROWS]
    source = f"{len(x)} validation samples of {name}"
    if len(x) < ROWS:
        more = found.train_x[: ROWS - len(x)]
        source = f"{len(x)} validation and {len(more)} training samples of {name}"
        x = torch.cat([x, more])
    x = (x.float() if x.is_floating_point() else x.long()).contiguous()
    return RecordedInputs(x=x, source=source, has_any_length=has_any_length)


def _random(model: LoadedModel) -> Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    if model.config.dtype == "int64":
        return torch.randint(0, model.classes, (ROWS, *model.inputs), generator=generator)
    return torch.randn((ROWS, *model.inputs), generator=generator)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How far the answers of an export are from those of the checkpoint."""

    max_abs: float
    """Largest difference of two numbers; infinite where only one of them is finite."""
    max_rel: float
    """`max_abs`, as a share of the largest number that the checkpoint answers."""
    agreement: float
    """Share of answers whose largest number is at the same place, 0 to 1."""
    verdict: Literal["equal", "within", "beyond"]
    """Whether all numbers are equal, within the tolerance, or some are beyond it."""


def compare(
    reference: Predict, candidate: Predict, inputs: RecordedInputs, tolerance: Tolerance
) -> Comparison:
    """Compare the answers to all inputs. Raises ExportFailed if they have different shapes."""
    max_abs, largest, is_within = 0.0, 0.0, True
    num_equal = num_answers = 0
    with torch.no_grad():
        for x in inputs.pieces():
            expected, found = _answer(reference, x), _answer(candidate, x)
            if found.shape != expected.shape:
                raise ExportFailed(
                    f"it answers {list(found.shape)} to inputs {list(x.shape)}, and the checkpoint "
                    f"{list(expected.shape)}"
                )
            is_same = (found == expected) | (found.isnan() & expected.isnan())
            gaps = torch.where(is_same, 0.0, (found - expected).abs()).nan_to_num(nan=torch.inf)
            max_abs = max(max_abs, gaps.max().item())
            sizes = expected.abs().nan_to_num(nan=0.0, posinf=0.0)
            largest = max(largest, sizes.max().item())
            is_within &= bool((gaps <= tolerance.atol + tolerance.rtol * sizes).all())
            equal = found.argmax(-1) == expected.argmax(-1)
            num_equal, num_answers = num_equal + int(equal.sum()), num_answers + equal.numel()
    return Comparison(
        max_abs=max_abs,
        max_rel=max_abs / largest if largest else max_abs,
        agreement=num_equal / num_answers,
        verdict="equal" if max_abs == 0 else "within" if is_within else "beyond",
    )


def _answer(predict: Predict, x: Tensor) -> Tensor:
    found = predict(x)
    if not isinstance(found, Tensor):
        raise ExportFailed(
            f"only models that answer with one tensor can be compared, and this one answers with "
            f"{type(found).__name__}"
        )
    return found.double()
