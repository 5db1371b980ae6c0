"""Data sets that this node fetches or makes before a start, and keeps for later jobs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from muster import wire
from muster.byte_sizes import parse_size
from muster.document.running import DataSection
from muster.launch import fetch_data
from muster_agent.environments.build import Built, DataCache
from muster_agent.environments.builder import DataRequest
from muster_agent.environments.cleaning import marker_of
from muster_agent.jobs.inputs import variable_of
from muster_agent.shim.failures import PrepareFailed


@dataclass(frozen=True, kw_only=True)
class KeptData:
    """Data sets that a job may read while their locks are open, by name."""

    built: dict[str, Built] = field(default_factory=dict)

    @property
    def paths(self) -> dict[str, str]:
        """Folder of each."""
        return {name: str(one.path) for name, one in self.built.items()}

    def as_folders(self, sections: Mapping[str, DataSection]) -> dict[str, DataSection]:
        """Return their sections as if the folders had been there."""
        return {
            name: replace(sections[name], folder=path, url=None, command=None)
            for name, path in self.paths.items()
        }

    def confirm(self, read: Mapping[str, wire.DataRead]) -> None:
        """Compare the digests with those of the first start after they were made. Raises PrepareFailed."""
        for name, one in self.built.items():
            marker, digest = marker_of(one.path), read[name].digest
            known = json.loads(marker.read_text())
            if digest and not known.get("digest"):
                fresh = marker.with_suffix(f".{os.getpid()}")
                fresh.write_text(json.dumps({**known, "digest": digest}))
                fresh.rename(marker)
            elif digest and digest != known["digest"]:
                marker.unlink(missing_ok=True)
                raise PrepareFailed(
                    f"the files of the data set {name} have been changed in this node's cache "
                    f"({one.path}); it is made again before the next start here",
                    blames="node",
                    passes=True,
                )


def keep(
    sections: Mapping[str, DataSection],
    read: Mapping[str, wire.DataRead],
    cache: DataCache,
    *,
    python: str,
    code: Path,
    environment: Mapping[str, str],
    builder_environment: Mapping[str, str],
    min_free_bytes: int,
    log: Path,
    is_canceled: Callable[[], bool],
) -> KeptData:
    """Fetch or make what is not here yet, in the order of the names. Blocks. Raises BuildFailed and
    BuildCanceled.

    read: the data sets that lie here already. python: the job's interpreter. code: the folder in which commands run. environment: variables of the
    commands, and builder_environment those of our own program that starts them. log: file to which the
    progress is appended.
    """
    built: dict[str, Built] = {}
    contents = {name: one.digest for name, one in read.items()}
    for name, section in sorted(sections.items()):
        if not section.is_kept:
            continue
        command = words = section.command or ""
        if section.url is not None:
            words = f"fetch {section.url}"
            fetch = [python, "-I", fetch_data.__file__, section.url]
            command = f'{shlex.join(fetch)} "${variable_of(name)}"'
        size_bytes = parse_size(section.size) if section.size else 0
        earlier = {variable_of(n): str(one.path) for n, one in built.items()}
        built[name] = cache.open(
            DataRequest(
                name=name,
                words=words,
                command=command,
                version=section.version or "",
                inputs=tuple(text for n, text in contents.items() if variable_of(n) in words),
            ),
            wanted_bytes=size_bytes + min_free_bytes,
            python=python,
            code=code,
            environment={**environment, **earlier},
            builder_environment=builder_environment,
            log=log,
            is_canceled=is_canceled,
        )
        contents[name] = built[name].path.name
    return KeptData(built=built)
