"""What MLflow's clients see of a model registry, whoever keeps it: addresses of artifacts, searches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .search import Attributes, matcher, ordered
from .values import TrackedPoint, listed, page_of

ASKED_MAX = 200_000
"""Largest `max_results`, as in MLflow's server; its clients ask for 10,000 versions by default."""
PAGE_MAX = 1_000
"""Most models, and versions, in one answer; the token in it leads to the others."""
NO_PROMPT = {"mlflow.prompt.is_prompt": "false"}
"""Tags of a model that does not say otherwise. MLflow's client excludes prompts from its searches by
the condition that this tag is not 'true'."""
_PATH = re.compile(r"(?:/ajax-api|/api)/2\.0/mlflow/(registered-models|model-versions)/([a-z-]+)")
_SOURCE = re.compile(r"mlflow-artifacts:/(?:/[^/]*/)?/*(.+)")
_RUN_SOURCE = re.compile(r"runs:/([0-9a-f]{32})/(.+)")
_MODEL_SOURCE = re.compile(r"models:/(m-[\w-]{1,62})/?")
_FIELDS = (
    "name", "timestamp", "version_number", "run_id", "source_path", "creation_timestamp",
    "last_updated_timestamp",
)  # fmt: skip


def registry_call(path: str) -> tuple[str, str] | None:
    """Return what a request to the model registry is about and what it asks, such as
    `("model-versions", "create")`; None for another request."""
    found = _PATH.fullmatch(path)
    return None if found is None else (found[1], found[2])


def artifact_path(source: str) -> str:
    """Return the path among all artifacts that the source of a version means, such as
    `0/models/m-1/artifacts`; "" if it is none of this server."""
    if found := _MODEL_SOURCE.fullmatch(source):
        return f"0/models/{found[1]}/artifacts"
    if found := _RUN_SOURCE.fullmatch(source):
        return f"0/{found[1]}/artifacts/{found[2]}".rstrip("/")
    found = _SOURCE.fullmatch(source)
    return found[1].rstrip("/") if found else ""


@dataclass(frozen=True)
class RegistryItem:
    """A model or version, as a search looks at it."""

    row: Any
    """What is found."""
    tags: Mapping[str, str]
    attributes: Mapping[str, Any]

    @property
    def params(self) -> Mapping[str, str]:
        return {}

    @property
    def latest(self) -> Mapping[str, TrackedPoint]:
        return {}


def searched(
    found: Sequence[RegistryItem], body: Mapping[str, Any]
) -> tuple[list[RegistryItem], str]:
    """Return the page that a search asks for, and the token of the next one; "" after the last. Raises
    TrackingError."""
    attributes: Attributes[RegistryItem] = {
        name: lambda item, name=name: item.attributes.get(name)  # type: ignore[misc]
        for name in _FIELDS
    }
    matches = matcher(str(body.get("filter") or ""), attributes)
    kept = [item for item in found if matches(item)]
    orders = [str(order) for order in listed(body.get("order_by"))]
    return page_of(
        ordered(kept, orders, attributes), body, default=100, limit=ASKED_MAX, page_max=PAGE_MAX
    )


def pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as answers have them."""
    return [{"key": key, "value": value} for key, value in tags.items()]
