"""The outputs of a trial: what its nodes kept, seen as one folder.

Files with the same path and the same content on several nodes are one entry. Where the content differs,
every version stays visible: the one of the first node under its path, the others with `@node<rank>`
behind it. Nothing is ever hidden by what another node wrote later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.wire import OutputFile


@dataclass(frozen=True, kw_only=True)
class OutputEntry:
    """One file of a trial's outputs."""

    name: str
    """Name that no other entry has: the path, with ` @node<rank>` where another node's file has the
    same path and other content."""
    file: OutputFile
    node_ranks: tuple[int, ...]
    """Nodes that have this content under this path, ascending."""

    @property
    def is_kept(self) -> bool:
        """Whether its content is in the storage."""
        return self.file.state in ("kept", "growing")

    @property
    def is_conflict(self) -> bool:
        return self.name != self.file.path


Identity = tuple[str, str, str, str]


def unite(manifests: Mapping[int, Sequence[OutputFile]]) -> list[OutputEntry]:
    """Return the outputs of all nodes in the order of their names.

    manifests: node rank → its files, no path twice.
    """
    versions: dict[str, dict[Identity, tuple[OutputFile, list[int]]]] = defaultdict(dict)
    for rank in sorted(manifests):
        for file in manifests[rank]:
            _, ranks = versions[file.path].setdefault(_identity(file), (file, []))
            ranks.append(rank)
    taken = set(versions)
    entries = [
        OutputEntry(
            name=path if position == 0 else _free_name(path, ranks[0], taken),
            file=file,
            node_ranks=tuple(ranks),
        )
        for path, found in versions.items()
        for position, (file, ranks) in enumerate(found.values())
    ]
    return sorted(entries, key=lambda entry: entry.name)


def _identity(file: OutputFile) -> Identity:
    """Return what must be equal in files of two nodes for them to be one entry."""
    content = "kept" if file.state in ("kept", "growing") else file.state
    return content, file.sha256, file.target, file.reason


def _free_name(path: str, rank: int, taken: set[str]) -> str:
    name = f"{path} @node{rank}"
    while name in taken:  # a script may call a file like that
        name += "+"
    taken.add(name)
    return name
