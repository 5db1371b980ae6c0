"""PREPARE of the work folder: what an earlier attempt left here, or what it left in the storage."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muster import wire
from muster.sdk.object_store import StoreRefused
from muster_agent.isolation import beneath
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.process import tagged
from muster_agent.outputs import adopt, scan
from muster_agent.outputs.index import (
    IndexEntry,
    OutputIndex,
    part_sizes,
    read_base,
    read_index,
    write_base,
)
from muster_agent.outputs.restore import (
    OutputsDamaged,
    choose_source,
    is_current,
    read_source,
    restore,
)
from muster_agent.outputs.storage import Storage
from muster_agent.outputs.store import BucketOutputs, FolderOutputs, is_absent, why
from muster_agent.outputs.work import ASIDE, ASIDE_KEPT_DAYS, TrialWork, WorkUse
from muster_agent.shim.failures import PrepareFailed, goes_by_itself
from muster_agent.shim.preparation.bundle import ExtractionError, extract_bundle

USED_WAIT_S = 120.0
"""Longest wait in seconds for an earlier attempt of the trial to be gone from this node."""
READ_WAIT_S = 60.0
"""Longest wait in seconds for a collection to let go of the files."""
SEQS_PER_ATTEMPT = 100_000
"""Distance of the first manifests of two attempts. A node may not know the last number of its rank: after
a change of the number of nodes it is told of rank 0 alone."""
_POLL_S = 0.1
_ASIDE_BOUND = f"The agent deletes them {ASIDE_KEPT_DAYS} days after that."

Tell = Callable[[Literal["info", "warning"], str], None]


@dataclass(frozen=True, kw_only=True)
class PreparedWork:
    """A work folder that belongs to this process until it ends."""

    work: TrialWork
    lock: int
    """Descriptor of the lock; it is held for as long as this process lives."""


def prepare_work(
    spec: wire.AllocationSpec, options: ShimOptions, folder: AllocationFolder, *, tell: Tell
) -> PreparedWork:
    """Take the trial's work folder and bring it up to date. Blocks; raises PrepareFailed.

    tell: takes a message for the trial's events.
    """
    work = TrialWork.of(folder.path.parent.parent, spec)
    try:
        lock = _take(work, folder)
        _recover(work)
        _set_foreign_aside(work, spec, tell)
        _bring_up_to_date(work, spec, options, tell)
        work.output_dir.mkdir(exist_ok=True)
    except ExtractionError as error:
        raise PrepareFailed(
            str(error),
            blames="document" if error.is_permanent else "node" if error.is_disk_full else "",
            passes=error.is_disk_full,
        ) from error
    except FileExistsError as error:
        raise PrepareFailed(
            f"{error.filename} is a file; the folder of this name is used for outputs",
            blames="document",
        ) from error
    except OSError as error:
        raise PrepareFailed(
            f"the work folder {work.path} cannot be prepared: {why(error)}",
            blames="node",
            passes=goes_by_itself(error),
        ) from error
    return PreparedWork(work=work, lock=lock)


def _take(work: TrialWork, folder: AllocationFolder) -> int:
    """Lock the folder, and see that nothing of an earlier attempt lives in it."""
    deadline = time.monotonic() + USED_WAIT_S
    lock: int | None = None
    while True:
        if lock is None:
            work.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileNotFoundError):  # It is being deleted.
                lock = work.lock()
        use = work.read_use() if lock is not None else None
        if lock is not None and (
            use is None
            or use.allocation_id == folder.allocation_id
            or not tagged(use.allocation_id, folder.owner)
        ):
            return lock
        if time.monotonic() > deadline:
            use = work.read_use()
            which = f"attempt {use.attempt_no}" if use is not None else "an earlier attempt"
            raise PrepareFailed(
                f"processes of {which} of this trial still use its work folder on this node",
                blames="",
            )
        time.sleep(_POLL_S)


def _recover(work: TrialWork) -> None:
    """Finish or undo what was interrupted between two renames."""
    root = beneath.open_root(work.path)
    try:
        names = set(beneath.names_in(root))
        if "files.old" in names and "files" not in names:
            os.rename("files.old", "files", src_dir_fd=root, dst_dir_fd=root)
        for name in ("files.new", "files.old"):
            beneath.remove(root, name)
    finally:
        os.close(root)


def _set_foreign_aside(work: TrialWork, spec: wire.AllocationSpec, tell: Tell) -> None:
    """Move away the files of a trial of this number that another server has had."""
    use = work.read_use()
    known = {use.cluster_id, spec.cluster_id} if use is not None else set()
    if use is None or len(known) == 1 or "" in known:
        return
    aside = _aside(work, f"server-{use.cluster_id[:16]}")
    with work.files_alone(timeout_s=READ_WAIT_S):
        work.files.rename(aside)
    tell(
        "warning",
        f"The files of another server's trial of this number were moved to {aside}. {_ASIDE_BOUND}",
    )
    for name in ("attempt", "manifest", "acked", "adopted", "index", "base"):
        (work.path / f"{name}.json").unlink(missing_ok=True)


def _aside(work: TrialWork, mark: str) -> Path:
    return work.path.parent / f"{ASIDE}{work.name}-{mark}-{secrets.token_hex(3)}"


# ---------------------------------------------------------------- content


def _bring_up_to_date(
    work: TrialWork, spec: wire.AllocationSpec, options: ShimOptions, tell: Tell
) -> None:
    before = work.read_use() if work.files.is_dir() else None
    source = choose_source(spec.work_from, spec.node_rank)
    storage_id = Storage(Path(options.storage_dir)).known_id()
    sha256 = spec.code.sha256 if spec.code.kind == "bundle" else ""
    use = WorkUse(
        cluster_id=spec.cluster_id,
        experiment_id=spec.experiment_id,
        trial_id=spec.trial_id,
        attempt_no=spec.attempt_no,
        allocation_id=spec.allocation_id,
        node_rank=spec.node_rank,
        code_sha256=sha256,
        outputs=None if Path(spec.checkpoint_dir).is_absolute() else spec.outputs,
        storage_id=storage_id,
        folder=f"{spec.checkpoint_dir}/outputs",
        url=f"{spec.checkpoint_url}/outputs" if spec.checkpoint_url else "",
        first_seq=max([spec.attempt_no * SEQS_PER_ATTEMPT, *(s.seq for s in spec.work_from)]),
    )
    is_outdated = before is None or not is_current(
        before.attempt_no, before.node_rank, source=source, wanted_rank=spec.node_rank
    )
    bundle = Path(options.bundle) if sha256 else None
    if is_outdated and source and _restore(work, options, source, use, before, tell):
        pass  # Its code is new as well.
    elif before is None:
        _build(work, use, bundle)
    elif before.code_sha256 != sha256:
        _change_code(work, bundle)
    work.write_use(use)


def _build(
    work: TrialWork,
    use: WorkUse,
    bundle: Path | None,
    *,
    fill: Callable[[int], dict[str, IndexEntry]] | None = None,
    aside: Path | None = None,
    is_fork: bool = False,
) -> None:
    """Make new files from the code, then those of `fill`, and put them in place of what is there.

    aside: where to move what is there; without it, it is deleted.
    is_fork: whether `fill` writes a checkpoint of another trial.
    """
    fresh = work.path / "files.new"
    shutil.rmtree(fresh, ignore_errors=True)
    if bundle is not None:
        extract_bundle(bundle, fresh)
    else:
        fresh.mkdir()
    root = beneath.open_root(fresh)
    try:
        base = base_of(root)
        entries = fill(root) if fill is not None else {}
    finally:
        os.close(root)
    with work.files_alone(timeout_s=READ_WAIT_S):
        write_base(work.base, base)
        known = read_index(work.index)
        outputs = use.outputs or wire.OutputsSpec()
        store_id = use.url or f"{use.storage_id}/{use.folder}"
        patterns = [list(outputs.include), list(outputs.exclude)]
        index = OutputIndex(store_id=store_id, patterns=patterns, entries=entries)
        index.seq = max(known.seq if known is not None else 0, use.first_seq)
        if is_fork and outputs.adopt:
            # They are the other trial's checkpoints, not its own.
            files = [entry.file for entry in entries.values() if entry.file is not None]
            index.adopted = dict(adopt.known(outputs.adopt, files))
        index.save(work.index)
        if work.files.exists():
            work.files.rename(aside or work.path / "files.old")
        fresh.rename(work.files)
    _recover(work)


def base_of(root: int) -> dict[str, tuple[scan.Signature, str]]:
    """Return the files below a folder with their digests: what came with the code. That of a link
    is of its text."""
    base = {}
    for found in scan.scan(root, lambda path: False):
        if found.kind == "link":
            sha256 = hashlib.sha256(os.fsencode(found.target)).hexdigest()
            base[found.path] = (found.signature, sha256)
        if found.kind != "file":
            continue
        *folders, name = found.path.split("/")
        with (
            beneath.folder(root, folders) as parent,
            os.fdopen(beneath.open_file(name, parent), "rb") as file,
        ):
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        base[found.path] = (found.signature, sha256)
    return base


def _change_code(work: TrialWork, bundle: Path | None) -> None:
    """Put other code into the files; what the job wrote stays, but where the code has a file."""
    fresh = work.path / "code.new"
    shutil.rmtree(fresh, ignore_errors=True)
    if bundle is not None:
        extract_bundle(bundle, fresh)
    else:
        fresh.mkdir()
    old = read_base(work.base)
    root, source = beneath.open_root(work.files), beneath.open_root(fresh)
    try:
        new = base_of(source)
        with work.files_alone(timeout_s=READ_WAIT_S):
            for path, (signature, _) in old.items():
                _remove_unchanged(root, path, signature)
            for found in list(scan.scan(source, lambda path: False)):
                *folders, name = found.path.split("/")
                with beneath.folder(source, folders) as origin:
                    target = beneath.force_folder(root, folders)
                    try:
                        beneath.remove(target, name)
                        os.rename(name, name, src_dir_fd=origin, dst_dir_fd=target)
                    finally:
                        os.close(target)
            write_base(work.base, _seen_again(root, new))
    finally:
        os.close(root)
        os.close(source)
        shutil.rmtree(fresh, ignore_errors=True)


def _remove_unchanged(root: int, path: str, signature: scan.Signature) -> None:
    *folders, name = path.split("/")
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        beneath.folder(root, folders) as parent,
    ):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if scan.signature_of(found) == signature:
            os.unlink(name, dir_fd=parent)


def _seen_again(
    root: int, base: dict[str, tuple[scan.Signature, str]]
) -> dict[str, tuple[scan.Signature, str]]:
    """Return the base manifest with the signatures after moving: a rename changes a time."""
    seen = {}
    for path, (_, sha256) in base.items():
        *folders, name = path.split("/")
        with beneath.folder(root, folders) as parent:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        seen[path] = (scan.signature_of(found), sha256)
    return seen


# ---------------------------------------------------------------- restoring


def _restore(
    work: TrialWork,
    options: ShimOptions,
    source: wire.WorkSource,
    use: WorkUse,
    before: WorkUse | None,
    tell: Tell,
) -> bool:
    """Replace the files by those of a manifest. Return False, after a word to the user, if this
    node's storage does not have it. Raises PrepareFailed and OSError.

    before: what uses the files that are here; None if there are none."""
    try:
        store = _open_source(work, options, source)
        try:
            files = read_source(store, source)
            size = sum(part_sizes(files).values())
            _check_size(size, source, options, work)
            tell(
                "info",
                f"Restoring {_named(source)} (node {source.node_rank}): "
                f"{len(files):,} files, {size / 1e6:,.1f} MB.",
            )
            aside = None
            if before is not None and not _is_settled(work, before):
                aside = _aside(work, f"attempt-{before.attempt_no}")
            bundle = Path(options.bundle) if use.code_sha256 else None

            def fill(root: int) -> dict[str, IndexEntry]:
                return restore(store, files, root, tell=lambda text: tell("info", text + "."))

            _build(work, use, bundle, fill=fill, aside=aside, is_fork=bool(source.source))
            if aside is not None:
                tell(
                    "warning",
                    f"Files that are in no storage yet were moved to {aside}. {_ASIDE_BOUND}",
                )
        finally:
            store.close()
    except OutputsDamaged as error:
        raise PrepareFailed(f"{_named(source)} cannot be restored: {error}", blames="") from error
    except StoreRefused as error:
        if not is_absent(error):
            raise PrepareFailed(
                f"{_named(source)} cannot be fetched: {error}", blames=""
            ) from error
        _tell_absent(source, tell, "they are no longer in the object store", before)
        return False
    except FileNotFoundError as error:
        _tell_absent(source, tell, f"{error.filename} is not in the storage", before)
        return False
    except _OtherStorage:
        _tell_absent(source, tell, "they lie in the storage of another node", before)
        return False
    return True


class _OtherStorage(Exception):
    """This node does not have the storage in which a manifest lies."""


def _open_source(
    work: TrialWork, options: ShimOptions, source: wire.WorkSource
) -> FolderOutputs | BucketOutputs:
    if source.storage_url:
        return BucketOutputs(source.storage_url, work.sending)
    storage = Path(options.storage_dir)
    if not source.storage_id or Storage(storage).known_id() != source.storage_id:
        raise _OtherStorage
    try:
        return FolderOutputs(storage, source.folder, create=False)
    except beneath.LeadsOutside as error:
        raise OutputsDamaged(str(error)) from error


def _check_size(size: int, source: wire.WorkSource, options: ShimOptions, work: TrialWork) -> None:
    if size > options.work_restore_max_bytes:
        raise PrepareFailed(
            f"{_named(source)} have {size / 1e9:,.1f} GB, and this node "
            f"restores at most {options.work_restore_max_bytes / 1e9:,.1f} GB "
            "(MUSTER_AGENT_WORK_RESTORE_MAX_BYTES)"
        )
    free = shutil.disk_usage(work.path).free
    if free < size + options.min_disk_free_bytes:
        raise PrepareFailed(
            f"{_named(source)} have {size / 1e9:,.1f} GB, and only "
            f"{free / 1e9:,.1f} GB are free at {work.path}",
            blames="node",
            passes=True,
        )


def _is_settled(work: TrialWork, use: WorkUse) -> bool:
    """Return whether the server has answered the final manifest of an attempt."""
    acked = work.read_acked()
    if use.outputs is None:
        return False
    return acked is not None and acked.is_final and acked.allocation_id == use.allocation_id


def _named(source: wire.WorkSource) -> str:
    return f"the files of {source.source or f'attempt {source.attempt_no}'}"


def _tell_absent(source: wire.WorkSource, tell: Tell, reason: str, before: WorkUse | None) -> None:
    """Say what the trial starts with instead. Raises PrepareFailed for a fork: without the files of
    its checkpoint it would train from the beginning."""
    if source.source:
        raise PrepareFailed(
            f"{_named(source)} cannot be restored, because {reason}. Give the nodes a shared storage "
            "folder (MUSTER_AGENT_STORAGE_DIR) or an object store, or run the trial on the node that "
            "wrote them"
        )
    start = (
        "an empty work folder"
        if before is None
        else f"the files of attempt {before.attempt_no}, which this node still has"
    )
    tell(
        "warning",
        f"The trial starts with {start}: the files of attempt {source.attempt_no} cannot be restored, "
        f"because {reason}. Node {source.node_id} wrote them and may still have its work folder. Give "
        "the nodes a shared storage folder (MUSTER_AGENT_STORAGE_DIR) or an object store, or let the "
        "trial run on that node.",
    )
