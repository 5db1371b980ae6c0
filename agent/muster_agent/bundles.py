"""Code bundles, addressed by content: downloaded once and kept while they are used."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from muster_agent.client import ControlPlane, RequestRefused, ServerUnreachable, persistently

DOWNLOAD_TIMEOUT_S = 120.0

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BundleUnavailable(Exception):
    """The code could not be downloaded; the message is one sentence for people."""

    def __init__(self, message: str, *, is_permanent: bool = False) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent


class BundleCache:
    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, sha256: str, plane: ControlPlane) -> Path:
        """Return the path of the bundle, downloading it if it is missing. Raises BundleUnavailable."""
        if not _SHA256.fullmatch(sha256):
            raise BundleUnavailable(
                f"the code bundle has no valid name: {sha256[:80]!r}", is_permanent=True
            )
        path = self._folder / f"{sha256}.tar.gz"
        async with self._locks.setdefault(sha256, asyncio.Lock()):
            if path.exists():
                os.utime(path)
                return path
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                async with asyncio.timeout(DOWNLOAD_TIMEOUT_S):
                    await persistently(lambda: plane.download(sha256, path), what="bundle")
            except TimeoutError as error:
                raise BundleUnavailable(
                    f"the code bundle could not be downloaded within {DOWNLOAD_TIMEOUT_S:g} s"
                ) from error
            except (RequestRefused, ServerUnreachable, OSError) as error:
                raise BundleUnavailable(
                    f"the code bundle could not be downloaded: {error}",
                    is_permanent=isinstance(error, RequestRefused) and error.status in (404, 413),
                ) from error
        self._trim(keep=path)
        return path

    def _trim(self, *, keep: Path) -> None:
        """Delete the least recently used bundles until the rest fits. A shim has unpacked its
        bundle by then, or fails its preparation and is retried."""
        files = sorted(
            (p for p in self._folder.glob("*.tar.gz") if p != keep),
            key=lambda p: p.stat().st_mtime,
            reverse=True,
        )
        total = keep.stat().st_size
        for path in files:
            total += path.stat().st_size
            if total > self._limit_bytes:
                path.unlink(missing_ok=True)
