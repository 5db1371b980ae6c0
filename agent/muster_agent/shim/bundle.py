"""Extract uploaded code. The archive comes from a user, so nothing in it is trusted."""

from __future__ import annotations

import errno
import sys
import zlib
from pathlib import Path

from muster.archive import RefusedArchive, check_archive

if sys.version_info >= (3, 11, 4):
    import tarfile
else:  # the first 3.11s, Debian 12's among them, know no filters of what is extracted
    from backports import tarfile  # type: ignore[no-redef]

_OF_THE_ARCHIVE = frozenset(
    {errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENAMETOOLONG, errno.ENOTDIR}
)
"""What unpacking says of an archive, wherever it is tried; all else it says of this node."""


class BundleError(Exception):
    """The archive is not there as code; the message is one sentence for people."""

    def __init__(self, message: str, *, is_permanent: bool, is_disk_full: bool = False) -> None:
        """is_permanent: no node could unpack it."""
        super().__init__(message)
        self.is_permanent = is_permanent
        self.is_disk_full = is_disk_full


def extract_bundle(
    archive: Path, folder: Path, *, max_members: int | None = None, max_bytes: int | None = None
) -> None:
    """Unpack a tar.gz into `folder`, which must not exist yet.

    The whole archive is checked before anything is written, by the rule of the server that took it
    (muster.archive). Raises BundleError.
    """
    try:
        with archive.open("rb") as file:
            check_archive(file, max_members=max_members, max_bytes=max_bytes)
        folder.mkdir(parents=True)
        with tarfile.open(archive, mode="r:gz") as tar:
            for member in tar:
                # Says what the rule says, and is told once more by another hand.
                tar.extract(member, folder, filter="data")
    except RefusedArchive as error:
        is_damaged = error.kind == "unreadable"  # here, for the server has read it
        if is_damaged:
            archive.unlink(missing_ok=True)
        raise BundleError(
            f"the code bundle was refused: {error}", is_permanent=not is_damaged
        ) from error
    except tarfile.FilterError as error:
        raise BundleError(f"the code bundle was refused: {error}", is_permanent=True) from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BundleError(
            f"the code bundle is not a readable tar.gz: {error}", is_permanent=False
        ) from error
    except OSError as error:
        raise BundleError(
            f"the code bundle could not be unpacked: {error}",
            is_permanent=error.errno in _OF_THE_ARCHIVE,
            is_disk_full=error.errno in (errno.ENOSPC, errno.EDQUOT),
        ) from error
