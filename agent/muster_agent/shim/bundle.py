"""Extract uploaded code. The archive comes from a user, so nothing in it is trusted."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path, PurePosixPath

if sys.version_info >= (3, 11, 4):
    import tarfile
else:  # the first 3.11s, Debian 12's among them, know no filters of what is extracted
    from backports import tarfile  # type: ignore[no-redef]

MAX_MEMBERS = 50_000
MAX_TOTAL_BYTES = 2 * 1024**3
MAX_PATH_CHARS = 1_000


class BundleError(Exception):
    """The archive was refused; the message is one sentence for people."""


def extract_bundle(
    archive: Path,
    folder: Path,
    *,
    max_members: int = MAX_MEMBERS,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> None:
    """Unpack a tar.gz into `folder`, which must not exist yet.

    Refused with BundleError: absolute and climbing paths, links that leave the folder, devices,
    more members or bytes than allowed (told by the headers, before anything is written).
    """
    folder.mkdir(parents=True)
    num_members = total_bytes = 0
    try:
        with tarfile.open(archive, mode="r|gz") as tar:
            for member in tar:
                num_members += 1
                total_bytes += member.size
                if num_members > max_members:
                    raise BundleError(f"the code bundle has more than {max_members} entries")
                if total_bytes > max_total_bytes:
                    raise BundleError(
                        f"the code bundle unpacks to more than {max_total_bytes} bytes"
                    )
                _check(member)
                tar.extract(member, folder, filter="data")
    except tarfile.FilterError as error:
        raise BundleError(f"the code bundle was refused: {error}") from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BundleError(f"the code bundle is not a readable tar.gz: {error}") from error
    except OSError as error:
        raise BundleError(f"the code bundle could not be unpacked: {error}") from error


def _check(member: tarfile.TarInfo) -> None:
    """Stricter than tarfile's "data" filter, which has had holes around links."""
    for name in (member.name, member.linkname):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise BundleError(f"the code bundle was refused: {name!r} leads out of its folder")
        if len(name) > MAX_PATH_CHARS:
            raise BundleError(f"the code bundle was refused: a path of {len(name)} characters")
