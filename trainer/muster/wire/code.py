"""The source of a job's code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class CodeSpec:
    """Source of a trial's code."""

    kind: Literal["bundle", "installed", "none"]
    """Kind of the source. `bundle`: `GET /agent/v1/blobs/{sha256}`, a tar.gz extracted into the
    work folder. `installed`: `path` on the node is the work folder's content, used in place.
    `none`: an empty work folder (built-in trainer, or an entry point that is installed)."""
    sha256: str = ""
    path: str = ""
