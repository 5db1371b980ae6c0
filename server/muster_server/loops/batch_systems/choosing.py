"""The adapter of a provider."""

from __future__ import annotations

from muster_server.domain.providers import ProviderOptions, RayOptions

from .base import BatchSystem
from .ray import Ray
from .slurm import Slurm


def system_of(options: ProviderOptions) -> BatchSystem:
    """Return the adapter for a provider with these options."""
    if isinstance(options, RayOptions):
        return Ray(options)
    return Slurm(options)
