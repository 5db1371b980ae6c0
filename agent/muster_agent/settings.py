"""Settings of an agent, from `MUSTER_AGENT_*`, read once."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from muster.durations import duration_s

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


ContainerSetting = Literal["auto", "podman", "docker", "apptainer", "none"]


class AgentSettings(BaseSettings):
    """Settings of one agent. The defaults work on a laptop; the server's address has none."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_AGENT_", extra="ignore")

    server_url: str
    """Address of the Muster server, for example https://muster.example:8470."""
    join_token: SecretStr | None = None
    """Token that is exchanged for a credential of the agent's own at the first registration."""
    join_token_file: Path | None = None
    """File that holds the join token; keeps it out of process listings."""
    name: str = Field(default_factory=lambda: socket.gethostname().split(".")[0], max_length=128)
    """The node's name, unique in the cluster."""
    home: Path = Field(default_factory=lambda: Path.home() / ".muster" / "agent")
    """Folder for the credential, the spool and the code cache. One agent per home."""
    pool: str = Field("default", max_length=64)
    labels: Annotated[dict[str, str], NoDecode] = {}
    """Labels of the node, for example `zone=a,rack=3`."""
    slot_type: Literal["auto", "cpu", "cuda"] = "auto"
    """Type of the slots offered. `auto` means `cuda` where there are NVIDIA devices, else `cpu`."""
    slots: int | None = Field(None, ge=0, le=4096)
    """Number of CPU slots offered (default: one per CPU), or of the first CUDA devices."""
    address: str | None = None
    """Address at which other nodes reach this one. Default: the local address of the route to the
    server."""
    python: str = sys.executable
    """Training interpreter of experiments that name none."""
    storage_dir: Path | None = None
    """Folder for checkpoints; nodes that run one trial after another need a shared folder. Default:
    `storage` in home."""
    ca_file: Path | None = None
    """Certificate authority of the server, if it is not a public one."""
    spool_limit_bytes: int = Field(2 * 1024**3, ge=1024**2)
    """Limit in bytes of the records kept on disk per allocation while the server is out of reach.
    """
    bundle_cache_bytes: int = Field(2 * 1024**3, ge=0)
    models_cache_bytes: int = Field(20 * 10**9, ge=0)
    """Limit in bytes of the files of models that are kept for further jobs. Past it, those not used
    for the longest time are deleted."""
    work_restore_max_bytes: int = Field(50 * 10**9, ge=0)
    """Limit in bytes of an earlier attempt's files that this node fetches from the storage when a
    trial continues here. A trial with more than that does not start on this node."""
    outputs_bytes_per_s: int = Field(200 * 10**6, ge=10**6)
    """Limit in bytes per second of copying the files that jobs write into the storage."""
    environments_limit_bytes: int = Field(50 * 10**9, ge=0)
    """Limit in bytes of the environments built for `environment.requirements` and `setup`. Past it,
    those not used for the longest time are deleted, except those in use."""
    data_limit_bytes: int = Field(500 * 10**9, ge=0)
    """Limit in bytes of the data sets kept for `data.<name>.command` and `cached`. Past it, and where
    another one needs the room, those not used for the longest time are deleted, except those in use."""
    kill_wait_s: float = Field(180.0, gt=0)
    """Seconds that the kernel may take to end processes after SIGKILL. Meanwhile their allocation keeps
    its slots; what is left then keeps new work away from the node until it is gone."""
    quarantine_after_s: float = Field(60.0, gt=0)
    """Seconds after a job's end until a GPU whose memory is still in use counts as quarantined. Its slot
    takes no new work before that either, until the memory is free."""
    warm_workers: Literal["trainer", "all", "none"] = "trainer"
    """Workers to fork from a process that has already imported torch, where this is equivalent to
    starting them: those of the built-in trainer, of all scripts, or none. Unless it is none, torchrun is
    forked for the other workers. Saves seconds per start and takes 300 to 400 MB while the process is
    kept. See docs/concepts/warm-workers.md."""
    warm_imports: Annotated[tuple[str, ...], NoDecode] = ()
    """Further modules that those processes import, for example `sklearn.datasets,pandas`: installed
    modules that scripts take long to import. A module that reads a variable at import time sees
    the agent's environment and `environment.variables`, not what a script sets first."""
    pass_environment: Annotated[tuple[str, ...], NoDecode] = ()
    """Variables of the agent's own environment that its jobs see besides those in
    docs/guides/agents.md, for example `WANDB_API_KEY,AWS_*`; `*` stands for any characters.
    Every job on this machine can read them. `muster-agent check` lists what is passed and what
    is not."""
    tunnels: bool = True
    """Whether users may open commands, shells and ports inside their running jobs on this node
    (`muster exec`, `shell` and `port`)."""
    isolation: Literal["auto", "none", "user", "sandbox"] = "auto"
    """Walls around jobs. `sandbox`: bubblewrap; an agent that runs as root gives each project a user
    id besides. `user`: that user id alone; needs root. `none`: jobs can do all that the agent can.
    `auto`: `sandbox` where bubblewrap works, else `none`. With `sandbox` and
    `user` the agent does not start where the level does not work. See docs/concepts/security.md."""
    uid_base: int = Field(400_000, ge=1_000, le=2_000_000_000)
    """First user id of jobs: that of a project is this number plus the project's. The 100,000 ids
    from here on must be nobody else's. The same on all nodes that share a storage folder."""
    job_reads: Annotated[tuple[Path, ...], NoDecode] = ()
    """Further folders that jobs in a sandbox can read, for example `/home/ann/data`: what lies in
    home folders, which a sandbox hides, and is not named in documents."""
    job_writes: Annotated[tuple[Path, ...], NoDecode] = ()
    """Further folders that jobs in a sandbox can write, for example `/scratch,/data/hf-cache`."""
    job_memory: Literal["unlimited", "share"] = "unlimited"
    """Limit of memory of jobs whose document declares none (`resources.memory`). `share`: of the
    machine's memory as much as of its slots. A job that uses more is ended."""
    containers: ContainerSetting = "auto"
    """Container engine for jobs that name an image. `auto`: Podman where it can run a container, else
    Docker where it can; Apptainer has to be named. An engine is tried when the agent starts, with an empty image named
    `localhost/muster-probe`."""
    images_limit_bytes: int = Field(100 * 10**9, ge=0)
    """Limit in bytes of the container images that this agent has pulled. Past it, those not used for
    the longest time are deleted after a pull, except those that a container uses. Images that
    somebody else has pulled, built or tagged are never deleted. `muster-agent images` shows what
    would be deleted."""
    once: bool = False
    """Leave the cluster when the first allocation on this node has ended. Nothing is placed here any
    more then, and what runs is finished first. With this or one of the next three the agent is a
    pilot: it ends what runs here when it ends itself, and takes its node out of the cluster."""
    idle_exit_s: float | None = Field(None, ge=1, le=2_592_000)
    """Leave the cluster after nothing has run here for this time: seconds, or `10m`, `1h30m`."""
    ends_at: float | None = Field(None, ge=0, le=32_503_680_000)
    """Unix time in seconds at which this agent is killed at the latest, as by a batch system. Trials
    whose time limit is longer than what is left are not placed here, and before it those that run
    here save a checkpoint and go on elsewhere."""
    term_grace_s: float | None = Field(None, gt=0, le=86_400)
    """Time in seconds that a batch system or service manager leaves all processes of this agent between
    SIGTERM and SIGKILL, such as Slurm's KillWait; 30 if it is not given. What runs here saves a
    checkpoint within it."""
    provider_ref: str = Field("", max_length=255)
    """What the batch system calls this agent, such as `slurm:lab:1234`; shown with the node."""
    stop_allocations: bool = False
    """Whether to stop running allocations on SIGTERM. Otherwise training goes on without the agent.
    """

    @field_validator("server_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be a URL such as https://muster.example:8470")
        return value.rstrip("/")

    @field_validator("labels", mode="before")
    @classmethod
    def _split_labels(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        labels = {}
        for item in filter(None, (part.strip() for part in value.split(","))):
            key, separator, text = item.partition("=")
            if not separator or not key:
                raise ValueError("must be written key=value,key=value")
            labels[key.strip()] = text.strip()
        return labels

    @field_validator("warm_imports", mode="before")
    @classmethod
    def _split_imports(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        names = tuple(filter(None, (part.strip() for part in value.split(","))))
        for name in names:
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(
                    f"must be modules such as sklearn.datasets,pandas; {name!r} is none"
                )
        return names

    @field_validator("pass_environment", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        names = tuple(filter(None, (part.strip() for part in value.split(","))))
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_*]+", name):
                raise ValueError(
                    f"must be names or patterns such as WANDB_API_KEY,AWS_*; {name!r} is neither"
                )
        return names

    @field_validator("job_reads", "job_writes", mode="before")
    @classmethod
    def _split_folders(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        folders = tuple(Path(part.strip()) for part in value.split(",") if part.strip())
        for folder in folders:
            if not folder.is_absolute() or folder == Path("/"):
                raise ValueError(f"must be absolute paths such as /scratch,/data; not {folder}")
        return folders

    @field_validator("home", "storage_dir", "join_token_file", mode="after")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @field_validator("idle_exit_s", mode="before")
    @classmethod
    def _read_duration(cls, value: Any) -> Any:
        if not isinstance(value, str) or re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            return value
        seconds = duration_s(value)
        if seconds is None:
            raise ValueError(f"must be a length of time such as 600, 10m or 1h30m; not {value!r}")
        return seconds

    @field_validator("ends_at", "idle_exit_s", "term_grace_s", mode="before")
    @classmethod
    def _drop_empty(cls, value: Any) -> Any:
        """Take an empty variable for none, as a script sets it that does not know the end. Called
        before the validator above, since pydantic calls the last one first."""
        return None if isinstance(value, str) and not value.strip() else value

    @property
    def is_pilot(self) -> bool:
        """Whether the node leaves the cluster with this agent."""
        return (
            self.once
            or self.idle_exit_s is not None
            or self.ends_at is not None
            or bool(self.provider_ref)
        )

    @property
    def storage(self) -> Path:
        return self.storage_dir or self.home / "storage"

    @property
    def is_server_on_this_machine(self) -> bool:
        return urlsplit(self.server_url).hostname in _LOOPBACK

    def read_join_token(self) -> str | None:
        """Return the join token. Raises OSError if its file cannot be read."""
        if self.join_token is not None:
            return self.join_token.get_secret_value().strip() or None
        if self.join_token_file is not None:
            return self.join_token_file.read_text().strip() or None
        return None


def variables_of_settings() -> list[str]:
    """Return the names of the variables that set the settings above."""
    return [f"MUSTER_AGENT_{name.upper()}" for name in AgentSettings.model_fields]
