"""The layers of a model: measured on a node without values, sent to the server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from .code import CodeSpec


@dataclass(frozen=True, kw_only=True)
class LayerParameter:
    """A tensor that a model owns. One that several layers share belongs to the first of them."""

    shape: list[int]
    bytes_per_value: int
    trainable: bool = True
    split: bool = False
    """Whether tensor parallelism divides it."""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.numel * self.bytes_per_value


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes between a layer's forward and its backward, parameters and buffers left out."""

    per_sample: float
    """Bytes kept for the backward, of each sample."""
    split_per_sample: float
    """Part of `per_sample` that tensor parallelism divides."""
    once: float
    """Bytes kept whatever the number of samples: copies of parameters in 16 bits."""
    work_per_sample: float
    """Bytes that the largest operation of its backward needs for a moment, of each sample."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A part of a model that strategies treat as one."""

    name: str
    is_block: bool
    """Whether it is sharded on its own, recomputed on its own, and can be a stage of a pipeline."""
    parameters: list[LayerParameter]
    buffer_bytes: float
    """Bytes of tensors that are not parameters, such as running statistics."""
    input_bytes: float
    """Bytes of each input sample in fp32 training; 0 if unknown."""
    flops: float
    """Floating-point operations of a forward, of each sample: matrix products and convolutions."""
    activations: dict[str, Activations]
    """Activations by compute type: fp32, or bf16, which stands for all types of 16 bits."""

    @property
    def num_params(self) -> int:
        return sum(p.numel for p in self.parameters)

    @property
    def param_bytes(self) -> int:
        return sum(p.num_bytes for p in self.parameters)

    @property
    def trained_bytes(self) -> int:
        """Bytes of the parameters that are trained, which is what their gradients have."""
        return sum(p.num_bytes for p in self.parameters if p.trainable)


@dataclass(frozen=True, kw_only=True)
class LayerTable:
    """A model for one shape of samples."""

    layers: list[Layer]
    """Layers in the order of the forward; what comes before, between and after blocks is a layer,
    too."""
    sample_bytes: float
    """Bytes of one sample with its target."""
    output_bytes: float
    """Bytes of one sample's output as fp32."""

    @property
    def blocks(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.is_block]

    @property
    def parameters(self) -> list[LayerParameter]:
        return [p for layer in self.layers for p in layer.parameters]

    @property
    def num_params(self) -> int:
        return sum(layer.num_params for layer in self.layers)

    @property
    def param_bytes(self) -> int:
        return sum(layer.param_bytes for layer in self.layers)

    @property
    def trained_bytes(self) -> int:
        return sum(layer.trained_bytes for layer in self.layers)

    @property
    def flops(self) -> float:
        """Operations of a forward of one sample."""
        return sum(layer.flops for layer in self.layers)


DESCRIBES = "layer_tables"
"""Entry of `Inventory.chores`: the agent carries out `Description`."""
DESCRIPTION_TIMEOUT_S = 60.0
"""Seconds that a node tries to describe a model."""
MAX_TABLE_BYTES = 2**19


@dataclass(frozen=True, kw_only=True)
class Description:
    """A model whose layers a node should list, in a short-lived process that holds no slot.
    Requested from one node until it reports the result; repeating it is harmless."""

    id: int
    settings: dict[str, Any]
    """Trainer settings that the model follows from: fields of
    `document.train_config.TrainConfig`."""
    code: CodeSpec
    python: str | None
    """Path of the interpreter; None means the agent's default one."""
    environment: dict[str, str]
    """Environment variables of the document."""


@dataclass(frozen=True, kw_only=True)
class DescriptionResult:
    id: int
    outcome: Literal["done", "refused", "failed"]
    """Result of the description. `refused`: no node can describe the model. `failed`: this node
    could not."""
    table: LayerTable | None = None
    message: str = ""
    """Reason why there is no table: a clause."""


@dataclass(frozen=True, kw_only=True)
class DescriptionRequest:
    """`POST /agent/v1/descriptions`."""

    node_id: str
    session_epoch: int
    result: DescriptionResult


@dataclass(frozen=True, kw_only=True)
class DescriptionReply:
    taken: bool
    """Whether the report was accepted; False if it is not wanted any more."""
