"""Slurm batch scripts as experiments: what `#SBATCH` lines become, and what has no meaning here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from muster.document.arrays import InvalidArray, elements_of, ranges_of
from muster.launch.commands import BATCH

from ..output import say, usage_error
from .body import calls_srun, check_script, shape_of_srun
from .draft import BatchDraft, SbatchJob
from .options import HANDLED, IGNORED, SbatchOption, sbatch_options
from .shape import SHAPE, add_shape

if TYPE_CHECKING:
    from muster.client import Client

_WHEN = {"afterok": "success", "afterany": "any"}
_SECONDS = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}
_SECONDS_AFTER_DAYS = {1: (3600,), 2: (3600, 60), 3: (3600, 60, 1)}


def document_of(
    client: Client,
    file: str,
    text: str,
    *,
    arguments: Sequence[str] = (),
    given: Sequence[SbatchOption] = (),
    code: Mapping[str, str] = MappingProxyType({}),
    quiet: bool = False,
) -> str:
    """Return the document of a batch script, and say what became what unless `quiet`.

    file: the script, inside the current folder, which is sent with it. given: options on the command
    line, which precede those of the script. code: what to send, if not that folder alone. Raises
    CommandFailure.
    """
    path = Path(file).resolve()
    folder = Path.cwd()
    if file == "-" or not path.is_relative_to(folder):
        raise usage_error(
            "A batch script must be a file in the current folder, which is sent with it.",
            "cd into its folder first",
        )
    name = path.relative_to(folder).as_posix()
    job = read_sbatch(
        text,
        name,
        arguments=arguments,
        given=given,
        pools=lambda: [pool["name"] for pool in client.pages("/pools")],
    )
    if "workdir" in code:
        job.document["code"] = dict(code)
    if not quiet:
        for translation in job.translations:
            say(translation.text())
        for note in job.notes:
            say(note)
    return json.dumps(job.document, indent=2)


def read_sbatch(
    text: str,
    path: str,
    *,
    arguments: Sequence[str] = (),
    given: Sequence[SbatchOption] = (),
    pools: Callable[[], Sequence[str]] = lambda: (),
) -> SbatchJob:
    """Return the experiment that a batch script describes.

    path: the script relative to the folder that is sent. arguments: those of the script. given:
    options of sbatch's command line. pools: returns the names of the pools, for --partition. Raises
    CommandFailure for values that make no sense, naming line and value, and for scripts that would
    not run as under Slurm.
    """
    options = {option.name: option for option in (*sbatch_options(text), *given)}
    if not options.keys() & SHAPE:
        options = shape_of_srun(text, " ".join((path, *arguments))) | options
    job = BatchDraft(options)
    job.document["name"] = PurePath(path).stem or "job"
    nodes = add_shape(job)
    for name, translate in _TRANSLATIONS.items():
        if name in options:
            translate(job, options[name])
    if partition := options.get("partition"):
        _partition(job, partition, pools())
    for name, option in options.items():
        if name not in HANDLED:
            job.note(option, "", IGNORED.get(name, "it means nothing here"))
    set_here = job.section("environment").get("variables", {})
    check_script(text, path, [*set_here, *job.document.get("array", {})])
    notes = []
    if nodes is None and not calls_srun(text):
        job.section("resources").setdefault("nodes", 1)
    elif nodes is not None and nodes > 1 and not calls_srun(text):
        notes.append(
            f"The script runs on the first of {nodes} nodes, and never calls srun, which starts "
            "processes on the others."
        )
    job.document["launcher"] = "shell"
    job.document["entrypoint"] = [BATCH, path, *arguments]
    return SbatchJob(
        document=job.document,
        translations=sorted(job.translations, key=lambda t: t.option.line),
        notes=notes,
    )


def _name(job: BatchDraft, option: SbatchOption) -> None:
    job.document["name"] = option.value
    job.set_variable("SLURM_JOB_NAME", option.value)
    job.note(option, f"name: {option.value}")


def _comment(job: BatchDraft, option: SbatchOption) -> None:
    job.document["notes"] = option.value
    job.note(option, "notes")


def _time(job: BatchDraft, option: SbatchOption) -> None:
    seconds = time_limit_s(option)
    if seconds == 0:
        job.note(option, "", "it sets no limit")
        return
    duration = duration_text(seconds)
    job.section("resources")["max_duration"] = duration
    job.note(option, f"resources.max_duration: {duration}", "restarts share it")


def duration_text(seconds: int) -> str:
    """Return a length of time as documents write it: 5430 is "1h30min30s"."""
    parts, left = [], seconds
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts)


def time_limit_s(option: SbatchOption) -> int:
    """Return the seconds of a time as Slurm writes it, where a plain number is minutes; 0 for no
    limit. Raises CommandFailure."""
    if option.value.upper() in ("0", "UNLIMITED", "INFINITE", "-1"):
        return 0
    days, dash, rest = option.value.rpartition("-")
    parts = rest.split(":")
    units = (_SECONDS_AFTER_DAYS if dash else _SECONDS).get(len(parts))
    if units is None or not all(p.isdigit() for p in [*parts, *([days] if dash else [])]):
        raise option.error(
            "is no time", "minutes, or M:S, H:M:S, D-H, D-H:M or D-H:M:S, such as --time=1-12:00:00"
        )
    seconds = sum(int(part) * unit for part, unit in zip(parts, units, strict=True))
    return seconds + int(days or 0) * 86_400


def _mem(job: BatchDraft, option: SbatchOption) -> None:
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", option.value, re.IGNORECASE)
    if found is None:
        raise option.error("is no size", "megabytes, or with K, M, G or T, such as --mem=16G")
    if int(found[1]) == 0:
        job.note(option, "", "it sets no limit")
        return
    size = f"{found[1]}{found[2].upper() or 'M'}iB"  # Slurm's units are powers of 1024.
    job.section("resources")["memory"] = size
    job.note(option, f"resources.memory: {size}", "a limit; nothing is reserved")


def _cpus(job: BatchDraft, option: SbatchOption) -> None:
    job.set_variable("OMP_NUM_THREADS", str(option.number()))
    job.set_variable("SLURM_CPUS_PER_TASK", option.value)
    job.note(option, f"environment.variables.OMP_NUM_THREADS: {option.value}", "cores are shared")


def _requeue(job: BatchDraft, option: SbatchOption) -> None:
    is_preemptible = option.name == "requeue"
    job.section("resources")["preemptible"] = is_preemptible
    job.note(option, f"resources.preemptible: {str(is_preemptible).lower()}")


def _signal(job: BatchDraft, option: SbatchOption) -> None:
    found = re.fullmatch(r"(?:[BR]{1,2}:)?\w+(?:@(\d+))?", option.value)
    if found is None:
        raise option.error("is no signal", "--signal=USR1@120")
    seconds = int(found[1] or 60)
    job.document["stop_grace_s"] = seconds
    job.note(option, f"stop_grace_s: {seconds}", "Muster sends SIGTERM")


def _chdir(job: BatchDraft, option: SbatchOption) -> None:
    if PurePosixPath(option.value) != PurePosixPath("."):
        raise option.error(
            "names another folder, and a job starts in a copy of the current one",
            "run the command in that folder, or write `cd` into the script",
        )
    job.note(option, "", "a job starts in a copy of the current folder")


def _export(job: BatchDraft, option: SbatchOption) -> None:
    given = [part.partition("=") for part in option.value.split(",") if "=" in part]
    if not given:
        job.note(option, "", "variables of this shell are not passed on; --export=NAME=VALUE is")
        return
    variables = job.section("environment").setdefault("variables", {})
    variables |= {name: value for name, _, value in given}
    names = ", ".join(name for name, _, _ in given)
    job.note(option, f"environment.variables: {names}")


def _array(job: BatchDraft, option: SbatchOption) -> None:
    try:
        elements, most = elements_of(option.value)
        ranges = ranges_of(elements)
    except InvalidArray as invalid:
        raise option.error(invalid.problem, invalid.hint) from None
    job.document["array"] = {"SLURM_ARRAY_TASK_ID": elements}
    if most:
        job.document["max_concurrent"] = most
    variables = job.section("environment").setdefault("variables", {})
    variables |= {
        "SLURM_ARRAY_JOB_ID": "${MUSTER_EXPERIMENT_ID}",
        "SLURM_ARRAY_TASK_COUNT": str(sum(len(part) for part in ranges)),
        "SLURM_ARRAY_TASK_MIN": str(min(part[0] for part in ranges)),
        "SLURM_ARRAY_TASK_MAX": str(max(part[-1] for part in ranges)),
    }
    became = f"array.SLURM_ARRAY_TASK_ID: {elements}"
    job.note(
        option,
        f"{became}, max_concurrent: {most}" if most else became,
        "one trial for each element, numbered from 1",
    )


def _dependency(job: BatchDraft, option: SbatchOption) -> None:
    entries: list[dict[str, Any]] = []
    for part in option.value.split(","):
        kind, *numbers = part.split(":")
        if kind not in _WHEN:
            raise option.error(
                f"has the kind {kind!r}, which has no meaning here", "use afterok:12 or afterany:12"
            )
        if not numbers or not all(n.isdigit() and int(n) > 0 for n in numbers):
            raise option.error(
                "names no experiments", "afterok:12:13, with the numbers of experiments"
            )
        entries += [{"experiment": int(number), "when": _WHEN[kind]} for number in numbers]
    job.document["after"] = entries
    shown = ", ".join(f"{entry['experiment']} ({entry['when']})" for entry in entries)
    job.note(option, f"after: {shown}", "numbers are those of experiments")


def _partition(job: BatchDraft, option: SbatchOption, pools: Sequence[str]) -> None:
    chosen = next((name for name in option.value.split(",") if name in pools), None)
    if chosen is None:
        job.note(option, "", f"there is no pool of that name; pools: {', '.join(pools) or 'none'}")
        return
    job.section("resources")["pool"] = chosen
    job.set_variable("SLURM_JOB_PARTITION", chosen)
    job.note(option, f"resources.pool: {chosen}")


_TRANSLATIONS: Mapping[str, Callable[[BatchDraft, SbatchOption], None]] = {
    "job-name": _name,
    "comment": _comment,
    "time": _time,
    "cpus-per-task": _cpus,
    "mem": _mem,
    "requeue": _requeue,
    "no-requeue": _requeue,
    "signal": _signal,
    "chdir": _chdir,
    "export": _export,
    "array": _array,
    "dependency": _dependency,
}
