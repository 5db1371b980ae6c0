"""Fetch a data set into a folder: `python fetch_data.py URL`, behind the walls of the job that reads it.

The folder is that of the variable `MUSTER_DATA_<NAME>` which the command line of a data set has. `http` and
`https` need nothing else; every other scheme is one of fsspec's, which torch brings along, with the package
of that scheme and the credentials that the job has.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

TRIES = 4
TIMEOUT_S = 60.0
"""Seconds without a byte after which a download begins again."""
_GONE = range(400, 500)
_PASSES = (408, 425, 429)
"""Refusals that do not last."""


class _CannotFetch(Exception):
    """Trying again does not help; the message is a clause."""


def main() -> int:
    """Return the exit code: 0, 1 if trying again does not help, EX_TEMPFAIL if it may."""
    url, folder = sys.argv[1], Path(sys.argv[2])
    for again in range(TRIES):
        try:
            if urllib.parse.urlsplit(url).scheme in ("http", "https"):
                _download(url, folder)
            else:
                _copy(url, folder)
            return 0
        except _CannotFetch as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except OSError as error:
            sys.stderr.write(f"{error}\n")
        time.sleep(2.0**again)
    return os.EX_TEMPFAIL


def _download(url: str, folder: Path) -> None:
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2]) or "data"
    target = folder / Path(name).name
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310
            length = answer.headers.get("Content-Length")
            with target.open("wb") as file:
                shutil.copyfileobj(answer, file, 2**20)
    except urllib.error.HTTPError as error:
        if error.code in _GONE and error.code not in _PASSES:
            raise _CannotFetch(f"the server answered {error.code} {error.reason}") from error
        raise
    if length is not None and target.stat().st_size != int(length):
        raise OSError(f"the server sent {target.stat().st_size:,} of {int(length):,} bytes")


def _copy(url: str, folder: Path) -> None:
    try:
        import fsspec
    except ImportError:
        raise _CannotFetch(
            "the job's interpreter has no fsspec: add it to environment.requirements"
        ) from None
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # What the scheme needs is not installed.
        raise _CannotFetch(f"{error} (see environment.requirements)") from error
    try:
        if fs.isdir(path):
            fs.get(f"{path.rstrip('/')}/", f"{folder}/", recursive=True)
        else:
            fs.get_file(path, str(folder / path.rpartition("/")[2]))
    except (FileNotFoundError, PermissionError) as error:
        raise _CannotFetch(f"{type(error).__name__}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
