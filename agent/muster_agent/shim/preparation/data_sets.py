"""Digests of the data sets that a job reads, so that it is known which version it has read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from muster import wire
from muster.document.running import DataSection
from muster_agent.environments.failures import BuildCanceled
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.preparation.work import Tell

MAX_FILES = 100_000
MAX_S = 600.0
"""Seconds that reading a data set may take before a start. What was read by then is not read again."""
SETTLED_S = 2.0
"""Age in seconds of a file's last change from which size and time tell its next change: a file system may
give two changes in a row one time."""

_Known = dict[str, tuple[int, int, int, str]]
"""Path in the data set → size, times in ns of the last write and of the last change, SHA-256. A program can
set the first time back, and not the second."""


class _NoDigest(Exception):
    """The digest is not computed; the message is one clause for people."""


def read_data(
    sections: Mapping[str, DataSection],
    *,
    cache: Path,
    tell: Tell,
    is_canceled: Callable[[], bool] = lambda: False,
    max_files: int = MAX_FILES,
    max_s: float = MAX_S,
) -> dict[str, wire.DataRead]:
    """Return the digest of each data set that is a folder. Files whose size and time are as they were are
    not read again.

    cache: folder of the node for what is known of files. Raises PrepareFailed for a data set that has
    another digest than its document says, or of which it cannot be computed, and BuildCanceled.
    """
    found = {}
    for name, section in sorted(sections.items()):
        if section.folder is None:
            continue
        top = Path(section.folder)
        version = section.version or ""
        try:
            digests, size_bytes = _digests(top, cache, is_canceled, max_files, max_s)
        except (_NoDigest, OSError) as error:
            problem = str(error)
            if section.digest is not None:
                raise PrepareFailed(
                    f"the data set {name} ({top}) must have the digest {section.digest}, and its own "
                    f"is not known: {problem}"
                ) from error
            tell("warning", f"The digest of the data set {name} is not known: {problem}.")
            found[name] = wire.DataRead(path=str(top), version=version, problem=problem)
            continue
        digest = wire.content_digest(digests)
        if section.digest not in (None, digest):
            raise PrepareFailed(
                f"the data set {name} ({top}) has the digest {digest} on this node, and the document "
                f"asks for {section.digest}"
            )
        found[name] = wire.DataRead(
            path=str(top),
            version=version,
            digest=digest,
            num_files=len(digests),
            size_bytes=size_bytes,
        )
    return found


def _digests(
    top: Path, cache: Path, is_canceled: Callable[[], bool], max_files: int, max_s: float
) -> tuple[dict[str, str], int]:
    """Return the SHA-256 of each file by its path below `top`, and the size of all. Raises _NoDigest, and
    OSError for what cannot be read."""
    deadline = time.monotonic() + max_s
    store = cache / f"{hashlib.sha256(str(top).encode()).hexdigest()[:32]}.json"
    known, now_known = _load(store), _Known()
    digests: dict[str, str] = {}
    size_bytes = 0
    try:
        for path in _files(top):
            if is_canceled():
                raise BuildCanceled
            if len(digests) >= max_files:
                raise _NoDigest(f"it has more than {max_files:,} files")
            if time.monotonic() > deadline:
                raise _NoDigest(
                    f"reading it takes longer than {max_s:,.0f} s; the next start goes on"
                )
            of = path.stat()
            if not stat.S_ISREG(of.st_mode):
                raise _NoDigest(f"{path} is no regular file")
            name = path.relative_to(top).as_posix() if path != top else path.name
            before = known.get(name)
            stamp = (of.st_size, of.st_mtime_ns, of.st_ctime_ns)
            if before is not None and before[:3] == stamp:
                sha256 = before[3]
            else:
                with path.open("rb") as file:
                    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if time.time() - of.st_ctime > SETTLED_S:
                now_known[name] = (*stamp, sha256)
            digests[name] = sha256
            size_bytes += of.st_size
    finally:
        if now_known != known:
            _save(store, known | now_known if len(now_known) < len(known) else now_known)
    return digests, size_bytes


def _files(top: Path) -> Iterator[Path]:
    if not top.is_dir():
        yield top
        return

    def refuse(error: OSError) -> None:
        raise error

    # Links are followed, as the job does: a loop of them ends at the number of files.
    for parent, folders, names in os.walk(top, onerror=refuse, followlinks=True):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names))


def _load(store: Path) -> _Known:
    try:
        found = json.loads(store.read_text())
        return {name: (int(a), int(b), int(c), str(d)) for name, (a, b, c, d) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _save(store: Path, known: _Known) -> None:
    """Keep what is known. A full disk costs no more than reading the files again."""
    with contextlib.suppress(OSError):
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = store.with_name(f"{store.name}.{os.getpid()}")
        draft.write_text(json.dumps(known))
        draft.replace(store)
