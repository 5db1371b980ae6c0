"""The commit that a code folder was at when it was sent, and how the folder differs from it."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

DIFF_MAX_BYTES = 64 * 1024
UNTRACKED_MAX = 100
"""Names of untracked files that are told to the server."""
_TIMEOUT_S = 5.0
"""Time that each call of git may take: sending code must not wait for a slow file system."""
_HEAD = "# branch.oid "
_BRANCH = "# branch.head "
_UNTRACKED = "? "
_SCM_TOOLS = re.compile(r"setuptools[_-]scm|hatch-vcs")
_TAG = re.compile(r"(\d+(?:\.\d+)*)((?:a|b|rc)\d+)?$")
"""Version at the end of a tag."""


@dataclass(frozen=True, kw_only=True)
class CodeVersion:
    """State of a folder in a git repository."""

    commit: str
    """Object name of the commit that is checked out."""
    branch: str
    """Branch that is checked out; "" for a detached commit."""
    is_dirty: bool
    """Whether the folder differs from the commit, by changed files or untracked ones."""
    diff: str = ""
    """Changes of tracked files in the folder, as `git diff` prints them; whole lines, at most
    DIFF_MAX_BYTES."""
    is_diff_cut: bool = False
    """Whether the changes are longer than `diff`."""
    untracked: list[str] = field(default_factory=list)
    """Names of untracked files and folders, at most UNTRACKED_MAX, relative to the folder. What git
    ignores is not among them."""
    version: str = ""
    """Version that setuptools_scm would find in the repository, for a project that uses it; "" for
    others."""

    def body(self) -> dict[str, Any]:
        """Return it as a request tells it; servers before `version` know the rest."""
        told = asdict(self)
        return told if self.version else {k: v for k, v in told.items() if k != "version"}


def code_version(folder: Path) -> CodeVersion | None:
    """Return the version of the code in `folder`.

    None if the folder holds no files that git tracks, if there is no commit, or if git is missing,
    fails, or takes too long: the code itself is sent in any case.
    """
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None
    git = shutil.which("git")
    if git is None:
        return None
    try:
        if not _read(git, folder, "ls-files", "--cached", "--", ".", max_bytes=1):
            return None
        status = _read(git, folder, "status", "--porcelain=v2", "--branch", "--", ".").splitlines()
        head = {key: _after(key, status) for key in (_HEAD, _BRANCH)}
        changes = [line for line in status if not line.startswith("#")]
        untracked = [
            line.removeprefix(_UNTRACKED) for line in changes if line.startswith(_UNTRACKED)
        ]
        if head[_HEAD] in ("", "(initial)"):
            return None
        diff = ""
        is_changed = len(changes) > len(untracked)
        if is_changed:
            options = ("--no-color", "--no-ext-diff", "--no-textconv", "--relative")
            diff = _read(
                git, folder, "diff", *options, "HEAD", "--", ".", max_bytes=DIFF_MAX_BYTES + 1
            )
        version = ""
        if _uses_scm_version(folder):
            version = _scm_version(git, folder, head[_HEAD], is_changed=is_changed)
    except (OSError, subprocess.SubprocessError):
        return None
    kept = _whole_lines(diff, DIFF_MAX_BYTES)
    return CodeVersion(
        commit=head[_HEAD],
        branch="" if head[_BRANCH] == "(detached)" else head[_BRANCH][:255],
        is_dirty=bool(changes),
        diff=kept,
        is_diff_cut=len(kept) < len(diff),
        untracked=[name[:1000] for name in untracked[:UNTRACKED_MAX]],
        version=version,
    )


def _uses_scm_version(folder: Path) -> bool:
    for name in ("pyproject.toml", "setup.cfg", "setup.py"):
        with contextlib.suppress(OSError):
            if _SCM_TOOLS.search((folder / name).read_text(errors="replace")):
                return True
    return False


def _scm_version(git: str, folder: Path, commit: str, *, is_changed: bool) -> str:
    """Return the version by the defaults of setuptools_scm: the next one after the newest tag."""
    try:
        described = _read(git, folder, "describe", "--tags", "--long", "--match", "*[0-9]*").strip()
    except subprocess.CalledProcessError:
        described = ""  # No tag.
    tag, _, rest = described.rpartition("-g")[0].rpartition("-")
    found = _TAG.search(tag)
    if found is None:
        distance, last, pre = _read(git, folder, "rev-list", "--count", "HEAD").strip(), "0.0", ""
    else:
        distance, last, pre = rest, found[1], found[2] or ""
    if distance == "0" and not is_changed:
        return last + pre
    digits = re.search(r"\d+$", last + pre)
    following = f"{(last + pre)[: digits.start()]}{int(digits[0]) + 1}" if digits else last
    node = [] if distance == "0" else [f"g{commit[:9]}"]
    day = [f"{dt.date.today():d%Y%m%d}"] if is_changed else []
    return f"{following}.dev{distance}+{'.'.join(node + day)}"


def _read(git: str, folder: Path, *arguments: str, max_bytes: int = 1 << 20) -> str:
    """Return the first `max_bytes` of what git prints. Raises OSError and SubprocessError."""
    environment = {
        **os.environ,
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }
    # A monitor of the file system is a program that the repository's own configuration names.
    options = [
        "-c",
        "core.fsmonitor=false",
        "-c",
        "status.relativePaths=true",
        "-c",
        "core.quotePath=false",
    ]
    with tempfile.TemporaryFile() as printed:
        subprocess.run(
            [git, *options, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=True,
        )
        printed.seek(0)
        return printed.read(max_bytes).decode("utf-8", "replace").replace("\0", "\ufffd")


def _after(prefix: str, lines: list[str]) -> str:
    return next((line.removeprefix(prefix) for line in lines if line.startswith(prefix)), "")


def _whole_lines(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    return encoded[: encoded.rfind(b"\n", 0, max_bytes) + 1].decode("utf-8", "replace")
