"""How many floating-point operations one sample takes in training: what MFU is computed from."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

NUM_SAMPLES = 2
"""About so many are counted together: batch normalisation refuses one."""
BACKWARD = 2
"""Operations of a backward per operation of its forward: gradients of inputs and of weights."""


def flops_per_sample(
    model: nn.Module, sample: Callable[[int], tuple[Tensor, Tensor]]
) -> float | None:
    """Operations of forward and backward of one sample, a multiplication and an addition being two.

    Counted are matrix products and convolutions of one forward (torch's FlopCounterMode) on tensors
    that have shapes and no values, times 3 for forward and backward; what is recomputed is not work
    done (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
    None when the model cannot be run so, for example because it looks at values.
    """
    try:
        without_values = {
            id(t): nn.Parameter(t.to("meta"), requires_grad=False)
            if isinstance(t, nn.Parameter)
            else t.to("meta")
            for t in (*model.parameters(), *model.buffers())
        }
        shapes: nn.Module = copy.deepcopy(model, without_values)
        x, _ = sample(NUM_SAMPLES)
        counter = FlopCounterMode(display=False)
        with torch.no_grad(), counter:
            shapes(x.to("meta"))
    except Exception:
        # Whatever a model of somebody's own does on tensors without values: a metric is missing.
        return None
    total = counter.get_total_flops()
    return (1 + BACKWARD) * total / len(x) if total > 0 else None
