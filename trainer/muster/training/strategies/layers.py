"""The layers of a model, which strategies treat one by one."""

from __future__ import annotations

import functools
import os
import shutil

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from muster.document.train_config import ConfigError


def layers(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of a model that has `blocks`; of a plain sequence, its members with
    parameters; else nothing."""
    members: object = getattr(model, "blocks", model)
    if isinstance(members, nn.ModuleDict):  # those of a pipeline's stage
        members = list(members.values())
    if not isinstance(members, nn.ModuleList | nn.Sequential | list):
        return []
    return [m for m in members if any(True for _ in m.parameters())]


COMPILER = "inductor"
"""What torch.compile turns a block into."""


def compile_layers(model: nn.Module, device: torch.device) -> None:
    """Compile each layer when it is first called; the whole model where it has none. Names of
    parameters stay, so that checkpoints are the same.

    Blocks alike share what was compiled for the first of them, which compiling the whole model
    would not; and what fully sharded training does between them stays outside.
    Raises ConfigError where the processor's code cannot be compiled.
    """
    if device.type == "cpu" and not _cpp_compiler():
        raise ConfigError(
            "strategy.compile: there is no C++ compiler on this node: install g++, or set CXX"
        )
    for layer in layers(model) or [model]:
        layer.compile(backend=COMPILER)


def _cpp_compiler() -> str | None:
    return shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++")


def recompute(model: nn.Module) -> None:
    """Keep only the input of each layer for backward, which computes the layer again, with the
    same random numbers. Names of parameters stay."""
    for layer in layers(model):
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
