"""The code of an experiment as one reproducible archive.

Left out: what .musterignore says, else what .gitignore says (both in the syntax of .gitignore, of
the folder itself and of those below), and always version control and caches. The archive has no
times, owners or order of its own, so unchanged code has an unchanged digest and is sent once.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

BUNDLE_MAX_BYTES = 100 * 1_048_576
FILES_MAX = 20_000
ALWAYS_LEFT_OUT = [
    ".git/",
    ".hg/",
    ".svn/",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    "node_modules/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".ipynb_checkpoints/",
    ".muster/",
    ".DS_Store",
]


class BundleError(Exception):
    """An error in making a bundle; `message` is one sentence, `hint` is what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Bundle:
    path: Path
    """Temporary file that the caller removes."""
    sha256: str
    size_bytes: int
    num_files: int

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Rules:
    """Ignore patterns and the folder (relative to the root) that they count from."""

    base: Path
    spec: GitIgnoreSpec

    def ignores(self, path: Path, is_dir: bool) -> bool | None:
        """Return whether these rules ignore the path; None if they do not mention it."""
        relative = path.relative_to(self.base).as_posix() + ("/" if is_dir else "")
        return self.spec.check_file(relative).include


def make_bundle(folder: Path, *, max_bytes: int = BUNDLE_MAX_BYTES) -> Bundle:
    """Pack `folder`. Raises BundleError if it is no folder, is empty, or is too large."""
    if not folder.is_dir():
        raise BundleError(
            f"The code folder {folder} does not exist."
            if not folder.exists()
            else f"{folder} is not a folder.",
            "`code.path` is relative to the document; `--code DIR` overrides it",
        )
    files = list(
        _files(folder, folder, [_Rules(Path(), GitIgnoreSpec.from_lines(ALWAYS_LEFT_OUT))])
    )
    if not files:
        raise BundleError(f"There are no files to send in {folder}.")
    if len(files) > FILES_MAX:
        raise BundleError(
            f"{folder} holds {len(files):,} files, more than {FILES_MAX:,}.",
            "list what training does not need in a file .musterignore (syntax of .gitignore)",
        )
    # Text compresses some five times; beyond that there is no need to try.
    total = sum(path.stat().st_size for path in files)
    if total > 20 * max_bytes:
        raise _too_large(folder, files, total, max_bytes)
    with tempfile.NamedTemporaryFile(prefix="muster-code-", suffix=".tar.gz", delete=False) as out:
        archive = Path(out.name)
        try:
            with (
                gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0, compresslevel=6) as gz,
                tarfile.open(fileobj=gz, mode="w", format=tarfile.GNU_FORMAT) as tar,
            ):
                for path in files:
                    _add(tar, path, path.relative_to(folder).as_posix())
                    if out.tell() > max_bytes:
                        raise _too_large(folder, files, total, max_bytes)
            out.flush()
            size = out.tell()
            if size > max_bytes:
                raise _too_large(folder, files, total, max_bytes)
        except BaseException:
            archive.unlink(missing_ok=True)
            raise
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Bundle(archive, digest, size, len(files))


def _files(folder: Path, root: Path, rules: list[_Rules]) -> Iterator[Path]:
    """Yield regular files below `folder`, sorted; links are followed only when they stay inside."""
    relative = folder.relative_to(root)
    for name in (".musterignore", ".gitignore"):
        ignore_file = folder / name
        if ignore_file.is_file():
            lines = ignore_file.read_text(errors="replace").splitlines()
            rules = [*rules, _Rules(relative, GitIgnoreSpec.from_lines(lines))]
            break
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        is_dir = entry.is_dir()
        inside = entry.relative_to(root)
        verdicts = [rule.ignores(inside, is_dir) for rule in rules]
        said = [v for v in verdicts if v is not None]
        if said and said[-1]:  # the innermost file that says anything wins, as in git
            continue
        if entry.is_symlink():
            target = entry.resolve()
            if is_dir or not target.is_relative_to(root.resolve()):
                raise BundleError(
                    f"{entry} is a link to {target}, which would not exist on a node.",
                    "list it in .musterignore, or copy what it points to",
                )
        if is_dir:
            yield from _files(entry, root, rules)
        elif stat.S_ISREG(entry.stat().st_mode):
            yield entry


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    data = path.read_bytes()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
    tar.addfile(info, io.BytesIO(data))


def _too_large(folder: Path, files: list[Path], total: int, max_bytes: int) -> BundleError:
    largest = sorted(files, key=lambda p: p.stat().st_size, reverse=True)[:5]
    named = ", ".join(
        f"{path.relative_to(folder)} ({path.stat().st_size / 1e6:.0f} MB)" for path in largest
    )
    return BundleError(
        f"The code in {folder} is too large: {total / 1e6:.0f} MB in {len(files)} files, and at most "
        f"{max_bytes / 1e6:.0f} MB compressed can be sent; the largest: {named}.",
        "list data and results in a file .musterignore (syntax of .gitignore); "
        "training reads data from a path or downloads it",
    )
