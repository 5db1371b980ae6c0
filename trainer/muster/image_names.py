"""Names of container images."""

from __future__ import annotations

from collections.abc import Iterable

HUB = "docker.io"


def full_name(image: str) -> str:
    """Return the name of an image with its registry. Podman asks no registry about a name without
    one, and Docker only its own."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{HUB}/{image}" if slash else f"{HUB}/library/{image}"


def repository_of(image: str) -> str:
    """Return the full name of an image without its tag and its digest."""
    name = full_name(image).partition("@")[0]
    path, _, last = name.rpartition("/")
    return f"{path}/{last.partition(':')[0]}"


def is_allowed(image: str, allowed: Iterable[str]) -> bool:
    """Return whether an image is one of `allowed`, or lies below one of them: registries
    ("ghcr.io"), parts of them ("ghcr.io/acme") and repositories ("docker.io/library/python").
    Whole parts are compared, so "ghcr.io/acme" does not allow "ghcr.io/acme-2/x"."""
    repository = repository_of(image)
    return any(f"{repository}/".startswith(f"{prefix.rstrip('/')}/") for prefix in allowed)
