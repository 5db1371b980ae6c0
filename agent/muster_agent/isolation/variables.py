"""The agent's own environment variables that a job sees.

Whoever starts an agent has a shell full of things: cloud credentials, tokens, passwords. A job gets
what training needs to find its programs, libraries, devices and network, and nothing else. What a
job needs besides belongs into its document (`environment.variables`), or, where it is a secret of
the machine, into the setting `pass_environment`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

MARK = "_MUSTER_UP_HOME"
"""Variable by which `muster up` finds the processes that it has started, jobs included."""


@dataclass(frozen=True)
class VariableGroup:
    """Variables that are passed to jobs for one reason."""

    what: str
    names: tuple[str, ...]
    """Names, or patterns with `*`."""
    is_of_machine: bool = False
    """Whether they name files of the machine, which a container does not have."""


PASSED: tuple[VariableGroup, ...] = (
    VariableGroup("programs, home and temporary files",
          ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TMPDIR", "TMP", "TEMP"), is_of_machine=True),
    VariableGroup("language and time zone", ("LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR")),
    VariableGroup("the interpreter and its environment",
          ("PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"), is_of_machine=True),
    VariableGroup("shared libraries, and compilers for what is built at run time",
          ("LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "CC", "CXX", "CFLAGS",
           "CXXFLAGS", "LDFLAGS", "MALLOC_*"), is_of_machine=True),
    VariableGroup("GPUs", ("CUDA_*", "CUDNN_*", "CUBLAS_*", "NVIDIA_*"), is_of_machine=True),
    VariableGroup("PyTorch and its compiler",
          ("TORCH_*", "TORCHINDUCTOR_*", "TORCHDYNAMO_*", "PYTORCH_*", "TRITON_*", "KINETO_*")),
    VariableGroup("communication between workers",
          ("NCCL_*", "GLOO_*", "TP_SOCKET_IFNAME", "UCX_*", "FI_*", "IBV_*", "RDMAV_*")),
    VariableGroup("threads of numerical libraries",
          ("OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "NUMEXPR_*")),
    VariableGroup("proxies, unless a password is in the address",
          ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
           "http_proxy", "https_proxy", "all_proxy", "no_proxy")),
    VariableGroup("package indexes, unless a password is in the address",
          ("UV_*INDEX*", "UV_INSECURE_*", "UV_OFFLINE")),
    VariableGroup("uv", ("UV_*",), is_of_machine=True),
    VariableGroup("certificate authorities",
          ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
           "AWS_CA_BUNDLE"), is_of_machine=True),
    VariableGroup("caches of data sets and models, and whether they may download",
          ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HUB_OFFLINE",
           "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM",
           "MPLCONFIGDIR", "MPLBACKEND"), is_of_machine=True),
)  # fmt: skip
"""Variables that are passed to jobs; docs/guides/agents.md shows this list."""

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY$|_KEY_|APIKEY|_AUTH", re.IGNORECASE)
"""Pattern of secrets that PASSED would match by accident. A name listed in full is passed anyway.
"""
_OF_OUTER_JOB = ("SLURM_*", "SLURMD_*", "SRUN_*", "SBATCH_*", "PMI_*", "PMI2_*", "PMIX_*")
"""Variables of the job that the agent itself is in. Lightning, Accelerate, submitit and MPI take them
for a sign that srun has started their process as one of its tasks, so no pattern passes them."""
_NAMES = frozenset(name for group in PASSED for name in group.names if "*" not in name)
_PATTERNS = tuple(name for group in PASSED for name in group.names if "*" in name)


def passed(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of `environment` that jobs see: PASSED, and the names or patterns in `more`.

    `*` in `more` stands for any characters, so `*` alone passes everything but the agent's own settings
    (`MUSTER_…`), which no job sees, and what a batch system has set for the agent's job, which is only
    passed by its full name.
    """
    more = tuple(more)
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("MUSTER_")
        and (
            name == MARK
            or _is_passed(name, value)
            or name in more
            or (
                any(fnmatchcase(name, pattern) for pattern in more)
                and not any(fnmatchcase(name, pattern) for pattern in _OF_OUTER_JOB)
            )
        )
    }


def not_of_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that mean the same in a container."""

    def is_of_machine(name: str) -> bool:
        """The first group with the name decides."""
        for group in PASSED:
            if any(fnmatchcase(name, pattern) for pattern in group.names):
                return group.is_of_machine
        return False

    return {k: v for k, v in environment.items() if k != MARK and not is_of_machine(k)}


def withheld(environment: Mapping[str, str], more: Iterable[str] = ()) -> list[str]:
    """Return the sorted names of all other variables, without the agent's own settings."""
    given = passed(environment, more)
    return sorted(
        name for name in environment if name not in given and not name.startswith("MUSTER_")
    )


def _is_passed(name: str, value: str) -> bool:
    if name in _NAMES:
        return not (name.lower().endswith("_proxy") and _has_password(value))
    if _SECRET.search(name) or (name.startswith("UV_") and _has_password(value)):
        return False
    return any(fnmatchcase(name, pattern) for pattern in _PATTERNS)


def _has_password(address: str) -> bool:
    """Return whether a proxy URL contains credentials, as http://user:password@proxy:3128 does."""
    try:
        return "@" in urlsplit(address if "//" in address else f"//{address}").netloc
    except ValueError:
        return True


_OF_COMMUNICATION = (
    "NCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "GLOO_",
    "UCX_",
    "CUDA_DEVICE_MAX_CONNECTIONS",
)
SHOWN_MAX = 100
SHOWN_CHARS_MAX = 500


def communication_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide how workers communicate, by name, at most SHOWN_MAX; none
    whose name looks like that of a secret."""
    names = [
        name
        for name in sorted(environment)
        if name.startswith(_OF_COMMUNICATION) and not _SECRET.search(name)
    ]
    return {name: environment[name][:SHOWN_CHARS_MAX] for name in names[:SHOWN_MAX]}
