"""The store of cold metrics: a folder, or a bucket of S3 or Google Cloud Storage, with files by name.

pyarrow reads and writes all three. It is loaded when a file is needed: few installations have a store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from muster_server.errors import Unavailable
from muster_server.settings import get_settings

CONNECT_S = 5.0
REQUEST_S = 30.0
ATTEMPTS = 3
"""Seconds in which an object store must be reached and answer, and how often it is asked."""
PAUSE_S = 10.0
"""A store that has failed is not asked again for so long: requests that wait for it hold connections to
the database."""
_REASON_CHARS = 300

_failures: dict[str, tuple[float, str]] = {}
"""Address of a store → until when it is not asked, and how it has failed."""


def unavailable(reason: str) -> Unavailable:
    """Return the error of a request that needs a file which cannot be read."""
    return Unavailable(
        "metrics.cold_unavailable",
        f"These metrics are in cold storage, which cannot be read: {reason}",
        hint="Try again; if it goes on, an administrator should look at MUSTER_METRIC_COLD_URL.",
        retry_after_s=int(PAUSE_S),
    )


@contextmanager
def opened(name: str) -> Iterator[Any]:
    """Open a file for reading at any position. Raises Unavailable, also for what the block raises
    because of the file."""
    with _explained(pauses=True) as (fs, root):
        source = fs.open_input_file(f"{root}/{name}")
    with _explained(), source:
        yield source


@contextmanager
def created(name: str) -> Iterator[Any]:
    """Open a new file for writing, in folders that are made if need be. Raises Unavailable."""
    with _explained() as (fs, root):
        path = f"{root}/{name}"
        if fs.type_name == "local":
            fs.create_dir(path.rpartition("/")[0], recursive=True)
        with fs.open_output_stream(path) as sink:
            yield sink


def size_of(name: str) -> int | None:
    """Return the size of a file in bytes; None if there is none. Raises Unavailable."""
    with _explained() as (fs, root):
        info = fs.get_file_info(f"{root}/{name}")
        return int(info.size) if info.is_file else None


def delete(name: str) -> None:
    """Delete a file; one that is not there is deleted already. Raises Unavailable."""
    with _explained() as (fs, root):
        try:
            fs.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            return


@contextmanager
def _explained(*, pauses: bool = False) -> Iterator[tuple[Any, str]]:
    """Yield the file system and the path in it; what goes wrong becomes one sentence.

    pauses: do not ask a store that has just failed, because somebody waits for the answer.
    """
    url = get_settings().metric_cold_url
    if url is None:
        raise unavailable("MUSTER_METRIC_COLD_URL is not set.")
    until, said = _failures.get(url, (0.0, ""))
    if pauses and time.monotonic() < until:
        raise unavailable(said)
    try:
        yield _file_system(url)
    except ImportError as error:
        raise unavailable(
            "the server's Python lacks the package pyarrow: pip install 'muster-train[cold]'."
        ) from error
    except FileNotFoundError as error:
        raise unavailable(f"a file is missing. {_said(error)}") from error
    except (OSError, ValueError) as error:  # pyarrow's own errors are one or the other
        reason = f"{url}: {_said(error)}"
        if pauses:
            _failures[url] = (time.monotonic() + PAUSE_S, reason)
        raise unavailable(reason) from error


@lru_cache(maxsize=4)
def _file_system(url: str) -> tuple[Any, str]:
    from pyarrow import fs

    if url.startswith("s3://"):
        store = fs.S3FileSystem(
            endpoint_override=os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL"),
            connect_timeout=CONNECT_S,
            request_timeout=REQUEST_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        )
        return store, url.removeprefix("s3://").rstrip("/")
    if "://" in url:
        store, path = fs.FileSystem.from_uri(url)
        return store, path.rstrip("/")
    return fs.LocalFileSystem(), url.rstrip("/")


def _said(error: BaseException) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:_REASON_CHARS]
