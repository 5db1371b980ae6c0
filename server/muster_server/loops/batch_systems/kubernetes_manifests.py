"""The objects of Kubernetes that make up a pilot: a Job of one pod, and the Secret that it mounts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster_server.domain.providers import KubernetesOptions

from .base import PilotJob

PREFIX = "muster-"
PILOT_LABEL = "muster.dev/pilot"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
KEEP_ENDED_S = 600
"""An ended Job is kept for so long, for its log."""
START_ALLOWANCE_S = 3600
"""Kubernetes ends a pod so long after its wall time. The agent counts the wall time from its own start,
and leaves by itself; Kubernetes counts from before the image is pulled."""
CONTAINER = "agent"
_HOME, _STORAGE, _TOKEN = "/muster/home", "/muster/storage", "/muster/token"


def job_name(pilot_id: str) -> str:
    """Return the name of a pilot's Job and Secret."""
    return f"{PREFIX}{pilot_id}"


def job_manifest(options: KubernetesOptions, job: PilotJob) -> dict[str, Any]:
    """Return the Job of a pilot. Nothing in it is secret."""
    labels = {
        "app.kubernetes.io/name": "muster-pilot",
        "app.kubernetes.io/managed-by": "muster",
        PILOT_LABEL: job.id,
    }
    queue = {QUEUE_LABEL: options.queue} if options.queue else {}
    spec: dict[str, Any] = {
        "completions": 1,
        "parallelism": 1,
        # A second pod would find the join token used: Muster replaces pilots, not Kubernetes.
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": KEEP_ENDED_S,
        "template": {"metadata": {"labels": labels}, "spec": _pod(options, job)},
    }
    if queue:
        spec["suspend"] = True  # Until Kueue admits it.
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(job.id),
            "namespace": options.namespace,
            "labels": labels | queue,
            "annotations": {"muster.dev/pool": job.pool},
        },
        "spec": spec,
    }


def secret_manifest(
    options: KubernetesOptions, pilot_id: str, *, token: str, job_uid: str
) -> dict[str, Any]:
    """Return the Secret with a pilot's join token. It goes with its Job."""
    name = job_name(pilot_id)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": options.namespace,
            "labels": {PILOT_LABEL: pilot_id, "app.kubernetes.io/managed-by": "muster"},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "stringData": {"token": token},
    }


def _pod(options: KubernetesOptions, job: PilotJob) -> dict[str, Any]:
    user = int(options.user_id)
    wall_s = job.walltime_s
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": wall_s + START_ALLOWANCE_S,
        "terminationGracePeriodSeconds": int(options.grace_s),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The pause container reaps what trainings leave behind; an agent is no init.
        "shareProcessNamespace": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": options.image,
                "command": ["sh", "-c"],
                "args": [
                    f"export MUSTER_AGENT_ENDS_AT=$(($(date +%s) + {wall_s})); "
                    "exec muster-agent run"
                ],
                "env": list(_environment(options, job)),
                "resources": _resources(options, job),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                # The end of its log becomes the reason of its failure.
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": "home", "mountPath": _HOME},
                    {"name": "storage", "mountPath": _STORAGE},
                    {"name": "token", "mountPath": _TOKEN, "readOnly": True},
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
                ],
            }
        ],
        "volumes": [
            {"name": "home", "emptyDir": {}},
            {
                "name": "storage",
                **(
                    {"persistentVolumeClaim": {"claimName": options.storage_claim}}
                    if options.storage_claim
                    else {"emptyDir": {}}
                ),
            },
            {"name": "token", "secret": {"secretName": job_name(job.id), "defaultMode": 0o440}},
            # 64 MiB by default, too small for the workers of data loaders.
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }
    if options.node_selector:
        pod["nodeSelector"] = dict(pair.split("=", 1) for pair in options.node_selector.split(","))
    if options.tolerations:
        pod["tolerations"] = [toleration(text) for text in options.tolerations.split(",")]
    if options.priority_class:
        pod["priorityClassName"] = options.priority_class
    if options.service_account:
        pod["serviceAccountName"] = options.service_account
    if options.image_pull_secret:
        pod["imagePullSecrets"] = [{"name": options.image_pull_secret}]
    if options.image_pull_policy:
        pod["containers"][0]["imagePullPolicy"] = options.image_pull_policy
    return pod


def toleration(text: str) -> dict[str, str]:
    """Return `key=value:Effect` as a toleration. Without `=` any value of the key is tolerated, without
    an effect all of them."""
    taint, _, effect = text.partition(":")
    key, has_value, value = taint.partition("=")
    found = {"key": key, "operator": "Equal" if has_value else "Exists"}
    if has_value:
        found["value"] = value
    if effect:
        found["effect"] = effect
    return found


def _num_gpus(options: KubernetesOptions, job: PilotJob) -> int:
    if options.gpus:
        return int(options.gpus)
    return job.slots if job.slot_type == "cuda" else 0


def _resources(options: KubernetesOptions, job: PilotJob) -> dict[str, Any]:
    """Requests equal limits, so that a node short of memory evicts others first."""
    amounts = {"cpu": options.cpus, "memory": options.memory}
    if num_gpus := _num_gpus(options, job):
        amounts[options.gpu_resource] = str(num_gpus)
    return {"requests": amounts, "limits": dict(amounts)}


def _environment(options: KubernetesOptions, job: PilotJob) -> Iterator[dict[str, Any]]:
    given: Mapping[str, str] = {
        "HOME": _HOME,
        "USER": "muster",
        "MUSTER_AGENT_SERVER_URL": options.server_url,
        "MUSTER_AGENT_JOIN_TOKEN_FILE": f"{_TOKEN}/token",
        "MUSTER_AGENT_NAME": job.id,
        "MUSTER_AGENT_POOL": job.pool,
        "MUSTER_AGENT_HOME": _HOME,
        "MUSTER_AGENT_STORAGE_DIR": _STORAGE,
        "MUSTER_AGENT_SLOTS": str(job.slots),
        "MUSTER_AGENT_SLOT_TYPE": job.slot_type,
        "MUSTER_AGENT_IDLE_EXIT_S": str(job.idle_s),
        "MUSTER_AGENT_ONCE": str(job.once).lower(),
        "MUSTER_AGENT_PROVIDER_REF": f"kubernetes:{options.namespace}:{job_name(job.id)}",
        "MUSTER_AGENT_TERM_GRACE_S": options.grace_s,
        "MUSTER_AGENT_CONTAINERS": "none",
    }
    if not _num_gpus(options, job):
        # Images that name all devices get all of them where NVIDIA's runtime is the default.
        given = {**given, "NVIDIA_VISIBLE_DEVICES": "void"}
    for name, value in given.items():
        yield {"name": name, "value": value}
    for name, resource, divisor in (
        ("MUSTER_GRANTED_CPUS", "limits.cpu", "1"),
        ("MUSTER_GRANTED_MEMORY_MIB", "limits.memory", "1Mi"),
    ):
        reference = {"containerName": CONTAINER, "resource": resource, "divisor": divisor}
        yield {"name": name, "valueFrom": {"resourceFieldRef": reference}}
