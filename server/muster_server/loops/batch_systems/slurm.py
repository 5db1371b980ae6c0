"""Pilots as jobs of Slurm: one job is one node, submitted with sbatch and listed with squeue.

The text that squeue prints in a given format has stayed the same over the releases; its JSON has not.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Collection

from muster_server.domain.providers import Pilot, Seen, SlurmOptions

from .base import BatchSystemUnreachable, Listing, PilotJob, SubmissionRefused
from .shell import Answer, Shell

PREFIX = "muster-"
NOTICE_S = 120
"""Slurm tells a job so long before its end, or up to a minute earlier."""
_PENDING = frozenset(
    {
        "PENDING",
        "CONFIGURING",
        "REQUEUED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "REQUEUE_FED",
        "SPECIAL_EXIT",
    }
)
_ENDED = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    }
)
_WORDS = {
    "TIMEOUT": "TimeLimit",
    "NODE_FAIL": "NodeFail",
    "PREEMPTED": "Preempted",
    "OUT_OF_MEMORY": "OutOfMemory",
    "CANCELLED": "its job was canceled",
}
_UNKNOWN_JOB = re.compile("invalid job id", re.IGNORECASE)
_AWAY = re.compile(
    r"unable to contact|socket timed out|connection refused|communication|not responding|"
    r"Zero Bytes|controller|could not establish a configuration|command not found",
    re.IGNORECASE,
)
"""Errors of Slurm's commands that say nothing about the job."""


class Slurm:
    """See `BatchSystem`."""

    def __init__(self, options: SlurmOptions, shell: Shell | None = None) -> None:
        self._options = options
        self._shell = shell or Shell(options.host)

    def submit(self, job: PilotJob) -> str:
        answer = self._shell.run(submission(self._options, job))
        if answer.code != 0:
            _require_reached(answer)
            raise SubmissionRefused(answer.error.removeprefix("sbatch: error: ") or "sbatch failed")
        ref = answer.output.splitlines()[-1].split(";")[0].strip() if answer.output else ""
        if not ref.isdigit():
            raise BatchSystemUnreachable(f"sbatch printed no job ID but {answer.output[:100]!r}")
        return ref

    def look(self, pilots: Collection[Pilot]) -> Listing:
        answer = self._shell.run(
            "SLURM_TIME_FORMAT=%s squeue --me -a -h -r -t all -o '%i|%j|%T|%S|%r'"
        )
        if answer.code != 0:
            raise BatchSystemUnreachable(answer.error or "squeue failed")
        listed = parse_squeue(answer.output)
        jobs = {pilot.id: listed[pilot.id] for pilot in pilots if pilot.id in listed}
        missing = [pilot for pilot in pilots if pilot.id not in jobs]
        # Without a single job of ours the list may be empty for another reason.
        absent = {pilot.id for pilot in missing if not pilot.ref}
        for pilot in missing:
            if pilot.ref:
                seen = self._show(pilot.ref)
                if seen is None:
                    absent.add(pilot.id)
                else:
                    jobs[pilot.id] = seen
        return Listing(jobs=jobs, absent=frozenset(absent))

    def cancel(self, refs: Collection[str]) -> None:
        known = [ref for ref in refs if ref.isdigit()]
        if not known:
            return
        # Without --signal, which a job that waits would not hear.
        answer = self._shell.run(f"scancel {' '.join(known)}")
        if answer.code != 0 and not _UNKNOWN_JOB.search(answer.error):
            raise BatchSystemUnreachable(answer.error or "scancel failed")

    def _show(self, ref: str) -> Seen | None:
        """Return a job that squeue does not list; None if Slurm says that there is none."""
        answer = self._shell.run(f"scontrol show job -o {shlex.quote(ref)}")
        if answer.code != 0:
            if _UNKNOWN_JOB.search(answer.error):
                return None
            raise BatchSystemUnreachable(answer.error or "scontrol failed")
        fields = dict(part.split("=", 1) for part in answer.output.split() if "=" in part)
        return _seen(ref, fields.get("JobState", ""), fields.get("Reason", ""), "")


def submission(options: SlurmOptions, job: PilotJob) -> str:
    """Return the shell program that stores a pilot's join token and submits its job."""
    folder = options.folder
    token = f"{folder}/tokens/{job.id}"
    return "\n".join(
        [
            "umask 077",
            f"mkdir -p {folder}/tokens {folder}/logs {options.storage} || exit 1",
            f"cat > {token} <<'MUSTER_END' || exit 1",
            job.join_token,
            "MUSTER_END",
            # A job gets the environment of sbatch: this shell's, which may hold secrets, is left out.
            f'env -i PATH="$PATH" HOME="$HOME" ${{SLURM_CONF:+SLURM_CONF="$SLURM_CONF"}} '
            f"{shlex.join(_sbatch(options, job))} <<'MUSTER_END'",
            script(options, job),
            "MUSTER_END",
        ]
    )


def _sbatch(options: SlurmOptions, job: PilotJob) -> list[str]:
    given = {
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "constraint": options.constraint,
        "reservation": options.reservation,
        "exclude": options.exclude,
        "gres": options.gres,
        "cpus-per-task": options.cpus_per_task,
        "mem": options.memory_mb,
    }
    return [
        "sbatch",
        "--parsable",
        f"--job-name={PREFIX}{job.id}",
        "--nodes=1",
        "--ntasks=1",
        "--no-requeue",
        "--open-mode=append",
        f"--output={options.folder}/logs/{job.id}.log",
        f"--time={max(1, job.walltime_s // 60)}",
        f"--signal=B:TERM@{min(NOTICE_S, job.walltime_s // 2)}",
        "--chdir=/",
        *(f"--{name}={value}" for name, value in given.items() if value),
    ]


def script(options: SlurmOptions, job: PilotJob) -> str:
    """Return the batch script of a pilot. Its home is local: locks and hard links must work there. A
    second start of the same job, as after a restart of slurmctld from an old state, finds the join
    token used, or its own home."""
    token = f"{options.folder}/tokens/{job.id}"
    return f"""#!/bin/bash
export MUSTER_AGENT_SERVER_URL={shlex.quote(options.server_url)}
export MUSTER_AGENT_JOIN_TOKEN_FILE={token}
export MUSTER_AGENT_STORAGE_DIR={options.storage}
export MUSTER_AGENT_POOL={shlex.quote(job.pool)}
home=${{TMPDIR:-/tmp}}/muster-{job.id}
ends=$(squeue -h -j "$SLURM_JOB_ID" -o %e)
export MUSTER_AGENT_ENDS_AT=$(date -d "$ends" +%s)
{options.agent} run --name {job.id} --home "$home" --slots {job.slots} --slot-type {job.slot_type} \\
  --idle-exit {job.idle_s} --provider-ref "slurm:$SLURM_CLUSTER_NAME:$SLURM_JOB_ID" &
agent=$!
trap 'kill -TERM $agent' TERM INT
while kill -0 $agent 2>/dev/null; do wait $agent; done
wait $agent
code=$?
rm -rf "$home" {token}
exit $code"""


def parse_squeue(text: str) -> dict[str, Seen]:
    """Return the pilots among the jobs that squeue lists, by ID. Of two jobs of one pilot the one that
    has not ended counts."""
    found: dict[str, Seen] = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 4)
        if len(parts) != 5 or not parts[1].startswith(PREFIX):
            continue
        ref, name, state, start, reason = parts
        pilot_id = name.removeprefix(PREFIX)
        seen = _seen(ref, state, reason, start)
        if pilot_id not in found or found[pilot_id].state == "ended":
            found[pilot_id] = seen
    return found


def _seen(ref: str, state: str, reason: str, start: str) -> Seen:
    state = state.split(" ")[0].rstrip("+")
    if state in _PENDING:
        expected = dt.datetime.fromtimestamp(int(start), dt.UTC) if start.isdigit() else None
        return Seen(ref=ref, state="pending", reason=reason, expected_at=expected)
    if state in _ENDED:
        return Seen(ref=ref, state="ended", reason=_WORDS.get(state, reason))
    return Seen(ref=ref, state="running", reason=reason)


def _require_reached(answer: Answer) -> None:
    if _AWAY.search(answer.error):
        raise BatchSystemUnreachable(answer.error)
