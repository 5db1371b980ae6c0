"""The built-in models layer by layer: parameters, and what a forward keeps for backward. Pure.

Written from trainer/muster/training/models; tests compare every figure with the models themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

VOCABULARY = 256
CLASSES = 10
INPUTS = {"digits": (1, 8, 8), "synthetic": (1, 16, 16)}
"""Shape of a sample of the data that come with the trainer: channels, rows, columns."""
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A part of a model that strategies treat as one."""

    name: str
    tensors: tuple[int, ...]
    """Elements of its parameters, in order."""
    cast: int = 0
    """Elements of parameters that computing with 16 bits copies, and keeps until backward."""
    narrow: float = 0.0
    """Values per sample that are kept as the type that is computed with."""
    wide: float = 0.0
    """Values per sample that are kept as fp32 whatever is computed with."""
    split: float = 0.0
    """Of `narrow`, what tensor parallelism divides."""
    num_bytes: float = 0.0
    """Bytes per sample of other kinds: indices, statistics of norms."""
    matrices: tuple[tuple[int, int], ...] = ()
    """(rows, columns) of parameters with two dimensions or more, the rest flattened."""
    work: float = 0.0
    """Values per sample that its backward needs besides, for a moment."""

    @property
    def num_params(self) -> int:
        return sum(self.tensors)

    def saved_bytes(self, precision: str) -> float:
        """Per sample, between its forward and its backward."""
        return BYTES[precision] * self.narrow + 4 * self.wide + self.num_bytes


@dataclass(frozen=True, kw_only=True)
class Model:
    name: str
    layers: tuple[Layer, ...]
    """In the order of forward."""
    blocks: range
    """Indices of the layers that are blocks: what is sharded one by one, and cut into stages."""
    outputs: float
    """Values per sample of the output, fp32."""
    sample_bytes: float
    """Of one sample with its target."""
    hidden: float = 0.0
    """Values per sample that go from block to block; 0 where there are none to go."""

    @property
    def num_params(self) -> int:
        return sum(layer.num_params for layer in self.layers)

    @property
    def tensors(self) -> list[int]:
        return [t for layer in self.layers for t in layer.tensors]


class Unknown(ValueError):
    """The model or its data are of the user's code: nothing is known before they run."""


def describe(
    model: str, data: str, *, width: int, depth: int, heads: int, context: int, patch: int
) -> Model:
    """A built-in model on built-in data, with the settings of the trainer.

    Raises Unknown for functions of the user's own. Dropout is taken to be 0: with it, masks are
    kept as well.
    """
    if ":" in model or ":" in data:
        own = "model" if ":" in model else "data"
        raise Unknown(f"trainer.{own} is a function of your own, which is known when it runs")
    if model == "gpt":
        return _gpt(width, depth, heads, context)
    inputs = INPUTS[data]
    if model == "mlp":
        return _mlp(inputs, width, depth)
    if model == "vit":
        return _vit(inputs, patch, width, depth, heads)
    if model == "cnn":
        return _cnn(inputs, width, depth)
    if model == "resnet":
        return _resnet(inputs, width, depth)
    raise Unknown(f"trainer.model {model!r} is not described")


def _linear(num_in: int, num_out: int) -> tuple[int, int]:
    return (num_in * num_out, num_out)


def _block(name: str, tokens: int, width: int, heads: int) -> Layer:
    """Of a transformer: norms, four matrices of attention, two of the perceptron."""
    tw = tokens * width
    square, up, down = _linear(width, width), _linear(width, 4 * width), _linear(4 * width, width)
    norm = (width, width)
    return Layer(
        name=name,
        tensors=(*norm, *square * 4, *norm, *up, *down),
        cast=12 * width * width,
        # Inputs of norms as they are; inputs of the matrices; query, key, value; their attention
        # twice; before and after GELU.
        wide=4 * tw,
        narrow=12 * tw,
        split=11 * tw,
        num_bytes=4 * tokens * (4 + heads),
        matrices=((width, width),) * 4 + ((4 * width, width), (width, 4 * width)),
        work=9 * tw,
    )


def _gpt(width: int, depth: int, heads: int, context: int) -> Model:
    tw, outputs = context * width, context * VOCABULARY
    entry = Layer(
        name="entry",
        tensors=(VOCABULARY * width, context * width),
        num_bytes=8 * context,
        matrices=((VOCABULARY, width), (context, width)),
    )
    exit = Layer(
        name="exit",
        tensors=(width, width, VOCABULARY * width),
        cast=VOCABULARY * width,
        wide=tw + outputs,
        narrow=tw,
        num_bytes=4 * 2 * context + 8 * context,
        matrices=((VOCABULARY, width),),
        work=2 * outputs,
    )
    blocks = [_block(f"blocks.{i}", context, width, heads) for i in range(depth)]
    return Model(
        name="gpt",
        layers=(entry, *blocks, exit),
        blocks=range(1, depth + 1),
        outputs=outputs,
        sample_bytes=16 * context,
        hidden=tw,
    )


def _vit(inputs: Sequence[int], patch: int, width: int, depth: int, heads: int) -> Model:
    channels, rows, columns = inputs
    tokens, pixels = (rows // patch) * (columns // patch), channels * rows * columns
    weight = width * channels * patch * patch
    entry = Layer(
        name="entry",
        tensors=(weight, width, tokens * width),
        cast=weight,
        narrow=pixels,
        matrices=((width, channels * patch * patch), (tokens, width)),
    )
    exit = Layer(
        name="exit",
        tensors=(width, width, *_linear(width, CLASSES)),
        cast=width * CLASSES,
        wide=tokens * width + CLASSES,
        narrow=width,
        num_bytes=4 * 2 * tokens + 8,
        matrices=((CLASSES, width),),
        work=tokens * width,
    )
    blocks = [_block(f"blocks.{i}", tokens, width, heads) for i in range(depth)]
    return Model(
        name="vit",
        layers=(entry, *blocks, exit),
        blocks=range(1, depth + 1),
        outputs=CLASSES,
        sample_bytes=4 * pixels + 8,
        hidden=tokens * width,
    )


def _dense(name: str, num_in: int, num_out: int, *, wide: float = 0.0, cast: bool = True) -> Layer:
    return Layer(
        name=name,
        tensors=_linear(num_in, num_out),
        cast=num_in * num_out if cast else 0,
        narrow=num_in,
        wide=wide,
        num_bytes=8 if wide else 0,
        matrices=((num_out, num_in),),
        work=num_in + num_out,
    )


def _mlp(inputs: Sequence[int], width: int, depth: int) -> Model:
    num_in = math.prod(inputs)
    sizes = [num_in, *[width] * depth]
    # The first layer's input needs no gradient, so that its weight is not kept for one.
    layers = [
        _dense(f"{i}", a, b, cast=i > 0) for i, (a, b) in enumerate(itertools.pairwise(sizes))
    ]
    layers.append(_dense("out", width, CLASSES, wide=CLASSES))
    return _sequence("mlp", layers, 4 * num_in + 8)


def _convolution(
    name: str, channels: tuple[int, int], side: int, *, keeps_input: bool, pool: bool = False
) -> Layer:
    """3×3 and ReLU, whose result is kept; with `pool` the input of what comes after it as well."""
    num_in, num_out = channels
    kept = num_out * side * side + (num_in * side * side if keeps_input else 0)
    pooled = num_out * (side // 2) ** 2 if pool else 0
    return Layer(
        name=name,
        tensors=(9 * num_in * num_out, num_out),
        cast=9 * num_in * num_out,
        narrow=kept + pooled,
        num_bytes=8 * pooled,
        matrices=((num_out, 9 * num_in),),
        work=2 * num_out * side * side,
    )


def _cnn(inputs: Sequence[int], width: int, depth: int) -> Model:
    num_in, side = inputs[0], inputs[1]
    layers: list[Layer] = []
    for stage in range(2):
        num_out = width * 2**stage
        for i in range(depth):
            layers.append(
                _convolution(
                    f"{stage}.{i}",
                    (num_in, num_out),
                    side,
                    keeps_input=not layers,
                    pool=i == depth - 1,
                )
            )
            num_in = num_out
        side //= 2
    features = num_in * side * side
    # What the last pooling gives is the input of `hidden`, and is counted there already.
    hidden = Layer(
        name="hidden",
        tensors=_linear(features, 128),
        cast=features * 128,
        narrow=128,
        matrices=((128, features),),
        work=features + 128,
    )
    out = Layer(
        name="out",
        tensors=_linear(128, CLASSES),
        cast=128 * CLASSES,
        wide=CLASSES,
        num_bytes=8,
        matrices=((CLASSES, 128),),
        work=128 + CLASSES,
    )
    return _sequence("cnn", [*layers, hidden, out], 4 * math.prod(inputs) + 8)


def _groups(channels: int) -> int:
    return next(n for n in (8, 4, 2, 1) if channels % n == 0)


def _resnet(inputs: Sequence[int], width: int, depth: int) -> Model:
    channels_in, side = inputs[0], inputs[1]
    stem = Layer(
        name="stem",
        tensors=(9 * channels_in * width, width),
        cast=9 * channels_in * width,
        narrow=channels_in * side * side,
        matrices=((width, 9 * channels_in),),
        work=width * side * side,
    )
    blocks: list[Layer] = []
    channels = width
    for stage in range(2):
        for i in range(depth):
            down = stage > 0 and i == 0
            out = channels * 2 if down else channels
            after = (side + 1) // 2 if down else side
            first, second = 9 * channels * out, 9 * out * out
            shortcut = (channels * out, out) if down else ()
            blocks.append(
                Layer(
                    name=f"blocks.{len(blocks)}",
                    tensors=(channels, channels, first, out, out, second, *shortcut),
                    cast=first + second + (channels * out if down else 0),
                    narrow=2 * channels * side * side + 2 * out * after * after,
                    num_bytes=8 * (_groups(channels) + _groups(out)),
                    matrices=((out, 9 * channels), (out, 9 * out))
                    + (((out, channels),) if down else ()),
                    work=2 * max(channels * side * side, out * after * after),
                )
            )
            channels, side = out, after
    exit = Layer(
        name="exit",
        tensors=(channels, channels, *_linear(channels, CLASSES)),
        cast=channels * CLASSES,
        narrow=2 * channels * side * side + channels,
        wide=CLASSES,
        num_bytes=8 * _groups(channels) + 8,
        matrices=((CLASSES, channels),),
        work=2 * channels * side * side,
    )
    return Model(
        name="resnet",
        layers=(stem, *blocks, exit),
        blocks=range(1, len(blocks) + 1),
        outputs=CLASSES,
        sample_bytes=4 * math.prod(inputs) + 8,
    )


def _sequence(name: str, layers: Sequence[Layer], sample_bytes: float) -> Model:
    return Model(
        name=name,
        layers=tuple(layers),
        blocks=range(len(layers)),
        outputs=CLASSES,
        sample_bytes=sample_bytes,
    )
