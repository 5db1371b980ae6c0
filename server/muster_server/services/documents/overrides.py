"""`path=value` overrides, applied to the document before it is checked."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from muster_server.schemas.validation_messages import type_name

from .reading import Unreadable, read_value


def apply_overrides(
    document: dict[str, Any], overrides: Sequence[str]
) -> tuple[dict[str, Any], list[str], list[Unreadable]]:
    """Return the changed document, the paths that were set, and what could not be applied.

    "resources.slots=2": the value is read as YAML. Missing mappings on the way are made; the last
    of several overrides of one path wins.
    """
    result = copy.deepcopy(document)
    paths: list[str] = []
    problems: list[Unreadable] = []
    for override in overrides:
        try:
            paths.append(_apply(result, override))
        except Unreadable as problem:
            problems.append(problem)
    return result, paths, problems


def _apply(document: dict[str, Any], override: str) -> str:
    path, equals, text = override.partition("=")
    path = path.strip()
    keys = path.split(".")
    if not equals or not all(keys):
        raise Unreadable(
            "an override must be written path=value", hint="for example resources.slots=2"
        )
    try:
        value = read_value(text, path=path)
    except Unreadable as problem:
        raise Unreadable(f"override: {problem.message}", path=path, hint=problem.hint) from None
    at = document
    for depth, key in enumerate(keys[:-1], start=1):
        inner = at.setdefault(key, {})
        if inner is None:
            inner = at[key] = {}
        if not isinstance(inner, dict):
            raise Unreadable(
                f"override of {path!r}: {'.'.join(keys[:depth])!r} is {type_name(inner)}, "
                "not a mapping",
                path=path,
            )
        at = inner
    at[keys[-1]] = value
    return path
