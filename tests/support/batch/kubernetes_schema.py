"""Objects of Kubernetes against the schema that it publishes, and some rules that the schema lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PUBLISHED = json.loads((Path(__file__).parent / "kubernetes_schema.json").read_text())
_DEFINITIONS: dict[str, Any] = _PUBLISHED["definitions"]
KINDS: dict[str, str] = _PUBLISHED["kinds"]
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_SCALES = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{letter}i": 1024.0**power for power, letter in enumerate("KMGT", 1)
}


def quantity(text: str | int | float) -> float:
    """Return an amount such as `500m` or `64Gi`. Raises ValueError."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{text!r} is no quantity")
    return float(found[1]) * _SCALES.get(found[2] or "", 1.0)


def schema_problems(thing: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an object by its kind's schema, unknown fields included."""
    kind = f"{thing.get('apiVersion')}/{thing.get('kind')}"
    if kind not in KINDS:
        return [f"no kind {kind!r}"]
    return list(_problems(thing, {"$ref": KINDS[kind]}, ""))


def _problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if reference := schema.get("$ref"):
        yield from _problems(value, _DEFINITIONS[reference], path)
        return
    if options := schema.get("oneOf"):
        if all(list(_problems(value, option, path)) for option in options):
            yield f"{path}: {value!r} is of the wrong type"
        return
    names = schema.get("type", [])
    types = [names] if isinstance(names, str) else names
    is_bool = isinstance(value, bool)
    if types and not any(
        isinstance(value, _TYPES[name]) and (name == "boolean" or not is_bool) for name in types
    ):
        yield f"{path}: {value!r} is no {types[0]}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name}: Required value"
        for name, item in value.items():
            if name in known:
                yield from _problems(item, known[name], f"{path}.{name}")
            elif isinstance(others, dict):
                yield from _problems(item, others, f"{path}.{name}")
            elif known:
                yield f'unknown field "{path.strip(".")}.{name}"'
    if isinstance(value, list):
        for k, item in enumerate(value):
            yield from _problems(item, schema.get("items", {}), f"{path}[{k}]")


def invalid_fields(thing: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the API server refuses with 422 although it fits the schema, as far as Muster's
    objects can have it."""
    meta = thing["metadata"]
    if not _NAME.fullmatch(meta.get("name", "")):
        yield f"metadata.name: Invalid value: {meta.get('name', '')!r}: a lowercase RFC 1123 subdomain"
    yield from _invalid_labels(meta.get("labels", {}), "metadata.labels")
    if thing["kind"] == "Job":
        yield from _invalid_job(thing["spec"])


def _invalid_labels(labels: Mapping[str, str], path: str) -> Iterator[str]:
    for value in labels.values():
        if not _LABEL_VALUE.fullmatch(value):
            yield f"{path}: Invalid value: {value!r}: must be 63 characters or less"


def _invalid_job(spec: Mapping[str, Any]) -> Iterator[str]:
    path = "spec.template.spec"
    template = spec["template"]
    pod = template["spec"]
    yield from _invalid_labels(
        template.get("metadata", {}).get("labels", {}), "spec.template.labels"
    )
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        yield f"{path}.restartPolicy: Required value: valid values: OnFailure, Never"
    for name, low in (("activeDeadlineSeconds", 1), ("terminationGracePeriodSeconds", 0)):
        if not low <= pod.get(name, low) < 2**31:
            yield f"{path}.{name}: Invalid value: {pod[name]}"
    volumes = {volume["name"] for volume in pod.get("volumes", ())}
    for volume in pod.get("volumes", ()):
        if len(set(volume) - {"name"}) != 1:
            yield f"{path}.volumes: {volume['name']}: may not specify more than 1 volume type"
    for taint in pod.get("tolerations", ()):
        if taint.get("effect") not in (None, "NoSchedule", "PreferNoSchedule", "NoExecute"):
            yield f"{path}.tolerations.effect: Unsupported value: {taint['effect']!r}"
        if taint.get("operator") == "Exists" and taint.get("value"):
            yield f"{path}.tolerations.operator: value must be empty when `operator` is 'Exists'"
    for k, container in enumerate(pod["containers"]):
        at = f"{path}.containers[{k}]"
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                yield f"{at}.volumeMounts.name: Not found: {mount['name']!r}"
        resources = container.get("resources", {})
        for name, text in resources.get("requests", {}).items():
            limit = resources.get("limits", {}).get(name, text)
            try:
                if quantity(text) > quantity(limit):
                    yield f"{at}.resources.requests: must be less than or equal to {name} limit"
                if "/" in name and quantity(text) % 1:
                    yield f"{at}.resources.requests[{name}]: must be an integer"
            except ValueError as error:
                yield f"{at}.resources.requests[{name}]: {error}"
