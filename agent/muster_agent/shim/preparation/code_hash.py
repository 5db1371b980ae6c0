"""Comparison of code that several nodes hold in a folder of their own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MAX_FILES = 20_000
MAX_TOTAL_BYTES = 256 * 2**20
_SKIPPED = frozenset({"__pycache__", "node_modules"})


def hash_code(
    folder: Path, *, max_files: int = MAX_FILES, max_total_bytes: int = MAX_TOTAL_BYTES
) -> str:
    """Return the SHA-256 over the names and contents of all files below `folder`, in hexadecimal.

    Left out: what begins with a dot, compiled Python and node_modules. "" when there is more than
    the limits allow, or something cannot be read: then the folders are not compared.
    """
    digest = hashlib.sha256()
    num_files = total_bytes = 0
    try:
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(f for f in folders if f not in _SKIPPED and f[0] != ".")
            for name in sorted(names):
                path = Path(parent, name)
                if name[0] == "." or name.endswith(".pyc") or not path.is_file():
                    continue
                num_files += 1
                total_bytes += path.stat().st_size
                if num_files > max_files or total_bytes > max_total_bytes:
                    return ""
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                digest.update(f"{path.relative_to(folder)}\0{content}\n".encode())
    except OSError:
        return ""
    return digest.hexdigest()
