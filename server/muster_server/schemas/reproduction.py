"""What it takes to run a trial again."""

from __future__ import annotations

from .base import Output


class CodeVersionOut(Output):
    """Commit of the git repository that a code folder belongs to, and how the folder differed from
    it when it was sent."""

    commit: str
    branch: str
    """Branch that was checked out; "" for a detached commit."""
    is_dirty: bool
    """Whether the folder differed from the commit, by changed files or untracked ones."""
    diff: str
    """Changes of tracked files, as `git diff` prints them."""
    is_diff_cut: bool
    """Whether the changes were longer than `diff`."""
    untracked: list[str]
    """Names of untracked files and folders, relative to the code folder, at most 100."""
    version: str = ""
    """Version that setuptools_scm found there, for a project that uses it."""


class DataReadOut(Output):
    """Data set that an attempt has read."""

    path: str
    version: str
    """What the document calls it; "" for nothing."""
    digest: str
    """Digest of the names and contents of its files; "" if it was not computed."""
    num_files: int
    size_bytes: int
    problem: str
    """Why there is no digest; "" if there is one."""


class JobEnvironmentOut(Output):
    """What the processes of an attempt ran with, as its first node told."""

    attempt_no: int
    node_name: str
    python: str
    """Path of the interpreter."""
    python_version: str
    torch_version: str
    """Version of torch; "" if it is not installed."""
    cuda_version: str
    """CUDA version that torch was built for; "" for a CPU build."""
    driver_version: str
    """Version of the GPU driver; "" on slots of other types."""
    muster_version: str
    image: str
    """Name of the container image, with its registry; "" without one."""
    image_id: str
    image_digest: str
    """Name with the digest by which the same image can be pulled; "" for an image that was built or
    imported on its node, which only `image_id` identifies."""
    variables: dict[str, str]
    """Variables that decide how the workers communicate, such as `NCCL_ALGO`, as the document or the node
    sets them; without those that look like a secret."""
    packages: list[str]
    """Installed packages such as "numpy==2.1.0", sorted, at most 1,000."""
    num_packages: int
    """Number of all installed packages."""
    data: dict[str, DataReadOut] = {}
    """Data sets that are folders, by name, as they were when the attempt started."""


class ReproductionOut(Output):
    origins: dict[str, str]
    """Origin of each value of the configuration, by its dotted path: document, override or default.
    Empty for runs that Muster does not run."""
    command: list[str]
    """Command of the first node of the newest attempt, as a user would write it; empty before the
    first attempt."""
    code_sha256: str | None
    """Digest of the code bundle; null without one."""
    code_size_bytes: int | None
    code_version: CodeVersionOut | None
    """Null if the folder of the code was in no git repository."""
    environment: JobEnvironmentOut | None
    """Environment of the newest attempt; null before it was ready, and for attempts of older
    agents."""
