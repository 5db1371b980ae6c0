"""Pilots as jobs of Slurm: one job is one node, submitted with sbatch and listed with squeue.

Several pilots are the elements of one job array. The text that squeue prints in a given format has stayed
the same over the releases; its JSON changes, and in old releases it lists everybody's jobs. So JSON is
asked for where it is only about us, and text wherever it is not understood.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from muster_server.domain.providers import Pilot, Seen, SlurmOptions

from .base import BatchSystemUnreachable, Listing, PilotJob, SubmissionRefused, Submitted
from .shell import Answer, Shell
from .slurm_listing import (
    INDEX_DIGITS,
    PREFIX,
    notice_of,
    parse_ends,
    parse_job,
    parse_sinfo,
    parse_squeue,
    parse_squeue_json,
    with_problem,
)

NOTICE_S = 120
"""Slurm tells a job so long before its end, or up to a minute earlier."""
MAX_INDEX = 1000
"""Slurm's job arrays have no higher numbers unless a site allows it (MaxArraySize)."""
MAX_DETAILS = 100
"""Most jobs that are asked for by their number in one look; the rest is left to the next."""
_REF = re.compile(r"\d+(_\d+)?")
_UNKNOWN_JOB = re.compile(r"invalid job id|^Job \S+ not found", re.IGNORECASE | re.MULTILINE)
_AWAY = re.compile(
    r"unable to contact|socket timed out|connection refused|communication|not responding|"
    r"Zero Bytes|controller|could not establish a configuration|command not found",
    re.IGNORECASE,
)
"""Errors of Slurm's commands that say nothing about the job."""
HOME_IN_USE = 4
"""The agent's exit code when another one runs in its home: that one's files are left alone."""
_NODES = "MUSTER_NODES"
_JOB = "MUSTER_JOB"
_TEXT = "SLURM_TIME_FORMAT=%s squeue --me -a -h -r -t all -o '%i|%j|%T|%S|%N|%r'"
_JSON_OR_TEXT = f"""case $(squeue --version) in
*\\ 23.11*|*\\ 2[4-9].*|*\\ [3-9][0-9].*) squeue --me -a -t all --json ;;
*) {_TEXT} ;;
esac"""


class Slurm:
    """See `BatchSystem` and `SubmitsMany`."""

    def __init__(self, options: SlurmOptions, shell: Shell | None = None) -> None:
        self._options = options
        self._shell = shell or Shell(options.host)

    def submit(self, job: PilotJob) -> str:
        return self._submit([job])[job.id]

    def submit_many(self, jobs: Sequence[PilotJob]) -> Submitted:
        refs: dict[str, str] = {}
        for group in groups(jobs):
            try:
                refs |= self._submit(group)
            except SubmissionRefused as refusal:
                if len(group) == 1:
                    return Submitted(refs=refs, refusal=str(refusal))
                # A limit on the number of jobs may still allow some of them.
                return self._submit_singly(group, refs)
        return Submitted(refs=refs)

    def _submit_singly(self, jobs: Sequence[PilotJob], refs: dict[str, str]) -> Submitted:
        for job in jobs:
            try:
                refs |= self._submit([job])
            except SubmissionRefused as refusal:
                return Submitted(refs=refs, refusal=str(refusal))
        return Submitted(refs=refs)

    def _submit(self, jobs: Sequence[PilotJob]) -> dict[str, str]:
        answer = self._shell.run(submission(self._options, jobs))
        if answer.code != 0:
            _require_reached(answer)
            raise SubmissionRefused(answer.error.removeprefix("sbatch: error: ") or "sbatch failed")
        ref = answer.output.splitlines()[-1].split(";")[0].strip() if answer.output else ""
        if not ref.isdigit():
            raise BatchSystemUnreachable(f"sbatch printed no job ID but {answer.output[:100]!r}")
        if len(jobs) == 1:
            return {jobs[0].id: ref}
        return {job.id: f"{ref}_{_index(job.id)}" for job in jobs}

    def look(self, pilots: Collection[Pilot]) -> Listing:
        listed, nodes = self._list()
        jobs = {pilot.id: listed[pilot.id] for pilot in pilots if pilot.id in listed}
        missing = [pilot for pilot in pilots if pilot.id not in jobs]
        # Without a single job of ours the list may be empty for another reason.
        absent = {pilot.id for pilot in missing if not pilot.ref}
        refs = {pilot.id: pilot.ref for pilot in missing if pilot.ref}
        # How a job ended is not among what squeue prints.
        refs |= {id_: seen.ref for id_, seen in jobs.items() if seen.state == "ended"}
        found = self._details(list(refs.values())[:MAX_DETAILS])
        for id_, ref in refs.items():
            if (seen := found.get(ref)) is not None:
                jobs[id_] = seen
            elif ref in found and id_ not in jobs:
                absent.add(id_)
        problems = parse_sinfo(nodes)
        return Listing(
            jobs={id_: with_problem(seen, problems) for id_, seen in jobs.items()},
            absent=frozenset(absent),
            notice=notice_of(problems),
        )

    def cancel(self, refs: Collection[str]) -> None:
        known = [ref for ref in refs if _REF.fullmatch(ref)]
        if not known:
            return
        # Without --signal, which a job that waits would not hear.
        answer = self._shell.run(f"scancel {' '.join(known)}")
        if answer.code != 0 and not _UNKNOWN_JOB.search(answer.error):
            raise BatchSystemUnreachable(answer.error or "scancel failed")

    def _list(self) -> tuple[dict[str, Seen], str]:
        """Return the jobs of our user that are pilots, and what sinfo prints of nodes."""
        jobs, nodes = self._ask(_JSON_OR_TEXT)
        if not jobs.startswith("{"):
            return parse_squeue(jobs), nodes
        try:
            return parse_squeue_json(jobs), nodes
        except ValueError:
            jobs, nodes = self._ask(_TEXT)
            return parse_squeue(jobs), nodes

    def _ask(self, squeue: str) -> tuple[str, str]:
        partition = f"-p {self._options.partition} " if self._options.partition else ""
        answer = self._shell.run(
            f"{squeue}\ncode=$?; [ $code = 0 ] || exit $code\necho; echo {_NODES}\n"
            # Slurm needs none of this: a site whose sinfo is missing or slow works as well.
            f"sinfo -h -N {partition}-t drain,down,fail -o '%N|%T|%E' 2>/dev/null || true"
        )
        if answer.code != 0:
            raise BatchSystemUnreachable(answer.error or "squeue failed")
        jobs, _, nodes = answer.output.partition(_NODES)
        return jobs.strip(), nodes

    def _details(self, refs: Sequence[str]) -> dict[str, Seen | None]:
        """Return jobs by their numbers: how they ended by the accounting, where there is one, else by
        slurmctld, which forgets them after minutes. None for one that Slurm does not know."""
        known = [ref for ref in refs if _REF.fullmatch(ref)]
        if not known:
            return {}
        program = [f"sacct -X -P -n -o JobID,State,ExitCode -j {','.join(known)} 2>/dev/null"]
        program += [f"echo {_JOB} {ref}; scontrol show job -o {ref} 2>&1" for ref in known]
        answer = self._shell.run("\n".join([*program, "true"]))
        ends, *parts = answer.output.split(f"{_JOB} ")
        found: dict[str, Seen | None] = dict(parse_ends(ends))
        for part in parts:
            ref, _, text = part.partition("\n")
            if ref in found:
                continue
            if "JobState=" in text:
                found[ref] = parse_job(ref, text)
            elif _UNKNOWN_JOB.search(text):
                found[ref] = None
            else:
                raise BatchSystemUnreachable(" ".join(text.split())[:400] or "scontrol failed")
        return found


def groups(jobs: Iterable[PilotJob]) -> list[list[PilotJob]]:
    """Return the pilots that one job array can hold together: those whose IDs differ in nothing but their
    number."""
    found: dict[str, list[PilotJob]] = defaultdict(list)
    for job in jobs:
        number = job.id[-INDEX_DIGITS:]
        can_be = number.isdigit() and int(number) <= MAX_INDEX
        found[job.id[:-INDEX_DIGITS] if can_be else job.id].append(job)
    return list(found.values())


def _index(pilot_id: str) -> int:
    return int(pilot_id[-INDEX_DIGITS:])


def submission(options: SlurmOptions, jobs: Sequence[PilotJob]) -> str:
    """Return the shell program that stores the join tokens of pilots, which differ in nothing but their
    number, and submits them as one job."""
    folder = options.folder
    lines = ["umask 077", f"mkdir -p {folder}/tokens {folder}/logs {options.storage} || exit 1"]
    for job in jobs:
        lines += [
            f"cat > {folder}/tokens/{job.id} <<'MUSTER_END' || exit 1",
            job.join_token,
            "MUSTER_END",
        ]
    return "\n".join(
        [
            *lines,
            # A job gets the environment of sbatch: this shell's, which may hold secrets, is left out.
            f'env -i PATH="$PATH" HOME="$HOME" ${{SLURM_CONF:+SLURM_CONF="$SLURM_CONF"}} '
            f"{shlex.join(_sbatch(options, jobs))} <<'MUSTER_END'",
            script(options, jobs),
            "MUSTER_END",
        ]
    )


def _sbatch(options: SlurmOptions, jobs: Sequence[PilotJob]) -> list[str]:
    job = jobs[0]
    given = {
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "constraint": options.constraint,
        "reservation": options.reservation,
        "exclude": options.exclude,
        "gres": options.gres,
        "cpus-per-task": options.cpus_per_task or str(job.slots),
        "mem": options.memory_mb,
    }
    name, log = job.id, f"{job.id}.log"
    if len(jobs) > 1:
        name = job.id[:-INDEX_DIGITS]
        log = f"{name}%{INDEX_DIGITS}a.log"
        given["array"] = ",".join(str(_index(one.id)) for one in jobs)
    return [
        "sbatch",
        "--parsable",
        f"--job-name={PREFIX}{name}",
        "--nodes=1",
        "--ntasks=1",
        "--no-requeue",
        # Otherwise the nodes of a gang may be one machine, and a trial takes what other jobs were given.
        *([] if options.share_nodes else ["--exclusive"]),
        "--open-mode=append",
        f"--output={options.folder}/logs/{log}",
        f"--time={max(1, job.walltime_s // 60)}",
        f"--signal=B:TERM@{min(NOTICE_S, job.walltime_s // 2)}",
        "--chdir=/",
        *(f"--{name}={value}" for name, value in given.items() if value),
    ]


def script(options: SlurmOptions, jobs: Sequence[PilotJob]) -> str:
    """Return the batch script of pilots. The home is local: locks and hard links must work there. A
    second start of the same job, as after a restart of slurmctld from an old state, finds the join
    token used, or the home: one that still lives keeps it."""
    job = jobs[0]
    id_ = job.id
    if len(jobs) > 1:
        number = f'$(printf %0{INDEX_DIGITS}d "$SLURM_ARRAY_TASK_ID")'
        id_ = f"{job.id[:-INDEX_DIGITS]}{number}"
    once = " --once" if job.once else ""
    return f"""#!/bin/bash
id={id_}
job=${{SLURM_ARRAY_JOB_ID:+${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID}}
job=${{job:-$SLURM_JOB_ID}}
token={options.folder}/tokens/$id
home=${{TMPDIR:-/tmp}}/muster-$id
export MUSTER_AGENT_SERVER_URL={shlex.quote(options.server_url)}
export MUSTER_AGENT_JOIN_TOKEN_FILE=$token
export MUSTER_AGENT_STORAGE_DIR={options.storage}
export MUSTER_AGENT_POOL={shlex.quote(job.pool)}
ends=$(squeue -h -j "$job" -o %e)
export MUSTER_AGENT_ENDS_AT=$(date -d "$ends" +%s)
grace=$(scontrol show config 2>/dev/null | awk '$1 == "KillWait" && $3 > 0 {{ print $3 }}')
export MUSTER_AGENT_TERM_GRACE_S=$grace
{options.agent} run --name "$id" --home "$home" --slots {job.slots} --slot-type {job.slot_type} \\
  --idle-exit {job.idle_s}{once} --provider-ref "slurm:$SLURM_CLUSTER_NAME:$job" &
agent=$!
trap 'kill -TERM $agent' TERM INT
while kill -0 $agent 2>/dev/null; do wait $agent; done
wait $agent
code=$?
[ $code = {HOME_IN_USE} ] || rm -rf "$home" "$token"
exit $code"""


def _require_reached(answer: Answer) -> None:
    if _AWAY.search(answer.error):
        raise BatchSystemUnreachable(answer.error)
