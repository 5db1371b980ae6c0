"""The description that MLflow keeps beside the files of a model, as data: nothing in it is executed."""

from __future__ import annotations

import json
from typing import Any

import yaml

FILE = "MLmodel"
MAX_BYTES = 1 << 20


def signature_of(content: str | bytes) -> dict[str, Any] | None:
    """Return the signature that a description states; None if there is none to be read."""
    try:
        signature = yaml.safe_load(content)["signature"]
        read = {side: _tensors(signature.get(side)) for side in ("inputs", "outputs")}
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return read if read["inputs"] or read["outputs"] else None


def _tensors(given: Any) -> list[dict[str, Any]]:
    """Return inputs or outputs of a signature as MLflow writes them: JSON of columns or tensors."""
    found = []
    for entry in json.loads(given) if isinstance(given, str) else given or []:
        is_tensor = entry["type"] == "tensor"
        spec = entry["tensor-spec"] if is_tensor else {"dtype": entry["type"], "shape": None}
        shape = spec.get("shape")
        found.append(
            {
                "name": str(entry.get("name") or "")[:200],
                "type": str(spec["dtype"])[:64],
                "shape": [int(n) for n in shape][:16] if shape is not None else None,
            }
        )
    return found[:100]
