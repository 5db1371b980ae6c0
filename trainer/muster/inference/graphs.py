"""Exports that hold the computation itself: programs of torch.export, and ONNX.

Batches may have 1 to BATCH_MAX samples, and texts any length up to the context of the model. No path of a
source file, and no sample of anybody's data, is in the files.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim
from torch.fx import GraphModule

from muster.inference.comparing import Predict
from muster.inference.loading import LoadedModel

PROGRAM_FILE = "model.pt2"
"""Always the same name: it is in the file, too, as that of the archive's root folder."""
ONNX_FILE = "model.onnx"
ONNX_PACKAGES = ("onnx", "onnxscript")
INPUT, OUTPUT = "input", "output"
BATCH_MAX = 4096
"""Most samples of one call."""
EXTERNAL_DATA_BYTES = 1_900_000_000
"""Bytes of weights from which on ONNX keeps them in a file of their own: protobuf ends at 2 GiB."""
_EXAMPLE_BATCH = 2
"""One would make the batch a constant."""
_EXAMPLE_LENGTH = 16


def limits(model: LoadedModel) -> dict[str, list[int]]:
    """Return the least and the greatest size of each dimension that varies."""
    found = {"batch": [1, BATCH_MAX]}
    if model.config.trainer["model"] == "gpt" and model.inputs[0] > 1:
        found["sequence"] = [1, model.inputs[0]]
    return found


def _example(model: LoadedModel) -> tuple[Tensor, Mapping[int, Any]]:
    """Return the inputs that a graph is recorded with, and what varies of them."""
    dims = {
        i: Dim(name, min=least, max=most)
        for i, (name, (least, most)) in enumerate(limits(model).items())
    }
    shape = list(model.inputs)
    if len(dims) > 1:
        shape[0] = min(shape[0], _EXAMPLE_LENGTH)
    dtype = torch.int64 if model.config.dtype == "int64" else torch.float32
    return torch.zeros((_EXAMPLE_BATCH, *shape), dtype=dtype), dims


def write_program(model: LoadedModel, folder: Path) -> None:
    """Write the model as torch.export records it."""
    example, dims = _example(model)
    program = torch.export.export(model.module, (example,), dynamic_shapes=(dims,))
    for graph in program.graph_module.modules():
        if isinstance(graph, GraphModule):
            for node in graph.graph.nodes:
                node.meta.pop("stack_trace", None)
    torch.export.save(program, folder / PROGRAM_FILE)


def reload_program(folder: Path) -> tuple[Predict, str]:
    """Load what this process wrote. Nobody else's program is ever loaded: that can run code."""
    module = torch.export.load(folder / PROGRAM_FILE).module()
    return module, f"torch {torch.__version__}"


def missing_packages() -> list[str]:
    """Return the packages that ONNX needs and this Python does not have."""
    return [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]


def write_onnx(model: LoadedModel, folder: Path) -> None:
    """Write the model as ONNX; the weights in `model.onnx.data` where they are too large for one file."""
    example, dims = _example(model)
    # It warns of what it does itself, and of packages whose operators nobody here uses.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model.module,
            (example,),
            dynamo=True,
            dynamic_shapes=(dims,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            verbose=False,
        )
    assert program is not None, "with dynamo=True there is one"
    _strip(program.model)
    size_bytes = sum(p.numel() * p.element_size() for p in model.module.parameters())
    program.save(folder / ONNX_FILE, external_data=size_bytes >= EXTERNAL_DATA_BYTES)


def _strip(model: Any) -> None:
    """Remove what the exporter notes about the source code: paths and stack traces."""
    for function in (model.graph, *model.functions.values()):
        for node in function.all_nodes():
            node.metadata_props.clear()
            node.doc_string = None
            for value in node.outputs:
                value.metadata_props.clear()
                value.doc_string = None


def reload_onnx(folder: Path) -> tuple[Predict, str] | None:
    """Load the model in onnxruntime; None where that is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # it would write errors to the log by itself, too
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        str(folder / ONNX_FILE), options, providers=["CPUExecutionProvider"]
    )

    def predict(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {INPUT: x.numpy()})[0])

    return predict, f"onnxruntime {onnxruntime.__version__}"
