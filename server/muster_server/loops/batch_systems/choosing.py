"""The adapter of a provider."""

from __future__ import annotations

from pathlib import Path

from muster_server.domain.providers import KubernetesOptions, ProviderOptions, RayOptions

from .base import BatchSystem
from .kubernetes import Kubernetes
from .ray import Ray
from .slurm import Slurm


def system_of(options: ProviderOptions, *, kubeconfig: Path | None = None) -> BatchSystem:
    """Return the adapter for a provider with these options; kubeconfig is the controller's."""
    if isinstance(options, KubernetesOptions):
        return Kubernetes(options, kubeconfig)
    if isinstance(options, RayOptions):
        return Ray(options)
    return Slurm(options)
