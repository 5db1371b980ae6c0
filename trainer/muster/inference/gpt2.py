"""The built-in gpt as a Hugging Face folder: a GPT2LMHeadModel and a tokenizer of bytes.

The architecture is the same but for names, layout and two settings: GELU is exact, and the output layer
does not share the weights of the embedding. `transformers` is not needed to write it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from muster.document.model_config import BYTES, WEIGHTS_FILE
from muster.inference.comparing import ExportFailed, Predict
from muster.inference.loading import LoadedModel
from muster.sdk import shards
from muster.training.saving.files import dtype_name

_QKV = ("query", "key", "value")


@dataclass(frozen=True)
class _TensorSource:
    """Where a tensor of GPT-2 comes from."""

    names: tuple[str, ...]
    """Tensors of the built-in gpt, put together along the first dimension."""
    is_transposed: bool = False
    """GPT-2 keeps the weights of linear layers as [in, out]."""

    def made_of(self, state: Mapping[str, Tensor]) -> Tensor:
        parts = [state[name] for name in self.names]
        whole = torch.cat(parts) if len(parts) > 1 else parts[0]
        return whole.T.contiguous() if self.is_transposed else whole.contiguous()


def _sources(depth: int) -> dict[str, _TensorSource]:
    """Return the source of each tensor by its name in GPT-2."""
    found = {
        "transformer.wte.weight": _TensorSource(("tokens.weight",)),
        "transformer.wpe.weight": _TensorSource(("positions.weight",)),
        "transformer.ln_f.weight": _TensorSource(("norm.weight",)),
        "transformer.ln_f.bias": _TensorSource(("norm.bias",)),
        "lm_head.weight": _TensorSource(("head.weight",)),
    }
    linear = {"attn.c_proj": "attention.out", "mlp.c_fc": "mlp.up", "mlp.c_proj": "mlp.down"}
    for i in range(depth):
        block, layer = f"blocks.{i}", f"transformer.h.{i}"
        for no in (1, 2):
            for kind in ("weight", "bias"):
                found[f"{layer}.ln_{no}.{kind}"] = _TensorSource((f"{block}.norm{no}.{kind}",))
        for kind in ("weight", "bias"):
            names = tuple(f"{block}.attention.{name}.{kind}" for name in _QKV)
            found[f"{layer}.attn.c_attn.{kind}"] = _TensorSource(names, kind == "weight")
        for name, source in linear.items():
            found[f"{layer}.{name}.weight"] = _TensorSource((f"{block}.{source}.weight",), True)
            found[f"{layer}.{name}.bias"] = _TensorSource((f"{block}.{source}.bias",))
    return found


def write(model: LoadedModel, folder: Path) -> None:
    """Write the folder of a built-in gpt; one tensor is copied at a time.

    Raises ExportFailed if its weights are not those of one, and OSError.
    """
    trainer, classes = model.config.trainer, model.classes
    state = model.module.state_dict()
    sources = _sources(trainer["depth"])
    used = {name for source in sources.values() for name in source.names}
    if used != set(state):
        differing = ", ".join(sorted(used ^ set(state))[:5])
        raise ExportFailed(f"its weights are not those of a gpt of this depth: {differing}")
    context = state["positions.weight"].shape[0]
    _write_json(folder / "config.json", _config(trainer, context=context, classes=classes))
    _write_json(folder / "generation_config.json", {"_from_model_config": True})
    if classes == BYTES:
        _write_json(folder / "tokenizer.json", _tokenizer())
        _write_json(
            folder / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": context,
                "clean_up_tokenization_spaces": False,
            },
        )
    shapes = {name: tensor.to("meta") for name, tensor in state.items()}
    made = {name: source.made_of(shapes) for name, source in sources.items()}
    head = shards.header({n: (dtype_name(t.dtype), tuple(t.shape)) for n, t in made.items()})
    with (folder / WEIGHTS_FILE).open("wb") as out:
        out.write(head)
        for source in sources.values():
            numbers = source.made_of(state).reshape(-1).view(torch.uint8)
            out.write(numbers.numpy().data)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _config(trainer: Mapping[str, Any], *, context: int, classes: int) -> dict[str, Any]:
    width, dropout = trainer["width"], trainer["dropout"]
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": classes,
        "n_positions": context,
        "n_embd": width,
        "n_layer": trainer["depth"],
        "n_head": trainer["heads"],
        "n_inner": 4 * width,
        "activation_function": "gelu",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "attn_pdrop": 0.0,
        "embd_pdrop": dropout,
        "resid_pdrop": dropout,
        "bos_token_id": None,
        "eos_token_id": None,
        "torch_dtype": "float32",
    }


def _tokenizer() -> dict[str, Any]:
    """Return a tokenizer whose tokens are the bytes of the text in UTF-8: the symbols of a byte-level
    BPE in the order of the bytes, and nothing to merge."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(BYTES) if byte not in printable]
    symbols = {byte: chr(byte) for byte in printable}
    symbols |= {byte: chr(BYTES + i) for i, byte in enumerate(others)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {**level, "use_regex": False},
        "post_processor": None,
        "decoder": {**level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {symbols[byte]: byte for byte in range(BYTES)},
            "merges": [],
        },
    }


def reload(folder: Path) -> tuple[Predict, str]:
    """Load the folder as a user of it would: with transformers where it is installed, otherwise as
    its config.json describes. Return the model, and what computes it. Raises ExportFailed."""
    try:
        import transformers
    except ImportError:
        return _Gpt2(folder), f"GPT-2 as config.json describes it, torch {torch.__version__}"
    model, report = transformers.GPT2LMHeadModel.from_pretrained(
        str(folder), local_files_only=True, output_loading_info=True
    )
    wrong = [f"{kind}: {names}" for kind, names in report.items() if names]
    if wrong:
        raise ExportFailed(f"transformers does not take it as it is: {'; '.join(wrong)[:500]}")
    model.eval()
    return lambda x: model(input_ids=x).logits, f"transformers {transformers.__version__}"


class _Gpt2:
    """GPT-2 from the files of a folder, written down once more: tokens [n, t] → logits."""

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load_file

        self._config = json.loads((folder / "config.json").read_text())
        self._weights = load_file(folder / WEIGHTS_FILE)

    def __call__(self, tokens: Tensor) -> Tensor:
        w, count = self._weights, tokens.shape[1]
        x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:count]
        for i in range(self._config["n_layer"]):
            layer = f"transformer.h.{i}"
            x = x + self._attention(f"{layer}.attn", self._norm(f"{layer}.ln_1", x))
            up = self._linear(f"{layer}.mlp.c_fc", self._norm(f"{layer}.ln_2", x))
            x = x + self._linear(f"{layer}.mlp.c_proj", F.gelu(up))
        return self._norm("transformer.ln_f", x) @ w["lm_head.weight"].T

    def _attention(self, name: str, x: Tensor) -> Tensor:
        heads = self._config["n_head"]
        query, key, value = (
            part.view(*part.shape[:2], heads, -1).transpose(1, 2)
            for part in self._linear(f"{name}.c_attn", x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(ahead, -torch.inf).softmax(-1) @ value
        return self._linear(f"{name}.c_proj", mixed.transpose(1, 2).flatten(2))

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self._config["layer_norm_epsilon"])
