"""The code of an experiment as one reproducible archive.

Left out: what .musterignore says, else what .gitignore says (both in the syntax of .gitignore, of
the folder itself and of those below), and always version control and caches. `include` brings in
what those files leave out. The archive has no times, owners or order of its own, so unchanged code
has an unchanged digest and is sent once.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from muster.byte_sizes import byte_size

from .archive import MEMBERS_MAX as FILES_MAX

BUNDLE_MAX_BYTES = 100 * 1_048_576
UNPACKED_MAX_FACTOR = 20
"""Text compresses some five times; files of more than so many times the limit are not tried."""
COUNTED_MAX = 20_000
"""Entries of ignored folders that are looked at to tell their size."""
LEFT_OUT_MAX = 200
"""Names of left out files and folders that are told to the server."""
_LARGEST_SHOWN = 5
_SAMPLED_FROM_BYTES = 1 << 20
_SAMPLES = 8
_SAMPLE_BYTES = 16_384
_ESTIMATE_FACTOR = 1.5
"""Factor over the limit at which an estimated size is refused without compressing."""
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
class SentFile:
    """A file that goes into the archive."""

    path: Path
    name: str
    """Path relative to the folder, with slashes."""
    size_bytes: int


@dataclass(frozen=True)
class LeftOutEntry:
    """A file or folder that an ignore file leaves out."""

    name: str
    """Path relative to the folder; that of a folder ends with a slash."""
    ignore_file: str
    """".gitignore" or ".musterignore"."""
    num_files: int
    size_bytes: int
    is_partial: bool = False
    """The folder is larger: not all of it was looked at."""


@dataclass(frozen=True)
class FolderContents:
    """What of a folder is sent, and what is not."""

    folder: Path
    files: Sequence[SentFile]
    left_out: Sequence[LeftOutEntry]
    """Largest first. Without version control and caches, which are never sent."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def largest(self) -> Sequence[SentFile]:
        """The largest files, at most five, largest first."""
        return sorted(self.files, key=lambda f: (-f.size_bytes, f.name))[:_LARGEST_SHOWN]

    @property
    def left_out_names(self) -> list[str]:
        """Names for the server, of the largest at most LEFT_OUT_MAX."""
        return [entry.name for entry in self.left_out[:LEFT_OUT_MAX]]


@dataclass(frozen=True)
class Bundle:
    path: Path
    """Temporary file that the caller removes."""
    sha256: str
    size_bytes: int
    contents: FolderContents

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Rules:
    """Ignore patterns and the folder (relative to the root) that they count from."""

    base: Path
    spec: GitIgnoreSpec
    file_name: str
    """Name of the ignore file; "" for what is always left out."""

    def ignores(self, path: Path, is_dir: bool) -> bool | None:
        """Return whether these rules ignore the path; None if they do not mention it."""
        relative = path.relative_to(self.base).as_posix() + ("/" if is_dir else "")
        return self.spec.check_file(relative).include


_ALWAYS = _Rules(Path(), GitIgnoreSpec.from_lines(ALWAYS_LEFT_OUT), "")


def read_folder(folder: Path, *, include: Sequence[str] = ()) -> FolderContents:
    """Return what of `folder` is sent.

    include: patterns in the syntax of .gitignore, relative to the folder, of files to send although
    an ignore file names them. Raises BundleError if it is no folder, or if something in it cannot
    be read or sent.
    """
    if not folder.is_dir():
        raise BundleError(
            f"The code folder {folder} does not exist."
            if not folder.exists()
            else f"{folder} is not a folder.",
            "`code.path` is relative to the document; `--code DIR` overrides it",
        )
    walk = _Walk(folder, GitIgnoreSpec.from_lines(include) if include else None)
    try:
        files = list(walk.files(folder, [_ALWAYS]))
    except OSError as error:
        raise BundleError(
            f"{error.filename or folder} cannot be read: {error.strerror}.",
            "list it in .musterignore if training does not need it",
        ) from None
    left_out = sorted(walk.left_out, key=lambda entry: (-entry.size_bytes, entry.name))
    return FolderContents(folder, files, left_out)


def make_bundle(
    folder: Path, *, include: Sequence[str] = (), max_bytes: int = BUNDLE_MAX_BYTES
) -> Bundle:
    """Pack `folder`. Raises BundleError if it is no folder, is empty, or is too large."""
    contents = read_folder(folder, include=include)
    check_limits(contents, max_bytes=max_bytes)
    with tempfile.NamedTemporaryFile(prefix="muster-code-", suffix=".tar.gz", delete=False) as out:
        archive = Path(out.name)
        try:
            with (
                gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0, compresslevel=6) as gz,
                tarfile.open(fileobj=gz, mode="w", format=tarfile.GNU_FORMAT) as tar,
            ):
                for file in contents.files:
                    _add(tar, file.path, file.name)
                    if out.tell() > max_bytes:
                        raise _too_large(contents, max_bytes)
            out.flush()
            size = out.tell()
            if size > max_bytes:
                raise _too_large(contents, max_bytes)
        except BaseException:
            archive.unlink(missing_ok=True)
            raise
    with archive.open("rb") as packed:
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
    return Bundle(archive, digest, size, contents)


def check_limits(contents: FolderContents, *, max_bytes: int = BUNDLE_MAX_BYTES) -> None:
    """Raise BundleError for no files, too many, or more than can be sent, before any is compressed.

    The compressed size of large files is estimated from samples; what is near the limit passes, and
    `make_bundle` decides.
    """
    if not contents.files:
        ignored = (
            f"; ignore files leave out {len(contents.left_out):,}" if contents.left_out else ""
        )
        raise BundleError(f"There are no files to send in {contents.folder}{ignored}.")
    if len(contents.files) > FILES_MAX:
        folders = Counter(file.name.rpartition("/")[0] or "." for file in contents.files)
        most = ", ".join(f"{name} ({count:,})" for name, count in folders.most_common(3))
        raise BundleError(
            f"{contents.folder} holds {len(contents.files):,} files, more than {FILES_MAX:,}; most of "
            f"them in {most}.",
            "list what training does not need in a file .musterignore (syntax of .gitignore)",
        )
    total = contents.size_bytes
    is_estimated = total > max_bytes and _compressed_bytes(contents) > _ESTIMATE_FACTOR * max_bytes
    if is_estimated or total > UNPACKED_MAX_FACTOR * max_bytes:
        raise _too_large(contents, max_bytes)


@dataclass
class _Walk:
    """One look through a folder and all below it."""

    root: Path
    include: GitIgnoreSpec | None
    left_out: list[LeftOutEntry] = field(default_factory=list)
    num_counted: int = 0
    """Entries of ignored folders seen so far."""

    def files(self, folder: Path, rules: list[_Rules]) -> Iterator[SentFile]:
        """Yield files to send below `folder`, sorted; links are followed only when they stay
        inside."""
        relative = folder.relative_to(self.root)
        for name in (".musterignore", ".gitignore"):
            ignore_file = folder / name
            if ignore_file.is_file():
                lines = ignore_file.read_text(errors="replace").splitlines()
                rules = [*rules, _Rules(relative, GitIgnoreSpec.from_lines(lines), name)]
                break
        for entry in sorted(folder.iterdir(), key=lambda p: p.name):
            is_dir = entry.is_dir()
            inside = entry.relative_to(self.root)
            # The innermost file that says anything wins, as in git.
            verdicts = ((rule, rule.ignores(inside, is_dir)) for rule in reversed(rules))
            rule, is_ignored = next((v for v in verdicts if v[1] is not None), (_ALWAYS, False))
            if is_ignored:
                yield from self._ignored(entry, inside, rule, is_dir=is_dir)
            elif is_dir and not entry.is_symlink():
                yield from self.files(entry, rules)
            else:
                yield from self._file(entry)

    def _file(self, path: Path) -> Iterator[SentFile]:
        if path.is_symlink():
            target = path.resolve()
            if path.is_dir() or not target.is_relative_to(self.root.resolve()):
                raise BundleError(
                    f"{path} is a link to {target}, which would not exist on a node.",
                    "list it in .musterignore, or copy what it points to",
                )
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            yield SentFile(path, path.relative_to(self.root).as_posix(), status.st_size)

    def _ignored(
        self, path: Path, inside: Path, rule: _Rules, *, is_dir: bool
    ) -> Iterator[SentFile]:
        """Yield what `include` brings in of an ignored file or folder, and note the rest."""
        if not rule.file_name:
            return
        num_files = size_bytes = 0
        is_partial = False
        is_folder = is_dir and not path.is_symlink()
        for found in self._below(path) if is_folder else [path]:
            name = found.relative_to(self.root)
            if self.include is not None and self.include.check_file(name.as_posix()).include:
                yield from self._file(found)
                continue
            self.num_counted += 1
            if self.num_counted > COUNTED_MAX:
                is_partial = True
                if self.include is None:
                    break
                continue
            num_files += 1
            size_bytes += found.lstat().st_size
        if num_files or is_partial:
            name_text = inside.as_posix() + ("/" if is_folder else "")
            self.left_out.append(
                LeftOutEntry(name_text, rule.file_name, num_files, size_bytes, is_partial)
            )

    def _below(self, folder: Path) -> Iterator[Path]:
        """Yield files below an ignored folder, sorted, without version control and caches. What
        cannot be read counts as empty: nothing of it was to be sent."""
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in found:
            path = Path(entry.path)
            is_dir = entry.is_dir(follow_symlinks=False)
            if _ALWAYS.ignores(path.relative_to(self.root), is_dir):
                continue
            if is_dir:
                yield from self._below(path)
            else:
                yield path


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    data = path.read_bytes()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
    tar.addfile(info, io.BytesIO(data))


def _compressed_bytes(contents: FolderContents) -> float:
    """Estimate the compressed size of the files of a MiB and more from samples of them; smaller
    files count as nothing."""
    return sum(
        file.size_bytes * _compressed_share(file)
        for file in contents.files
        if file.size_bytes >= _SAMPLED_FROM_BYTES
    )


def _compressed_share(file: SentFile) -> float:
    """Return compressed bytes per byte, from samples spread evenly over a file; at most 1."""
    samples = []
    with file.path.open("rb") as opened:
        for number in range(_SAMPLES):
            opened.seek((file.size_bytes - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            samples.append(opened.read(_SAMPLE_BYTES))
    data = b"".join(samples)
    return min(1.0, len(zlib.compress(data, 6)) / len(data)) if data else 0.0


def _named(files: Iterable[SentFile]) -> str:
    return ", ".join(f"{file.name} ({byte_size(file.size_bytes)})" for file in files)


def _too_large(contents: FolderContents, max_bytes: int) -> BundleError:
    return BundleError(
        f"The code in {contents.folder} is too large: {byte_size(contents.size_bytes)} in "
        f"{len(contents.files):,} files, and at most {byte_size(max_bytes)} compressed can be sent; "
        f"the largest: {_named(contents.largest)}.",
        "list data and results in a file .musterignore (syntax of .gitignore); "
        "training reads data from a path or downloads it",
    )
