"""What may be set for the jobs of a provider.

Every value reaches a shell, a site's scheduler or the API of a cluster, so each must match a narrow
pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, cast

from muster_server.domain.localized_text import LocalizedText

_WORD = r"[A-Za-z0-9_.,:@+%*&|()\[\]-]{1,128}"
_PATH = r"/[A-Za-z0-9_./@+-]{0,255}"
_ADDRESS = r"https?://[A-Za-z0-9.:\[\]-]{1,255}"

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"
_KEY = rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_PAIR = rf"{_KEY}={_VALUE}"
_TOLERATION = rf"{_KEY}(={_VALUE})?(:(NoSchedule|PreferNoSchedule|NoExecute))?"
_RESOURCE = r"[A-Za-z0-9_.:-]{1,64}=\d{1,6}(\.\d{1,4})?"
_CPUS = r"\d{1,4}(\.\d{1,3})?"


@dataclass(frozen=True)
class OptionRule:
    """What an option may be."""

    pattern: str
    """Regular expression that its whole value matches."""
    expected: LocalizedText
    """What to write, for forms and errors."""

    @property
    def is_flag(self) -> bool:
        """Whether it is "yes" or left out."""
        return self.pattern == "yes"


def _rule(pattern: str, en: str, zh: str) -> OptionRule:
    return OptionRule(pattern, LocalizedText(en, zh))


_URL = _rule(_ADDRESS, "a URL such as http://10.0.0.5:8470", "URL，例如 http://10.0.0.5:8470")
_GPUS = _rule(r"[1-9]\d{0,2}", "a number of GPUs", "GPU 数量")
_MEMORY_MB = _rule(r"[1-9]\d{0,8}", "a number of MiB", "MiB 数")
_ANY = _rule(_WORD, "letters, digits and _.,:@+%*&|()[]-", "字母、数字和 _.,:@+%*&|()[]-")
_OBJECT = _rule(
    _SUBDOMAIN,
    "the name of an object of Kubernetes: lower-case letters, digits, - and .",
    "Kubernetes 对象的名称：小写字母、数字、- 和 .",
)
_SLURM_RULES = {
    "server_url": _URL,
    "host": _rule(
        r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}",
        "a name such as ann@login1, as ssh takes it",
        "ssh 可用的名称，例如 ann@login1",
    ),
    "folder": _rule(
        _PATH,
        "an absolute path that the compute nodes see, such as /home/ann/muster",
        "计算节点可见的绝对路径，例如 /home/ann/muster",
    ),
    "storage_dir": _rule(
        _PATH,
        "an absolute path that the compute nodes see, such as /scratch/muster",
        "计算节点可见的绝对路径，例如 /scratch/muster",
    ),
    "agent": _rule(
        _PATH,
        "the absolute path of muster-agent on the compute nodes",
        "计算节点上 muster-agent 的绝对路径",
    ),
    "gres": _rule(
        _WORD,
        "what sbatch takes as --gres, such as gpu:a100:4",
        "sbatch 的 --gres，例如 gpu:a100:4",
    ),
    "time": _rule(r"\d{1,9}", "a number of minutes", "分钟数"),
    "cpus_per_task": _rule(r"[1-9]\d{0,4}", "a number of processors", "处理器数量"),
    "memory_mb": _MEMORY_MB,
    "share_nodes": _rule("yes", "yes, or leave it out", "yes，或不填"),
}
_KUBERNETES_RULES = {
    "server_url": _URL,
    "namespace": _rule(_LABEL, "a namespace such as ml", "命名空间，例如 ml"),
    "image": _rule(
        r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,254}",
        "an image with muster-agent, such as registry.example/muster-agent:1.2",
        "含有 muster-agent 的镜像，例如 registry.example/muster-agent:1.2",
    ),
    "cpus": _rule(
        rf"{_CPUS}|[1-9]\d{{0,6}}m",
        "processors of a pilot, such as 8 or 500m",
        "每个临时节点的处理器，例如 8 或 500m",
    ),
    "memory": _rule(
        r"[1-9]\d{0,12}(Ki|Mi|Gi|Ti|k|M|G|T)?",
        "the memory of a pilot, such as 64Gi",
        "每个临时节点的内存，例如 64Gi",
    ),
    "gpus": _GPUS,
    "gpu_resource": _rule(
        _KEY,
        "what the cluster calls its GPUs, such as nvidia.com/gpu",
        "集群对 GPU 的称呼，例如 nvidia.com/gpu",
    ),
    "node_selector": _rule(
        rf"{_PAIR}(,{_PAIR})*",
        "labels of nodes, such as zone=a,gpu=a100",
        "节点标签，例如 zone=a,gpu=a100",
    ),
    "tolerations": _rule(
        rf"{_TOLERATION}(,{_TOLERATION})*",
        "taints to tolerate, such as nvidia.com/gpu:NoSchedule or dedicated=ml:NoExecute",
        "容忍的污点，例如 nvidia.com/gpu:NoSchedule 或 dedicated=ml:NoExecute",
    ),
    "queue": _OBJECT,
    "priority_class": _OBJECT,
    "service_account": _OBJECT,
    "image_pull_policy": _rule(
        "Always|IfNotPresent|Never",
        "Always, IfNotPresent or Never",
        "Always、IfNotPresent 或 Never",
    ),
    "image_pull_secret": _OBJECT,
    "storage_claim": _OBJECT,
    "grace_s": _rule(r"[1-9]\d{0,4}", "a number of seconds, at most 99999", "秒数，最大 99999"),
    "user_id": _rule(r"[1-9]\d{0,9}", "the number of a user, not 0", "用户编号，不为 0"),
    "context": _rule(
        r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,254}",
        "a context of the kubeconfig",
        "kubeconfig 中的上下文",
    ),
}
_RAY_RULES = {
    "server_url": _URL,
    "address": _rule(
        _ADDRESS,
        "the address of Ray's dashboard, such as http://10.0.0.7:8265",
        "Ray 仪表板的地址，例如 http://10.0.0.7:8265",
    ),
    "agent": _rule(
        _PATH,
        "the absolute path of muster-agent on the Ray nodes",
        "Ray 节点上 muster-agent 的绝对路径",
    ),
    "storage_dir": _rule(
        _PATH,
        "an absolute path that all Ray nodes see, such as /scratch/muster",
        "所有 Ray 节点可见的绝对路径，例如 /scratch/muster",
    ),
    "cpus": _rule(_CPUS, "a number of processors, such as 8", "处理器数量，例如 8"),
    "gpus": _GPUS,
    "memory_mb": _MEMORY_MB,
    "resources": _rule(
        rf"{_RESOURCE}(,{_RESOURCE})*",
        "resources of Ray's nodes, such as accelerator_type:A100=0.001",
        "Ray 节点的资源，例如 accelerator_type:A100=0.001",
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

    title: ClassVar = "Slurm"
    rules: ClassVar[Mapping[str, OptionRule]] = _SLURM_RULES
    required: ClassVar[tuple[str, ...]] = ("server_url", "folder", "agent")

    server_url: str
    """Address of this server as the compute nodes reach it."""
    folder: str
    """Folder that login and compute nodes share: join tokens and the logs of the jobs."""
    agent: str
    """Path of `muster-agent` on the compute nodes."""
    host: str = ""
    """Login node, reached with ssh; "" if the commands of Slurm work where the controller runs."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    gres: str = ""
    cpus_per_task: str = ""
    """Processors of a pilot; "" for one for each slot."""
    share_nodes: str = ""
    """Whether other jobs, of other pilots too, may run on the machine of a pilot: "yes" or ""."""
    memory_mb: str = ""
    constraint: str = ""
    reservation: str = ""
    exclude: str = ""
    storage_dir: str = ""
    """Shared folder for checkpoints; "" for `storage` in `folder`."""

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

    title: ClassVar = "Kubernetes"
    rules: ClassVar[Mapping[str, OptionRule]] = _KUBERNETES_RULES
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

    title: ClassVar = "Ray"
    rules: ClassVar[Mapping[str, OptionRule]] = _RAY_RULES
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
ProviderKind = Literal["slurm", "ray", "kubernetes"]
KINDS: Mapping[ProviderKind, type[ProviderOptions]] = {
    "slurm": SlurmOptions,
    "ray": RayOptions,
    "kubernetes": KubernetesOptions,
}
"""Options of each kind of provider, in the order that pages list them."""


def options_of(given: Mapping[str, object], kind: str = "slurm") -> ProviderOptions:
    """Return the options of a provider of this kind. Raises InvalidOption for one that is unknown,
    missing, or not of its pattern."""
    options = KINDS[cast("ProviderKind", kind)]
    names = [field.name for field in fields(options)]
    values: dict[str, str] = {}
    for name, value in given.items():
        if name not in names:
            known = ", ".join(names)
            raise InvalidOption(name, f"is no option of this provider; there are {known}")
        text = str(value).strip() if value is not None else ""
        if not text:
            continue
        rule = options.rules.get(name, _ANY)
        if not re.fullmatch(rule.pattern, text) or (
            name not in options.rules and text.startswith("-")
        ):
            raise InvalidOption(name, f"{text[:80]!r} does not work; write {rule.expected.en}")
        values[name] = text
    for name in options.required:
        if name not in values:
            raise InvalidOption(name, f"is missing; write {options.rules[name].expected.en}")
    return options(**values)
