"""Listing the layers of models on request, each in a short-lived process of its own.

The process is forked from a warm parent where there is one that fits, else started. It holds no slot;
what it may take is bounded by itself (muster.training.describe), how long by us, and all that is left
of it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, Session, persistently
from muster_agent.isolation.untrusted import opened, read_text
from muster_agent.isolation.walls import Isolation, program, why_not_readable
from muster_agent.jobs.process import OWNER_VARIABLE, TOKEN_VARIABLE, kill_all, tagged
from muster_agent.requests import RequestQueue
from muster_agent.shim.preparation.bundle import ExtractionError, extract_bundle
from muster_agent.shim.processes.warm import NoWarmWorkers, start_keeper

log = structlog.get_logger("muster.agent")

MODULE = ("-m", "muster.training.describe")
WARM_TIMEOUT_S = 10.0
"""Seconds to wait for the answer of a warm parent."""
KILL_TIMEOUT_S = 5.0
MAX_WORDS = 300
MAX_OUTPUT_BYTES = 4 * 2**20

Describe = Callable[[wire.Description], Awaitable[wire.DescriptionResult]]


class Describer(RequestQueue[wire.Description]):
    """Model descriptions of one session."""

    def __init__(self, plane: ControlPlane, session: Session, *, describe: Describe) -> None:
        super().__init__()
        self._plane = plane
        self._session = session
        self._describe = describe

    async def _answer(self, wanted: wire.Description) -> None:
        result = await self._describe(wanted)
        log.info("description", id=result.id, outcome=result.outcome, message=result.message)
        try:
            await persistently(
                lambda: self._plane.description(self._session, result), what="descriptions"
            )
        except RequestRefused as error:
            log.warning("description_not_taken", id=result.id, error=str(error))


@dataclass(frozen=True, kw_only=True)
class DescriptionJob:
    """How to describe a model on this node."""

    name: str
    """Mark of its processes, unique on this node."""
    owner: str
    """Owner mark of its processes; see process.owner_of."""
    python: str
    environment: Mapping[str, str]
    """Environment of the warm parent, or of the process that is started instead."""
    warm_socket: str
    """Socket of a warm parent with this environment; "" if there is none."""
    folder: Path
    """Work folder, created before and deleted after the job."""
    code: Path | None
    """Folder of code that is installed on this node."""
    bundle: Path | None
    """Archive of the code, used instead of `code`."""
    isolation: Isolation = field(default_factory=Isolation)
    """Level at which the model's code runs."""


async def describe(wanted: wire.Description, job: DescriptionJob) -> wire.DescriptionResult:
    """Run the job and return its result. Takes at most wire.DESCRIPTION_TIMEOUT_S and the time to
    end the process."""
    try:
        await asyncio.to_thread(_make_folder, wanted, job)
    except (ExtractionError, OSError) as error:
        return _without(wanted, "refused", str(error))
    try:
        async with asyncio.timeout(wire.DESCRIPTION_TIMEOUT_S):
            status = await _run(job)
    except TimeoutError:
        limit = f"{wire.DESCRIPTION_TIMEOUT_S:g} s"
        return _without(wanted, "refused", f"building it takes longer than {limit}")
    except OSError as error:
        return _without(wanted, "failed", f"{job.python} could not be started: {error}")
    else:
        return await asyncio.to_thread(_read, wanted, job, status)
    finally:
        await asyncio.shield(asyncio.to_thread(_clean_up, job))


def _make_folder(wanted: wire.Description, job: DescriptionJob) -> None:
    shutil.rmtree(job.folder, ignore_errors=True)
    job.folder.mkdir(parents=True)
    if job.bundle is not None:
        extract_bundle(job.bundle, job.folder / "code")
    elif job.code is None:
        (job.folder / "code").mkdir()
    elif not job.code.is_dir():
        raise OSError(f"the code folder {job.code} does not exist on this node")
    elif why := why_not_readable(job.isolation, job.code):
        raise OSError(f"a job in a sandbox cannot read the code folder {job.code}: {why}")
    (job.folder / "request.json").write_text(json.dumps({"settings": wanted.settings}))


async def _run(job: DescriptionJob) -> int:
    """Return the exit code, or minus the signal. Raises OSError if the process could not be
    started."""
    own = {TOKEN_VARIABLE: job.name, OWNER_VARIABLE: job.owner, "CUDA_VISIBLE_DEVICES": ""}
    entrypoint = [*MODULE, str(job.folder / "request.json"), str(job.folder / "result.json")]
    if job.warm_socket:
        try:
            return await _run_warm(job, own, entrypoint)
        except NoWarmWorkers as error:
            log.info("description_cold", reason=str(error))
    with (
        _words(job).open("wb") as words,
        program(
            job.isolation,
            [job.python, *entrypoint],
            environment={**job.environment, **own},
            folder=_code(job),
            read=[_code(job)],
            write=[job.folder],
        ) as started,
    ):
        process = await asyncio.create_subprocess_exec(
            *started.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=words,
            cwd=started.folder,
            env=started.environment,
            start_new_session=True,
            pass_fds=started.fds,
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await asyncio.shield(process.wait())


async def _run_warm(job: DescriptionJob, own: Mapping[str, str], entrypoint: Sequence[str]) -> int:
    """Run the job in a fork of a warm parent. Raises NoWarmWorkers."""
    ended = asyncio.Event()
    keeper = await start_keeper(
        job.warm_socket,
        {
            "shared": dict(job.environment),
            "own": dict(own),
            "workers": [{"variables": {}, "stdout": "/dev/null", "stderr": str(_words(job))}],
            "folder": str(_code(job)),
            "entrypoint": list(entrypoint),
            "cgroup": "",
        },
        timeout_s=WARM_TIMEOUT_S,
        on_end=ended.set,
    )
    try:
        while not keeper.workers[0].has_ended and not keeper.child.has_ended:
            await ended.wait()
            ended.clear()
        return keeper.workers[0].status or 0
    finally:
        keeper.close()


def _read(wanted: wire.Description, job: DescriptionJob, status: int) -> wire.DescriptionResult:
    path = job.folder / "result.json"
    try:
        with opened(path, base=job.folder) as file:
            text = file.read(wire.MAX_TABLE_BYTES + 1)
        if len(text) > wire.MAX_TABLE_BYTES:
            return _without(wanted, "refused", "the model has too many layers to list")
        answer = json.loads(text)
        return wire.load(wire.DescriptionResult, {**answer, "id": wanted.id})
    except (OSError, ValueError) as error:
        how = f"ended with code {status}" if status >= 0 else f"was killed by signal {-status}"
        words = _last_line(_words(job)) or str(error)
        return _without(wanted, "refused", f"the process that builds it {how}: {words}")


def _clean_up(job: DescriptionJob) -> None:
    left = kill_all(lambda: tagged(job.name, job.owner), timeout_s=KILL_TIMEOUT_S)
    if left:
        log.warning("unkillable", description=job.name, num_processes=len(left))
    shutil.rmtree(job.folder, ignore_errors=True)


def _code(job: DescriptionJob) -> Path:
    return job.code if job.code is not None and job.bundle is None else job.folder / "code"


def _words(job: DescriptionJob) -> Path:
    return job.folder / "stderr"


def _last_line(path: Path) -> str:
    try:
        said = read_text(path, base=path.parent, max_bytes=MAX_OUTPUT_BYTES)
        lines = said.strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:MAX_WORDS] if lines else ""


def _without(wanted: wire.Description, outcome: str, message: str) -> wire.DescriptionResult:
    return wire.load(
        wire.DescriptionResult, {"id": wanted.id, "outcome": outcome, "message": message}
    )
