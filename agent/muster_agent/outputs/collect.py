"""One collection: bring the storage up to date with a work folder, then write the manifest."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pathspec import GitIgnoreSpec

from muster import wire
from muster.code.bundle import ALWAYS_LEFT_OUT
from muster_agent.isolation import beneath
from muster_agent.outputs import adopt, scan, whole
from muster_agent.outputs.index import (
    IndexEntry,
    OutputIndex,
    PartialFile,
    manifest_text,
    packed,
    part_sizes,
    read_base,
    read_manifest,
    unpacked,
)
from muster_agent.outputs.scan import FoundFile, Signature, TooManyFiles, link_inside, signature_of
from muster_agent.outputs.store import (
    CHUNK_BYTES,
    OutputStore,
    StorageAway,
    manifest_name,
    parse_manifest_name,
    why,
)
from muster_agent.outputs.work import OUTPUT_FOLDER, TrialWork, WorkUse, WrittenManifest

SAVE_EVERY_S = 20.0
"""Seconds between two writes of the index while files are copied: what a kill makes us copy again."""
_ALWAYS = GitIgnoreSpec.from_lines(ALWAYS_LEFT_OUT)


class Interrupted(Exception):
    """Somebody waits for the work folder, or another attempt has begun in it."""


class _Unreadable(Exception):
    """A file of the work folder cannot be read; the message says why."""


class _Changed(Exception):
    """A file was changed while it was copied."""


@dataclass(frozen=True, kw_only=True)
class CollectionResult:
    """Outcome of a collection."""

    outcome: Literal["written", "same", "busy", "interrupted", "away"]
    """`written`: there is a new manifest. `same`: nothing has changed since the last one. `busy`:
    somebody else has the folder. `away`: the storage cannot be used now."""
    problem: str = ""
    scan_s: float = 0.0
    """Processor seconds of looking at the folder, without copying."""
    num_adopted: int = 0
    """Checkpoints of the script that the server is to be told of."""


class Collector:
    """One collection of one work folder. The caller holds `TrialWork.lock_files`."""

    def __init__(
        self,
        work: TrialWork,
        use: WorkUse,
        outputs: wire.OutputsSpec,
        store: OutputStore,
        *,
        is_final: bool,
        bytes_per_s: int,
        open_beside: adopt.Open,
    ) -> None:
        """Create the collection.

        is_final: whether no process of the attempt lives any more: every file is whole.
        bytes_per_s: most bytes to copy per second; 0 for no limit.
        open_beside: opens a folder of the same storage beside the outputs."""
        self._work = work
        self._use = use
        self._outputs = outputs
        self._store = store
        self._is_final = is_final
        self._bytes_per_s = bytes_per_s
        self._open_beside = open_beside
        self._unsettled: set[str] = set()
        patterns = [list(outputs.include), list(outputs.exclude)]
        self._index = OutputIndex.load(work.index, store_id=store.id, patterns=patterns)
        self._index.seq = max(self._index.seq, use.first_seq)
        self._base = read_base(work.base)
        self._saved_at = time.monotonic()
        self._looked_at = 0.0
        self._problem = ""

    def run(self) -> CollectionResult:
        """Collect. Raises Interrupted, StorageAway and, for the agent's own disk, OSError."""
        try:
            for _ in range(2):
                files = self._collect()
                missing = self._missing(files)
                if not missing:
                    break
                self._forget(missing)
            else:
                raise StorageAway("parts of files disappear from the storage while they are stored")
            num_adopted = self._adopt(files)
            outcome = self._write(files)
            with contextlib.suppress(OSError, ValueError):
                self._clean()
        finally:
            with contextlib.suppress(OSError):
                self._index.save(self._work.index)
        return CollectionResult(outcome=outcome, scan_s=self._index.scan_s, num_adopted=num_adopted)

    # ------------------------------------------------------------ files

    def _collect(self) -> list[wire.OutputFile]:
        """Store what has changed and return all files, by path."""
        began_s = time.process_time()
        root = beneath.open_root(self._work.path)
        try:
            files = beneath.open_folder(root, ["files"])
        finally:
            os.close(root)
        try:
            listed, changed = self._look(files)
            self._index.scan_s = time.process_time() - began_s
            left = self._outputs.max_bytes - sum(file.size_bytes for file in listed.values())
            num_left = wire.OUTPUT_FILES_MAX - len(listed)
            # What is stored already stays in it.
            changed.sort(key=lambda found: (found.path not in self._index.entries, found.path))
            waiting: dict[str, Signature] = {}
            self._unsettled = set()
            for found in changed:
                file = self._take(files, found, left, num_left, waiting)
                if file is not None:
                    listed[file.path] = file
                    if file.state != "left_out":
                        left, num_left = left - file.size_bytes, num_left - 1
                entry = self._index.entries.get(found.path)
                if entry is None or entry.signature != waiting.get(found.path, found.signature):
                    self._unsettled.add(_valid(found.path))
            self._index.waiting = waiting
        finally:
            os.close(files)
        return sorted(listed.values(), key=lambda file: file.path)

    def _look(self, root: int) -> tuple[dict[str, wire.OutputFile], list[FoundFile]]:
        """Return the files that are settled without reading them, and those to be stored."""
        listed: dict[str, wire.OutputFile] = {}
        changed: list[FoundFile] = []
        seen: set[str] = set()
        self._index.disk_bytes = 0
        try:
            for found in scan.scan(root, self._is_folder_out):
                self._stop_if_wanted()
                self._index.disk_bytes += found.size_bytes
                seen.add(found.path)
                if self._is_out(found):
                    continue
                file = self._settled(found)
                if file is not None:
                    listed.setdefault(file.path, file)
                else:
                    changed.append(found)
        except TooManyFiles as error:
            self._problem = str(error)
        else:
            for path in self._index.entries.keys() - seen:
                del self._index.entries[path]
            for path in self._index.partial.keys() - seen:
                del self._index.partial[path]
        return listed, [found for found in changed if not self._is_code(found)]

    def _settled(self, found: FoundFile) -> wire.OutputFile | None:
        """Return the entry of a file that need not be read; None if it may have to be."""
        reason = found.reason or _name_problem(found.path)
        if reason:
            return _left_out(found, reason)
        if found.kind == "link":
            if self._is_code(found):
                return None
            target = link_inside(found.path, found.target, str(self._work.files))
            if target is None:
                return _left_out(found, "it is a link to something outside of the work folder")
            return wire.OutputFile(
                path=found.path,
                state="link",
                mtime_ms=found.mtime_ns // 1_000_000,
                mode=found.mode,
                target=target,
            )
        entry = self._index.entries.get(found.path)
        if entry is None or entry.signature != found.signature or entry.file is None:
            return None
        if entry.state == "growing" and self._is_final:
            return self._keep(found, dataclasses.replace(entry.file, state="kept"))
        return entry.file if entry.state == "kept" else None

    def _is_code(self, found: FoundFile) -> bool:
        base = self._base.get(found.path)
        if base is not None and base[0] == found.signature:
            return True
        entry = self._index.entries.get(found.path)
        return entry is not None and entry.state == "code" and entry.signature == found.signature

    def _take(
        self,
        root: int,
        found: FoundFile,
        left_bytes: int,
        num_left: int,
        waiting: dict[str, Signature],
    ) -> wire.OutputFile | None:
        """Store a file that differs from what is stored. Return its entry; None for none yet."""
        entry = self._index.entries.get(found.path)
        before = entry.file if entry is not None and entry.state in ("kept", "growing") else None
        if found.size_bytes > left_bytes:
            limit = f"{self._outputs.max_bytes:,} bytes (outputs.max_size)"
            return _left_out(found, f"a node keeps at most {limit} of a trial")
        if num_left <= 0:
            return _left_out(found, f"a node keeps at most {wire.OUTPUT_FILES_MAX:,} files")
        *folders, name = found.path.split("/")
        try:
            with beneath.folder(root, folders) as parent:
                fd = beneath.open_file(name, parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _left_out(found, f"it cannot be read: {error.strerror}")
        try:
            now = os.fstat(fd)
            if not stat.S_ISREG(now.st_mode):
                return before
            waiting[found.path] = signature_of(now)
            return self._judged(fd, found, now, entry, before)
        except _Unreadable as error:
            return _left_out(found, f"it cannot be read: {error}")
        except _Changed:
            if self._is_final:
                self._problem = f"{found.path} was still being changed after the end of the job"
            return before
        finally:
            os.close(fd)

    def _judged(
        self,
        fd: int,
        found: FoundFile,
        now: os.stat_result,
        entry: IndexEntry | None,
        before: wire.OutputFile | None,
    ) -> wire.OutputFile | None:
        signature = signature_of(now)
        is_written = scan.is_being_written(fd)
        if entry is not None and entry.state == "growing" and entry.signature == signature:
            # Nothing was added since its beginning was stored.
            assert before is not None
            is_whole = is_written is False
            return (
                self._keep(found, dataclasses.replace(before, state="kept")) if is_whole else before
            )
        verdict = scan.judge(
            signature,
            before=self._index.waiting.get(found.path),
            kept="" if before is None else "growing" if before.state == "growing" else "kept",
            kept_signature=entry.signature if entry is not None else None,
            kept_bytes=before.size_bytes if before is not None else 0,
            is_written=is_written,
            age_s=time.time() - now.st_mtime,
            is_final=self._is_final,
        )
        if verdict == "compare":
            assert before is not None
            is_longer = self._digest(fd, before.size_bytes) == before.sha256
            verdict = "take_prefix" if is_longer else "wait"
        if verdict == "wait":
            return before
        return self._store_file(fd, found, now, is_whole=verdict == "take")

    def _store_file(
        self, fd: int, found: FoundFile, now: os.stat_result, *, is_whole: bool
    ) -> wire.OutputFile | None:
        """Store the content of a file. Raises _Changed if it was changed meanwhile, and _Unreadable."""
        twin = self._twins.get((found.device, signature_of(now))) if now.st_nlink > 1 else None
        if twin is not None and is_whole:
            sha256, parts = twin
        else:
            sha256, parts = self._copy(fd, found.path, now)
        if is_whole and signature_of(os.fstat(fd)) != signature_of(now):
            raise _Changed
        self._index.partial.pop(found.path, None)
        if is_whole and now.st_nlink > 1:
            self._twins[found.device, signature_of(now)] = (sha256, parts)
        base = self._base.get(found.path)
        if is_whole and base is not None and base[1] == sha256:
            self._index.entries[found.path] = IndexEntry(signature_of(now), "code")
            return None
        file = wire.OutputFile(
            path=found.path,
            state="kept" if is_whole else "growing",
            size_bytes=now.st_size,
            mtime_ms=now.st_mtime_ns // 1_000_000,
            mode=stat.S_IMODE(now.st_mode),
            sha256=sha256,
            parts=parts,
        )
        self._index.entries[found.path] = IndexEntry(
            signature_of(now), "kept" if is_whole else "growing", file
        )
        self._save_from_time_to_time()
        return file

    def _save_from_time_to_time(self) -> None:
        if time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self._saved_at = time.monotonic()
            self._index.save(self._work.index)

    @cached_property
    def _twins(self) -> dict[tuple[int, Signature], tuple[str, list[str]]]:
        """Digests of files with several names, stored in this collection."""
        return {}

    def _keep(self, found: FoundFile, file: wire.OutputFile) -> wire.OutputFile:
        self._index.entries[found.path] = IndexEntry(found.signature, "kept", file)
        return file

    def _copy(self, fd: int, path: str, now: os.stat_result) -> tuple[str, list[str]]:
        """Store a file as far as it went when it was looked at; return its digest and those of its parts.

        Parts that are stored already, by an interrupted collection or when the file was shorter, are
        only compared. Raises _Changed if the file changes between two reads."""
        size = now.st_size
        whole = hashlib.sha256()
        if size == 0:
            return whole.hexdigest(), []
        if size <= wire.OUTPUT_PART_BYTES:
            sha256 = self._store_part(self._chunks(fd, 0, size))
            return sha256, [sha256]
        parts: list[str] = []
        known = self._known_parts(path, now)
        for offset in range(0, size, wire.OUTPUT_PART_BYTES):
            length = min(wire.OUTPUT_PART_BYTES, size - offset)
            if known:
                seen = hashlib.sha256()
                for chunk in self._chunks(fd, offset, length):
                    whole.update(chunk)
                    seen.update(chunk)
                sha256 = seen.hexdigest()
                if sha256 == known[0]:
                    known = known[1:]
                else:  # The rest is other content, too.
                    known = []
                    if self._store_part(self._chunks(fd, offset, length)) != sha256:
                        raise _Changed
            else:
                sha256 = self._store_part(_hashed(self._chunks(fd, offset, length), whole))
            parts.append(sha256)
            if length == wire.OUTPUT_PART_BYTES and not known:
                self._index.partial[path] = PartialFile(now.st_ino, list(parts))
                self._save_from_time_to_time()
        return whole.hexdigest(), parts

    def _known_parts(self, path: str, now: os.stat_result) -> list[str]:
        """Return the digests of the first parts of a file that the storage has, as far as it is still
        the same file. Whether its content is still the same is for the caller to see."""
        partial, entry = self._index.partial.get(path), self._index.entries.get(path)
        parts: list[str] = []
        if partial is not None and partial.inode == now.st_ino:
            parts = partial.parts
        elif entry is not None and entry.file is not None and entry.signature[0] == now.st_ino:
            num_full = entry.file.size_bytes // wire.OUTPUT_PART_BYTES
            parts = entry.file.parts[:num_full]
        if not parts:
            return []
        try:
            missing = self._store.find_missing(dict.fromkeys(parts, wire.OUTPUT_PART_BYTES))
        except OSError as error:
            raise StorageAway(f"the storage cannot be read: {why(error)}") from error
        first_missing = next((n for n, part in enumerate(parts) if part in missing), len(parts))
        return parts[:first_missing]

    def _store_part(self, chunks: Iterator[bytes]) -> str:
        try:
            return self._store.write(chunks)[0]
        except OSError as error:
            raise StorageAway(f"the storage cannot be written to: {why(error)}") from error

    def _digest(self, fd: int, size: int) -> str:
        digest = hashlib.sha256()
        for _ in _hashed(self._chunks(fd, 0, size), digest):
            pass
        return digest.hexdigest()

    def _chunks(self, fd: int, offset: int, length: int) -> Iterator[bytes]:
        """Read a stretch of a file, no faster than allowed. Raises _Changed if it ends earlier."""
        end = offset + length
        while offset < end:
            self._stop_if_wanted()
            began = time.monotonic()
            try:
                chunk = os.pread(fd, min(CHUNK_BYTES, end - offset), offset)
            except OSError as error:
                raise _Unreadable(error.strerror or str(error)) from error
            if not chunk:
                raise _Changed
            offset += len(chunk)
            yield chunk
            if self._bytes_per_s:
                due_s = len(chunk) / self._bytes_per_s - (time.monotonic() - began)
                if due_s > 0:
                    time.sleep(due_s)

    def _stop_if_wanted(self) -> None:
        now = time.monotonic()
        if now - self._looked_at > 0.2:
            self._looked_at = now
            if self._work.is_wanted:
                raise Interrupted

    # ------------------------------------------------------------ patterns

    @cached_property
    def _include(self) -> GitIgnoreSpec | None:
        """Patterns of what is kept; None stands for everything."""
        wanted = list(self._outputs.include)
        return None if wanted == ["**"] else GitIgnoreSpec.from_lines(wanted)

    @cached_property
    def _exclude(self) -> GitIgnoreSpec:
        return GitIgnoreSpec.from_lines(self._outputs.exclude)

    def _is_folder_out(self, path: str) -> bool:
        if f"{OUTPUT_FOLDER}/".startswith(path) or path.startswith(f"{OUTPUT_FOLDER}/"):
            return False
        shown = _valid(path)
        return _ALWAYS.match_file(shown) or self._exclude.match_file(shown)

    def _is_out(self, found: FoundFile) -> bool:
        """Return whether the patterns leave a file out; each path is compared with them once."""
        entry = self._index.entries.get(found.path)
        if entry is not None:
            return entry.state == "out"
        path = found.path
        if path.startswith(f"{OUTPUT_FOLDER}/"):
            return False
        shown = _valid(path)
        is_out = (
            _ALWAYS.match_file(shown)
            or self._exclude.match_file(shown)
            or (self._include is not None and not self._include.match_file(shown))
        )
        if is_out:
            self._index.entries[path] = IndexEntry((0, 0, 0, 0), "out")
        return is_out

    # ------------------------------------------------------------ checkpoints of the script

    def _adopt(self, files: list[wire.OutputFile]) -> int:
        """Adopt checkpoints before the manifest says that their files are stored; how many."""
        if not self._outputs.adopt:
            return 0
        adopter = adopt.Adopter(
            self._work,
            self._use,
            self._store,
            self._index,
            self._open_beside,
            self._is_cut_off,
        )
        try:
            return adopter.run(
                self._outputs.adopt, files, unsettled=self._unsettled, is_final=self._is_final
            )
        except OSError as error:
            raise StorageAway(f"a checkpoint cannot be adopted: {why(error)}") from error

    def _is_cut_off(self, path: str) -> bool:
        *folders, name = path.split("/")
        try:
            root = beneath.open_root(self._work.path)
            try:
                with (
                    beneath.folder(root, ["files", *folders]) as parent,
                    os.fdopen(beneath.open_file(name, parent), "rb") as file,
                ):
                    return whole.is_cut_off(file.fileno(), name)
            finally:
                os.close(root)
        except OSError:
            return False  # The script has replaced it; what is stored of it was whole then.

    # ------------------------------------------------------------ manifests

    def _missing(self, files: list[wire.OutputFile]) -> set[str]:
        """Return parts that the storage lacks: at the end of all files, else of those that the last
        manifest does not name."""
        wanted = part_sizes(files)
        last = self._work.read_manifest()
        if not self._is_final and last is not None and self._is_of_this_place(last):
            for sha256 in part_sizes(unpacked(last.files)):
                wanted.pop(sha256, None)
        try:
            return self._store.find_missing(wanted)
        except OSError as error:
            raise StorageAway(f"the storage cannot be read: {why(error)}") from error

    def _forget(self, missing: set[str]) -> None:
        for path, entry in list(self._index.entries.items()):
            if entry.file is not None and missing & set(entry.file.parts):
                del self._index.entries[path]

    def _is_of_this_place(self, last: WrittenManifest) -> bool:
        there = (last.storage_id, last.storage_url, last.folder)
        return there == (self._storage_id, self._use.url, self._use.folder)

    @property
    def _storage_id(self) -> str:
        return "" if self._use.url else self._store.id.partition("/")[0]

    def _write(self, files: list[wire.OutputFile]) -> Literal["written", "same"]:
        """Write the manifest, unless it would say what the last one says."""
        listed, summary = self._summary(files)
        last = self._work.read_manifest()
        content = packed(listed)
        if last is None:
            is_same = not listed and not self._is_final
        else:
            is_same = (
                last.files == content
                and last.allocation_id == self._use.allocation_id
                and dataclasses.replace(last.summary, seq=summary.seq) == summary
                and self._is_of_this_place(last)
            )
        if self._work.read_use() != self._use or (self._is_final and self._work.is_used()):
            raise Interrupted  # Another attempt has begun here.
        if is_same:
            return "same"
        self._index.seq = summary.seq
        self._index.save(self._work.index)
        name = manifest_name(summary.node_rank, summary.attempt_no, summary.seq)
        try:
            self._store.write_manifest(name, manifest_text(summary, listed))
        except OSError as error:
            raise StorageAway(f"the storage cannot be written to: {why(error)}") from error
        self._work.write_manifest(
            WrittenManifest(
                allocation_id=self._use.allocation_id,
                storage_id=self._storage_id,
                storage_url=self._use.url,
                folder=self._use.folder,
                summary=summary,
                files=content,
            )
        )
        return "written"

    def _summary(
        self, files: list[wire.OutputFile]
    ) -> tuple[list[wire.OutputFile], wire.OutputsSummary]:
        """Return the files that fit into a manifest, stored ones first, and what to say of all."""
        by_use = sorted(files, key=lambda file: (file.state == "left_out", file.path))
        listed = sorted(by_use[: wire.OUTPUT_FILES_MAX], key=lambda file: file.path)
        stored = [file for file in listed if file.state in ("kept", "growing")]
        left_out = [file for file in listed if file.state == "left_out"]
        left_out += by_use[wire.OUTPUT_FILES_MAX :]
        return listed, wire.OutputsSummary(
            experiment_id=self._use.experiment_id,
            trial_id=self._use.trial_id,
            attempt_no=self._use.attempt_no,
            node_rank=self._use.node_rank,
            seq=self._index.seq + 1,
            is_final=self._is_final and not self._problem,
            num_files=len(stored),
            size_bytes=sum(file.size_bytes for file in stored),
            num_left_out=len(left_out),
            left_out_bytes=sum(file.size_bytes for file in left_out),
            problem=self._problem,
        )

    def _clean(self) -> None:
        """Delete this rank's manifests before the last one that the server has taken, and parts
        that no manifest names any more. Raises OSError, and ValueError for an unreadable manifest."""
        acked = self._work.read_acked()
        if acked is None or not acked.is_taken or acked.allocation_id != self._use.allocation_id:
            return
        names = self._store.manifests()
        old = []
        for name in names:
            facts = parse_manifest_name(name)
            if facts is not None and facts[0] == self._use.node_rank and facts[2] < acked.seq:
                old.append(name)
        if not old:
            return
        for name in old:
            self._store.remove_manifest(name)
        used: set[str] = set()
        for name in set(self._store.manifests()):
            used.update(part_sizes(read_manifest(self._store.read_manifest(name))))
        self._store.remove_unused(used | set(part_sizes(self._indexed())))

    def _indexed(self) -> Iterator[wire.OutputFile]:
        return (entry.file for entry in self._index.entries.values() if entry.file is not None)


def _left_out(found: FoundFile, reason: str) -> wire.OutputFile:
    return wire.OutputFile(
        path=_valid(found.path)[: beneath.PATH_MAX_CHARS],
        state="left_out",
        size_bytes=found.size_bytes,
        mtime_ms=found.mtime_ns // 1_000_000,
        mode=found.mode,
        reason=reason,
    )


def _valid(path: str) -> str:
    """Return a path as text: what is no UTF-8 in it becomes U+FFFD."""
    return os.fsencode(path).decode(errors="replace")


def _name_problem(path: str) -> str:
    try:
        path.encode()
        beneath.parts_of(path)
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    except beneath.LeadsOutside:
        return "its path is too long"
    return ""


def _hashed(chunks: Iterator[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def say(result: CollectionResult) -> str:
    """Return a result as one line for the agent."""
    return json.dumps(dataclasses.asdict(result))


def understand(line: str) -> CollectionResult:
    """Return the result of a line. Raises ValueError."""
    return wire.loads(CollectionResult, line)
