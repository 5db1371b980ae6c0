"""Extract uploaded code. The archive comes from a user, so nothing in it is trusted."""

from __future__ import annotations

import errno
import sys
import zlib
from pathlib import Path

from muster.code.archive import RefusedArchive, check_archive, file_time

if sys.version_info >= (3, 11, 4):
    import tarfile
else:  # The first releases of 3.11, Debian 12's among them, have no extraction filters.
    from backports import tarfile  # type: ignore[no-redef]

_OF_THE_ARCHIVE = frozenset(
    {errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENAMETOOLONG, errno.ENOTDIR}
)
"""Errors that the archive causes on every node; all others are caused by this node."""


class ExtractionError(Exception):
    """The archive cannot be unpacked as code; the message is one sentence for people."""

    def __init__(self, message: str, *, is_permanent: bool, is_disk_full: bool = False) -> None:
        """Create the error; `is_permanent` means that no node could unpack the archive."""
        super().__init__(message)
        self.is_permanent = is_permanent
        self.is_disk_full = is_disk_full


def extract_bundle(
    archive: Path, folder: Path, *, max_members: int | None = None, max_bytes: int | None = None
) -> None:
    """Unpack a tar.gz into `folder`, which must not exist yet.

    The whole archive is checked before anything is written, by the rule of the server that took it
    (muster.code.archive). Raises BundleError.
    """
    try:
        with archive.open("rb") as file:
            check_archive(file, max_members=max_members, max_bytes=max_bytes)
        folder.mkdir(parents=True)
        with tarfile.open(archive, mode="r:gz") as tar:
            for member in tar:
                member.mtime = file_time(member.mtime)  # Clients may have sent times of 1970.
                # The same rule, enforced once more by the standard library.
                tar.extract(member, folder, filter="data")
    except RefusedArchive as error:
        is_damaged = (
            error.kind == "unreadable"
        )  # This node's fault, for the server has read the archive.
        if is_damaged:
            archive.unlink(missing_ok=True)
        raise ExtractionError(
            f"the code bundle was refused: {error}", is_permanent=not is_damaged
        ) from error
    except tarfile.FilterError as error:
        raise ExtractionError(f"the code bundle was refused: {error}", is_permanent=True) from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ExtractionError(
            f"the code bundle is not a readable tar.gz: {error}", is_permanent=False
        ) from error
    except OSError as error:
        raise ExtractionError(
            f"the code bundle could not be unpacked: {error}",
            is_permanent=error.errno in _OF_THE_ARCHIVE,
            is_disk_full=error.errno in (errno.ENOSPC, errno.EDQUOT),
        ) from error
