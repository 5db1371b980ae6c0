"""What may be set for the jobs of a provider.

Every value reaches a shell and a site's scheduler, so each must match a narrow pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

_WORD = r"[A-Za-z0-9_.,:@+%*&|()\[\]-]{1,128}"
_PATH = r"/[A-Za-z0-9_./@+-]{0,255}"
_PATTERNS = {
    "host": (r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}", "a name such as ann@login1, as ssh takes it"),
    "server_url": (r"https?://[A-Za-z0-9.:\[\]-]{1,255}", "a URL such as http://10.0.0.5:8470"),
    "folder": (_PATH, "an absolute path that the compute nodes see, such as /home/ann/muster"),
    "storage_dir": (_PATH, "an absolute path that the compute nodes see, such as /scratch/muster"),
    "agent": (_PATH, "the absolute path of muster-agent on the compute nodes"),
    "gres": (_WORD, "what sbatch takes as --gres, such as gpu:a100:4"),
    "time": (r"\d{1,9}", "a number of minutes"),
    "cpus_per_task": (r"[1-9]\d{0,4}", "a number of processors"),
    "memory_mb": (r"[1-9]\d{0,8}", "a number of MiB"),
}
_ANY = (_WORD, "letters, digits and _.,:@+%*&|()[]-")


class InvalidOption(ValueError):
    """What is wrong with an option, and what would work."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class SlurmOptions:
    """Options of the provider `slurm`. An empty one is left to Slurm."""

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
    memory_mb: str = ""

    @property
    def storage(self) -> str:
        return self.storage_dir or f"{self.folder}/storage"

    @property
    def name(self) -> str:
        """ "Slurm partition a100"."""
        return f"Slurm partition {self.partition}" if self.partition else "Slurm"


OPTION_NAMES = tuple(field.name for field in fields(SlurmOptions))
_REQUIRED = ("server_url", "folder", "agent")


def options_of(given: Mapping[str, object]) -> SlurmOptions:
    """Return the options. Raises InvalidOption for one that is unknown, missing, or not of its
    pattern."""
    values: dict[str, str] = {}
    for name, value in given.items():
        if name not in OPTION_NAMES:
            known = ", ".join(OPTION_NAMES)
            raise InvalidOption(name, f"is no option of this provider; there are {known}")
        text = str(value).strip() if value is not None else ""
        if not text:
            continue
        pattern, example = _PATTERNS.get(name, _ANY)
        if not re.fullmatch(pattern, text) or (name not in _PATTERNS and text.startswith("-")):
            raise InvalidOption(name, f"{text[:80]!r} does not work; write {example}")
        values[name] = text
    for name in _REQUIRED:
        if name not in values:
            raise InvalidOption(name, f"is missing; write {_PATTERNS[name][1]}")
    return SlurmOptions(**values)
