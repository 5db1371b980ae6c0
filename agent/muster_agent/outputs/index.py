"""What a collector remembers of a work folder between two collections."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from muster import wire
from muster_agent.jobs.folder import write_atomically
from muster_agent.outputs.scan import Signature

FORMAT = 1


@dataclass(frozen=True)
class IndexEntry:
    """A file of the work folder as it was when it was last stored."""

    signature: Signature
    state: Literal["kept", "growing", "code", "out"]
    """`code`: it has the content that came with the code. `out`: the patterns leave it out."""
    file: wire.OutputFile | None = None


@dataclass(frozen=True)
class PartialFile:
    """What is stored of a file of several parts."""

    inode: int
    """Inode of the file: what has replaced it has another one."""
    parts: list[str]
    """Digests of its first parts, all of them of full size."""


@dataclass
class OutputIndex:
    """Entries by path. It is valid for one place in the storage and one set of patterns."""

    store_id: str
    patterns: list[list[str]]
    seq: int = 0
    """Number of the last manifest."""
    entries: dict[str, IndexEntry] = field(default_factory=dict)
    waiting: dict[str, Signature] = field(default_factory=dict)
    """Files that differ from what is stored, as they were at the last scan."""
    partial: dict[str, PartialFile] = field(default_factory=dict)
    """Files of several parts whose storing was interrupted, by path."""
    disk_bytes: int = 0
    """Bytes of all files of the work folder at the last scan, code included."""
    scan_s: float = 0.0
    """Processor seconds of the last scan."""
    adopted: dict[str, str] = field(default_factory=dict)
    """Checkpoints of the script that were adopted, with the digest of what they were."""
    looked: dict[str, str] = field(default_factory=dict)
    """Checkpoints of the script whose files were all stored at the last collection, likewise."""

    @staticmethod
    def load(path: Path, *, store_id: str, patterns: list[list[str]]) -> OutputIndex:
        """Read an index; what was noted for another place or other patterns is forgotten."""
        found = read_index(path)
        fresh = OutputIndex(store_id=store_id, patterns=patterns)
        if found is None:
            return fresh
        fresh.seq, fresh.disk_bytes = found.seq, found.disk_bytes
        if found.store_id == store_id and found.patterns == patterns:
            fresh.entries, fresh.waiting = found.entries, found.waiting
            fresh.partial = found.partial
            fresh.adopted, fresh.looked = found.adopted, found.looked
        return fresh

    def save(self, path: Path) -> None:
        entries = {
            name: [*entry.signature, entry.state, _plain(entry.file)]
            for name, entry in self.entries.items()
        }
        plain = {
            "format": FORMAT,
            "store_id": self.store_id,
            "patterns": self.patterns,
            "seq": self.seq,
            "entries": entries,
            "waiting": self.waiting,
            "partial": {name: [one.inode, one.parts] for name, one in self.partial.items()},
            "disk_bytes": self.disk_bytes,
            "scan_s": self.scan_s,
            "adopted": self.adopted,
            "looked": self.looked,
        }
        write_atomically(path, json.dumps(plain, separators=(",", ":")))


def read_index(path: Path) -> OutputIndex | None:
    """Return the index of a work folder; None if there is none that can be read."""
    try:
        plain = json.loads(path.read_text())
        if plain["format"] != FORMAT:
            return None
        return OutputIndex(
            store_id=plain["store_id"],
            patterns=plain["patterns"],
            seq=plain["seq"],
            entries={
                name: IndexEntry(
                    (e[0], e[1], e[2], e[3]),
                    e[4],
                    wire.OutputFile(**e[5]) if e[5] is not None else None,
                )
                for name, e in plain["entries"].items()
            },
            waiting={name: (s[0], s[1], s[2], s[3]) for name, s in plain["waiting"].items()},
            partial={
                name: PartialFile(one[0], one[1]) for name, one in plain.get("partial", {}).items()
            },
            disk_bytes=plain["disk_bytes"],
            scan_s=plain["scan_s"],
            adopted=plain.get("adopted", {}),
            looked=plain.get("looked", {}),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _plain(file: wire.OutputFile | None) -> dict[str, Any] | None:
    return None if file is None else vars(file)


# ---------------------------------------------------------------- base manifest


BaseManifest = Mapping[str, tuple[Signature, str]]
"""Files that came with the code: signature after unpacking and SHA-256, by path."""


def write_base(path: Path, base: BaseManifest) -> None:
    write_atomically(path, json.dumps({p: [*s, sha256] for p, (s, sha256) in base.items()}))


def read_base(path: Path) -> dict[str, tuple[Signature, str]]:
    """Return the files that came with the code; empty if none did."""
    try:
        plain = json.loads(path.read_text())
        return {p: ((e[0], e[1], e[2], e[3]), e[4]) for p, e in plain.items()}
    except (OSError, ValueError, TypeError, IndexError):
        return {}


# ---------------------------------------------------------------- manifests


def packed(files: Sequence[wire.OutputFile]) -> str:
    """Return a list of files as it travels to the server."""
    text = json.dumps([vars(file) for file in files], separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode())).decode()


def unpacked(files: str) -> list[wire.OutputFile]:
    """Return the list of files that `packed` was given."""
    plain = json.loads(zlib.decompress(base64.b64decode(files)))
    return [wire.OutputFile(**file) for file in plain]


def manifest_text(summary: wire.OutputsSummary, files: Sequence[wire.OutputFile]) -> bytes:
    """Return the content of a manifest's file."""
    document = {
        "format": FORMAT,
        "summary": dataclasses.asdict(summary),
        "files": [vars(file) for file in files],
    }
    return json.dumps(document, indent=1).encode()


def read_manifest(content: bytes) -> list[wire.OutputFile]:
    """Return the files of a manifest. Raises ValueError if it is none."""
    document = json.loads(content)
    if not isinstance(document, dict) or not isinstance(document.get("files"), list):
        raise ValueError("it lists no files")
    return [wire.load(wire.OutputFile, file) for file in document["files"]]


def part_sizes(files: Iterable[wire.OutputFile]) -> dict[str, int]:
    """Return the size in bytes of every part of these files, by digest."""
    found = {}
    for file in files:
        left = file.size_bytes
        for sha256 in file.parts:
            found[sha256] = min(left, wire.OUTPUT_PART_BYTES)
            left -= wire.OUTPUT_PART_BYTES
    return found
