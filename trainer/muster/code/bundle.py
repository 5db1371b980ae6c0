"""The code of an experiment as one reproducible archive.

Left out: what .musterignore says, else what .gitignore says (both in the syntax of .gitignore, of
the folder itself and of those below), always version control and caches, and what no node could use:
dangling links, locks of editors, sockets, virtual environments. `include` brings in what ignore files
leave out. The archive has no owners or order of its own, and the files' own times in whole seconds,
so an unchanged folder has an unchanged digest and is sent once.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import posixpath
import stat
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from pathspec import GitIgnoreSpec

from muster.byte_sizes import byte_size

from .archive import MEMBERS_MAX as FILES_MAX
from .archive import file_time

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
    ".git",  # a folder; a file in a worktree and in a submodule
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
EDITOR_LOCKS = (".#*", ".*.sw[a-p]", ".~lock.*#")
"""Names of the lock and swap files of Emacs, Vim and LibreOffice."""
REFUSED_SHOWN = 20
"""Entries named in a refusal; the rest is counted."""

UnsentKind = Literal["dangling link", "editor lock file", "special file", "virtual environment"]


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
    link: str = ""
    """Path from its folder to what it links to, inside the folder; "" for a file of its own."""


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
    unsent: Mapping[UnsentKind, Sequence[str]] = field(default_factory=dict)
    """Names of what is left out because no node could use it."""

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
    files = walk.with_links(list(walk.files(folder, [_ALWAYS])))
    if walk.refused:
        raise _refusal(folder, walk.refused)
    left_out = sorted(walk.left_out, key=lambda entry: (-entry.size_bytes, entry.name))
    return FolderContents(folder, files, left_out, walk.unsent)


def _refusal(folder: Path, refused: Mapping[str, str]) -> BundleError:
    """Return the error that names all entries that cannot be sent, with the reason of each."""
    shown = [f"{name} {reason}" for name, reason in list(refused.items())[:REFUSED_SHOWN]]
    if more := len(refused) - len(shown):
        shown.append(f"{more:,} more")
    them = "it" if len(refused) == 1 else "them"
    return BundleError(
        f"{len(refused):,} of the entries of {folder} cannot be sent: {'; '.join(shown)}.",
        f"list {them} in .musterignore if training does not need {them}, or replace links by copies",
    )


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
                    _add(tar, file)
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
    unsent: dict[UnsentKind, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons by name of what cannot be sent."""
    num_counted: int = 0
    """Entries of ignored folders seen so far."""

    def files(self, folder: Path, rules: list[_Rules]) -> Iterator[SentFile]:
        """Yield files to send below `folder`, sorted. Links are not followed."""
        relative = folder.relative_to(self.root)
        try:
            entries = sorted(folder.iterdir(), key=lambda p: p.name)
        except OSError as error:
            self.refused[_name_of(relative)] = f"cannot be read ({error.strerror})"
            return
        for name in (".musterignore", ".gitignore"):
            ignore_file = folder / name
            if ignore_file.is_file() and os.access(ignore_file, os.R_OK):
                lines = ignore_file.read_text(errors="replace").splitlines()
                rules = [*rules, _Rules(relative, GitIgnoreSpec.from_lines(lines), name)]
                break
        for entry in entries:
            is_dir = entry.is_dir()
            inside = entry.relative_to(self.root)
            # The innermost file that says anything wins, as in git.
            verdicts = ((rule, rule.ignores(inside, is_dir)) for rule in reversed(rules))
            rule, is_ignored = next((v for v in verdicts if v[1] is not None), (_ALWAYS, False))
            if is_ignored:
                yield from self._ignored(entry, inside, rule, is_dir=is_dir)
            elif not is_dir or entry.is_symlink():
                yield from self._file(entry)
            elif (entry / "pyvenv.cfg").is_file() or (entry / "conda-meta").is_dir():
                self._leave("virtual environment", entry)
            else:
                yield from self.files(entry, rules)

    def _file(self, path: Path) -> Iterator[SentFile]:
        name = path.relative_to(self.root).as_posix()
        if any(fnmatch(path.name, pattern) for pattern in EDITOR_LOCKS):
            self._leave("editor lock file", path)
        elif path.is_symlink():
            yield from self._link(path, name)
        elif not stat.S_ISREG((status := path.stat()).st_mode):
            self._leave("special file", path)
        elif not os.access(path, os.R_OK):
            self.refused[name] = "cannot be read (permission denied)"
        else:
            yield SentFile(path, name, status.st_size)

    def _link(self, path: Path, name: str) -> Iterator[SentFile]:
        """Yield a link as far as it is known before all files are: with the path in its end."""
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # It leads to nothing, or in a circle.
            self._leave("dangling link", path)
            return
        if not target.is_relative_to(self.root.resolve()):
            self.refused[name] = f"is a link to {target}, outside of the folder"
            return
        # Links on the way are gone then: a node refuses those that lead through others.
        yield SentFile(path, name, 0, os.path.relpath(target, path.parent.resolve()))

    def with_links(self, files: Sequence[SentFile]) -> list[SentFile]:
        """Return files to send with each link that leads to one of them, or to a folder of them.

        A link to another file is sent as a copy; one to another folder would dangle on a node.
        """
        sent = {file.name for file in files if not file.link}
        for name in list(sent):
            while name := posixpath.dirname(name):
                sent.add(name)
        settled = []
        for file in files:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(file.name), file.link))
            if not file.link or target in sent or target == ".":
                settled.append(file)
            elif not file.path.is_file():
                self._leave("dangling link", file.path)
            elif not os.access(file.path, os.R_OK):
                self.refused[file.name] = "cannot be read (permission denied)"
            else:
                settled.append(replace(file, size_bytes=file.path.stat().st_size, link=""))
        return settled

    def _leave(self, kind: UnsentKind, path: Path) -> None:
        self.unsent.setdefault(kind, []).append(path.relative_to(self.root).as_posix())

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


def _name_of(relative: Path) -> str:
    return relative.as_posix() + "/"


def _add(tar: tarfile.TarFile, file: SentFile) -> None:
    info = tarfile.TarInfo(file.name)
    if file.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, file.link, 0o777
        tar.addfile(info)
        return
    try:
        status, data = file.path.stat(), file.path.read_bytes()
    except OSError as error:
        raise BundleError(f"{file.path} cannot be read: {error.strerror}.") from None
    info.size = len(data)
    info.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    info.mtime = file_time(status.st_mtime)
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
