"""Checkpoints that a script saves under names of its own, taken into folders that outlive its files.

    <storage>/experiment-12/trial-1/adopted-<digest>/    laid out like outputs/

Where files can have several names, a part takes no space of its own: it is another name of that in the
outputs. Scripts replace and delete their files as they like; what was adopted stays until the policy
for checkpoints, or its experiment, goes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing

from muster import adoption, wire
from muster_agent.outputs.index import OutputIndex, manifest_text, packed, part_sizes
from muster_agent.outputs.scan import QUIET_S
from muster_agent.outputs.store import BucketOutputs, FolderOutputs, OutputStore, manifest_name
from muster_agent.outputs.work import AdoptedList, TrialWork, WorkUse

PENDING_MAX = 1000
"""Most adopted checkpoints that wait for the server's answer; while there are more, none is added."""

Open = Callable[[str], FolderOutputs | BucketOutputs]
"""Opens a folder beside the outputs, by its name."""
IsCutOff = Callable[[str], bool]
"""Tells whether a file of the work folder ends before its content does."""


def find_complete(
    pattern: adoption.AdoptPattern,
    files: Sequence[wire.OutputFile],
    *,
    unsettled: Set[str],
    index: OutputIndex,
    is_final: bool,
    now_s: float,
) -> dict[str, list[wire.OutputFile]]:
    """Return the files of each checkpoint that is complete and was not adopted before, oldest first;
    note in the index what was seen of the others.

    unsettled: paths whose present content is not stored. A file is complete when it is stored. A
    folder grows file by file: it is when all its files are stored, and it looks as it did the last
    time or has not changed for QUIET_S. now_s: the time in seconds since 1970.
    """
    by_path = {file.path: file for file in files}
    groups = adoption.group(pattern, by_path.keys() | unsettled)
    complete: dict[str, list[wire.OutputFile]] = {}
    seen: dict[str, str] = {}
    for name, paths in groups.items():
        if unsettled & set(paths):
            continue
        members = [by_path[path] for path in sorted(paths)]
        stored = [file for file in members if file.state in ("kept", "link")]
        if len(stored) < len(members) or all(file.state == "link" for file in stored):
            continue
        digest = seen[name] = identity(stored)
        if index.adopted.get(name) == digest:
            continue
        is_quiet = now_s - max(file.mtime_ms for file in stored) / 1000 >= QUIET_S
        if paths == [name] or is_final or is_quiet or index.looked.get(name) == digest:
            complete[name] = stored
    index.looked = seen
    index.adopted = {name: was for name, was in index.adopted.items() if name in groups}
    return dict(sorted(complete.items(), key=lambda item: _changed_ms(item[1])))


def identity(files: Sequence[wire.OutputFile]) -> str:
    """Return a digest of the names and contents of files."""
    listed = sorted((file.path, file.sha256 or file.target) for file in files)
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:32]


def known(pattern: str, files: Sequence[wire.OutputFile]) -> Mapping[str, str]:
    """Return the checkpoints among files that were just restored: they are not adopted again."""
    by_path = {file.path: file for file in files}
    groups = adoption.group(adoption.parse(pattern), by_path)
    return {name: identity([by_path[path] for path in paths]) for name, paths in groups.items()}


class Adopter:
    """What one collection adopts."""

    def __init__(
        self,
        work: TrialWork,
        use: WorkUse,
        store: OutputStore,
        index: OutputIndex,
        open_: Open,
        is_cut_off: IsCutOff,
    ) -> None:
        self._work = work
        self._use = use
        self._store = store
        self._index = index
        self._open = open_
        self._is_cut_off = is_cut_off

    def run(
        self,
        pattern: str,
        files: Sequence[wire.OutputFile],
        *,
        unsettled: Set[str],
        is_final: bool,
    ) -> int:
        """Adopt what is complete; return how many. Raises OSError for the storage and the agent's own disk."""
        parsed = adoption.parse(pattern)
        found = find_complete(
            parsed,
            files,
            unsettled=unsettled,
            index=self._index,
            is_final=is_final,
            now_s=time.time(),
        )
        for num, (name, members) in enumerate(found.items()):
            before = self._work.read_adopted()
            acked = self._work.read_acked()
            done_no = acked.adopted_no if acked is not None else 0
            pending = [one for one in before.checkpoints if one.no > done_no]
            if len(pending) >= PENDING_MAX:
                return num
            one = self._adopt(before.last_no + 1, name, parsed.step_of(name), members)
            self._work.write_adopted(AdoptedList(last_no=one.no, checkpoints=[*pending, one]))
            self._index.adopted[name] = identity(members)
        return len(found)

    def _adopt(
        self, no: int, name: str, step: int | None, files: Sequence[wire.OutputFile]
    ) -> wire.AdoptedCheckpoint:
        folder, problem = f"adopted-{identity(files)}", ""
        cut_off = next(
            (f.path for f in files if f.state == "kept" and self._is_cut_off(f.path)), ""
        )
        if len(files) > wire.ADOPTED_FILES_MAX:
            problem = f"it has {len(files):,} files, and {wire.ADOPTED_FILES_MAX:,} are adopted"
        elif cut_off:
            problem = f"{cut_off} is cut off, as if its writer had been killed"
        else:
            self._keep(folder, files)
        return wire.AdoptedCheckpoint(
            no=no,
            attempt_no=self._use.attempt_no,
            node_rank=self._use.node_rank,
            name=name,
            step=step,
            folder=folder,
            saved_ms=_changed_ms(files),
            files=packed([] if problem else files),
            problem=problem,
        )

    def _keep(self, folder: str, files: Sequence[wire.OutputFile]) -> None:
        """Give the parts of files names in a folder of their own; its manifest is written last."""
        summary = wire.OutputsSummary(
            experiment_id=self._use.experiment_id,
            trial_id=self._use.trial_id,
            attempt_no=0,
            node_rank=self._use.node_rank,
            seq=wire.ADOPTED_SEQ,
            is_final=True,
            num_files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            num_left_out=0,
            left_out_bytes=0,
        )
        with closing(self._open(folder)) as target:
            for sha256 in part_sizes(files):
                target.take_part(self._store, sha256)
            name = manifest_name(self._use.node_rank, 0, wire.ADOPTED_SEQ)
            target.write_manifest(name, manifest_text(summary, files))


def _changed_ms(files: Sequence[wire.OutputFile]) -> int:
    return max(file.mtime_ms for file in files)
