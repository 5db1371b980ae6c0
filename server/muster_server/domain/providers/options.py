"""What may be set for the jobs of a provider.

Every value reaches a shell, a site's scheduler or the API of a cluster, so each must match a narrow
pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

_WORD = r"[A-Za-z0-9_.,:@+%*&|()\[\]-]{1,128}"
_PATH = r"/[A-Za-z0-9_./@+-]{0,255}"
_URL = (r"https?://[A-Za-z0-9.:\[\]-]{1,255}", "a URL such as http://10.0.0.5:8470")
_SLURM_PATTERNS = {
    "host": (r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}", "a name such as ann@login1, as ssh takes it"),
    "server_url": _URL,
    "folder": (_PATH, "an absolute path that the compute nodes see, such as /home/ann/muster"),
    "storage_dir": (_PATH, "an absolute path that the compute nodes see, such as /scratch/muster"),
    "agent": (_PATH, "the absolute path of muster-agent on the compute nodes"),
    "gres": (_WORD, "what sbatch takes as --gres, such as gpu:a100:4"),
    "time": (r"\d{1,9}", "a number of minutes"),
    "cpus_per_task": (r"[1-9]\d{0,4}", "a number of processors"),
    "memory_mb": (r"[1-9]\d{0,8}", "a number of MiB"),
    "share_nodes": ("yes", "yes, or leave it out"),
}
_ANY = (_WORD, "letters, digits and _.,:@+%*&|()[]-")

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"
_KEY = rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_PAIR = rf"{_KEY}={_VALUE}"
_TOLERATION = rf"{_KEY}(={_VALUE})?(:(NoSchedule|PreferNoSchedule|NoExecute))?"
_OBJECT = (_SUBDOMAIN, "the name of an object of Kubernetes: lower-case letters, digits, - and .")
_KUBERNETES_PATTERNS = {
    "server_url": _URL,
    "namespace": (_LABEL, "a namespace such as ml"),
    "image": (
        r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,254}",
        "an image with muster-agent, such as registry.example/muster-agent:1.2",
    ),
    "cpus": (r"\d{1,4}(\.\d{1,3})?|[1-9]\d{0,6}m", "processors of a pilot, such as 8 or 500m"),
    "memory": (r"[1-9]\d{0,12}(Ki|Mi|Gi|Ti|k|M|G|T)?", "the memory of a pilot, such as 64Gi"),
    "gpus": (r"[1-9]\d{0,2}", "a number of GPUs"),
    "gpu_resource": (_KEY, "what the cluster calls its GPUs, such as nvidia.com/gpu"),
    "node_selector": (rf"{_PAIR}(,{_PAIR})*", "labels of nodes, such as zone=a,gpu=a100"),
    "tolerations": (
        rf"{_TOLERATION}(,{_TOLERATION})*",
        "taints to tolerate, such as nvidia.com/gpu:NoSchedule or dedicated=ml:NoExecute",
    ),
    "queue": _OBJECT,
    "priority_class": _OBJECT,
    "service_account": _OBJECT,
    "image_pull_policy": ("Always|IfNotPresent|Never", "Always, IfNotPresent or Never"),
    "image_pull_secret": _OBJECT,
    "storage_claim": _OBJECT,
    "grace_s": (r"[1-9]\d{0,4}", "a number of seconds, at most 99999"),
    "user_id": (r"[1-9]\d{0,9}", "the number of a user, not 0"),
    "context": (r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,254}", "a context of the kubeconfig"),
}

_RESOURCE = r"[A-Za-z0-9_.:-]{1,64}=\d{1,6}(\.\d{1,4})?"
_RAY_PATTERNS = {
    "server_url": _URL,
    "address": (_URL[0], "the address of Ray's dashboard, such as http://10.0.0.7:8265"),
    "agent": (_PATH, "the absolute path of muster-agent on the Ray nodes"),
    "storage_dir": (_PATH, "an absolute path that all Ray nodes see, such as /scratch/muster"),
    "cpus": (r"\d{1,4}(\.\d{1,3})?", "a number of processors, such as 8"),
    "gpus": (r"[1-9]\d{0,2}", "a number of GPUs"),
    "memory_mb": (r"[1-9]\d{0,8}", "a number of MiB"),
    "resources": (
        rf"{_RESOURCE}(,{_RESOURCE})*",
        "resources of Ray's nodes, such as accelerator_type:A100=0.001",
    ),
}


class InvalidOption(ValueError):
    """What is wrong with an option, and what would work."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """Options of the provider `slurm`. An empty one is left to Slurm."""

    patterns: ClassVar[Mapping[str, tuple[str, str]]] = _SLURM_PATTERNS
    required: ClassVar[tuple[str, ...]] = ("server_url", "folder", "agent")

    server_url: str
    """Address of this server as the compute nodes reach it."""
    folder: str
    """Folder that login and compute nodes share: join tokens and the logs of the jobs."""
    agent: str
    """Path of `muster-agent` on the compute nodes."""
    storage_dir: str = ""
    """Shared folder for checkpoints; "" for `storage` in `folder`."""
    host: str = ""
    """Login node, reached with ssh; "" if the commands of Slurm work where the controller runs."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    exclude: str = ""
    gres: str = ""
    cpus_per_task: str = ""
    """Processors of a pilot; "" for one for each slot."""
    memory_mb: str = ""
    share_nodes: str = ""
    """Whether other jobs, of other pilots too, may run on the machine of a pilot: "yes" or ""."""

    @property
    def storage(self) -> str:
        return self.storage_dir or f"{self.folder}/storage"

    @property
    def name(self) -> str:
        """ "Slurm partition a100"."""
        return f"Slurm partition {self.partition}" if self.partition else "Slurm"


@dataclass(frozen=True, kw_only=True)
class KubernetesOptions:
    """Options of the provider `kubernetes`. An empty one is left to the cluster."""

    patterns: ClassVar[Mapping[str, tuple[str, str]]] = _KUBERNETES_PATTERNS
    required: ClassVar[tuple[str, ...]] = ("server_url", "namespace", "image", "cpus", "memory")

    server_url: str
    """Address of this server as pods reach it."""
    namespace: str
    image: str
    cpus: str
    memory: str
    """Requests of a pilot, and its limits."""
    gpus: str = ""
    """GPUs of a pilot; "" for one for each slot of the type cuda."""
    gpu_resource: str = "nvidia.com/gpu"
    node_selector: str = ""
    """Labels that a node must have: `key=value,key=value`."""
    tolerations: str = ""
    """Taints that a pilot tolerates: `key=value:Effect,key:Effect,key`."""
    queue: str = ""
    """Local queue of Kueue."""
    priority_class: str = ""
    service_account: str = ""
    """Service account of the pods, whose token they do not get."""
    image_pull_policy: str = ""
    image_pull_secret: str = ""
    storage_claim: str = ""
    """Volume claim for checkpoints that all pilots mount; "" for a folder that ends with its pilot."""
    grace_s: str = "120"
    """Time in seconds from SIGTERM to SIGKILL."""
    user_id: str = "10001"
    """User that the pods run as, and group of their volumes."""
    context: str = ""
    """Context of the controller's kubeconfig; "" for its current one."""

    @property
    def name(self) -> str:
        """ "Kubernetes namespace ml", "Kubernetes queue team-a"."""
        return (
            f"Kubernetes queue {self.queue}"
            if self.queue
            else f"Kubernetes namespace {self.namespace}"
        )


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Options of the provider `ray`."""

    patterns: ClassVar[Mapping[str, tuple[str, str]]] = _RAY_PATTERNS
    required: ClassVar[tuple[str, ...]] = ("server_url", "address", "agent", "storage_dir")

    server_url: str
    """Address of this server as the Ray nodes reach it."""
    address: str
    """Address of the cluster's dashboard, which serves its job API."""
    agent: str
    """Path of `muster-agent` on the Ray nodes."""
    storage_dir: str
    """Folder for checkpoints that all Ray nodes see."""
    cpus: str = ""
    """Processors that Ray reserves for a pilot; "" for one for each slot."""
    gpus: str = ""
    """GPUs that Ray reserves for a pilot; "" for one for each slot of the type cuda."""
    memory_mb: str = ""
    """Memory that Ray reserves for a pilot, in MiB; "" for none."""
    resources: str = ""
    """Further resources that Ray reserves: `name=amount,name=amount`."""

    @property
    def name(self) -> str:
        """ "Ray cluster 10.0.0.7:8265"."""
        return f"Ray cluster {self.address.split('://')[1]}"


ProviderOptions = SlurmOptions | RayOptions | KubernetesOptions
KINDS: Mapping[str, type[ProviderOptions]] = {
    "slurm": SlurmOptions,
    "ray": RayOptions,
    "kubernetes": KubernetesOptions,
}


def options_of(given: Mapping[str, object], kind: str = "slurm") -> ProviderOptions:
    """Return the options of a provider of this kind. Raises InvalidOption for one that is unknown,
    missing, or not of its pattern."""
    options = KINDS[kind]
    names = [field.name for field in fields(options)]
    values: dict[str, str] = {}
    for name, value in given.items():
        if name not in names:
            known = ", ".join(names)
            raise InvalidOption(name, f"is no option of this provider; there are {known}")
        text = str(value).strip() if value is not None else ""
        if not text:
            continue
        pattern, example = options.patterns.get(name, _ANY)
        if not re.fullmatch(pattern, text) or (
            name not in options.patterns and text.startswith("-")
        ):
            raise InvalidOption(name, f"{text[:80]!r} does not work; write {example}")
        values[name] = text
    for name in options.required:
        if name not in values:
            raise InvalidOption(name, f"is missing; write {options.patterns[name][1]}")
    return options(**values)
