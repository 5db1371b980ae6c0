"""What a version of a model consists of: names, digests, and files that can run code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import PurePosixPath

FILES_MAX = 1000
"""Most files of one version."""
PATH_MAX_CHARS = 500
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ALIAS_NAME = r"^[a-z][a-z0-9_-]{0,31}$"
MODEL_NAME_RULE = "begins with a letter or digit and has at most 64 letters, digits, dots, hyphens and underscores"
ALIAS_NAME_RULE = (
    "begins with a lower-case letter and has at most 32 lower-case letters, digits, hyphens and "
    "underscores"
)
UNSAFE_SUFFIXES = frozenset(
    {
        ".bin", ".ckpt", ".dill", ".h5", ".hdf5", ".joblib", ".keras", ".pickle", ".pkl", ".pt",
        ".pt2", ".pth", ".skops", ".py", ".so", ".sh",
    }
)  # fmt: skip
UNSAFE_SENTENCE = (
    "Loading this file can run code that it contains: load it only if you trust whoever made it."
)
_DRIVE = re.compile(r"^[A-Za-z]:")


def path_problem(path: str) -> str | None:
    """Return why a path cannot be one of a version's files, as it follows the path; None if it can."""
    parts = path.split("/")
    if len(path) > PATH_MAX_CHARS:
        return f"has more than {PATH_MAX_CHARS} characters"
    if any(part in ("", ".", "..") for part in parts) or _DRIVE.match(path):
        return "must be relative, without empty parts, . and .."
    if "\\" in path or any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in path):
        return "must not contain backslashes or control characters"
    if unicodedata.normalize("NFC", path) != path:
        return "must be written in Unicode's normal form NFC"
    if parts[0].startswith(".muster"):
        return "must not begin with .muster"
    return None


def clash(paths: Mapping[str, object]) -> str | None:
    """Return a path that would be both a file and a folder; None if there is none."""
    for path in paths:
        parts = path.split("/")
        for n in range(1, len(parts)):
            if (above := "/".join(parts[:n])) in paths:
                return above
    return None


def warning_of(path: str) -> str:
    """Return the sentence about a file that can run code when it is loaded; "" for any other."""
    return UNSAFE_SENTENCE if PurePosixPath(path).suffix.lower() in UNSAFE_SUFFIXES else ""
