"""What Slurm's commands print: squeue as text and as JSON, sacct, scontrol and sinfo."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster_server.domain.providers import Seen

PREFIX = "muster-"
INDEX_DIGITS = 4
"""The name of a job array is that of its pilots without so many digits at their end: the element."""
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
_NAMED_NODES = 3


@dataclass(frozen=True, kw_only=True)
class SiteNode:
    """A node of the site that takes no jobs."""

    name: str
    state: str
    """Slurm's word: "drained", "down*"."""
    reason: str

    @property
    def problem(self) -> str:
        """ "n1 is drained (disk)"."""
        words = f"{self.name} is {self.state.rstrip('*')}"
        return f"{words} ({self.reason})" if self.reason else words

    @property
    def is_drained(self) -> bool:
        """Whether its administrator wants it to be empty; what runs there goes on until it ends."""
        return self.state.startswith(("drain", "fail"))


def parse_squeue(text: str) -> dict[str, Seen]:
    """Return the pilots among the jobs in lines of "ID|name|state|start|nodes|reason"."""
    found: dict[str, Seen] = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 5)
        if len(parts) != 6:
            continue
        ref, name, state, start, nodes, reason = parts
        _add(found, ref, name, seen_of(ref, state, reason, start=start, node=nodes))
    return found


def parse_squeue_json(text: str) -> dict[str, Seen]:
    """Return the pilots among the jobs of `squeue --json`. Raises ValueError if it is not understood:
    its shape changes between releases."""
    try:
        jobs = json.loads(text)["jobs"]
        found: dict[str, Seen] = {}
        for job in jobs:
            if not str(job["name"]).startswith(PREFIX):
                continue
            for ref in _refs(job):
                state = job["job_state"]
                seen = seen_of(
                    ref,
                    state if isinstance(state, str) else str(state[0]),
                    str(job["state_reason"]),
                    start=str(_number(job["start_time"]) or ""),
                    node=str(job.get("nodes") or ""),
                )
                _add(found, ref, str(job["name"]), seen)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"squeue --json: {error!r}") from error
    return found


def parse_ends(text: str) -> dict[str, Seen]:
    """Return the jobs that have ended, by ID, from lines of sacct: "ID|state|exit code"."""
    found = {}
    for line in text.splitlines():
        ref, _, rest = line.strip().partition("|")
        state, _, code = rest.partition("|")
        seen = seen_of(ref, state, "", exit_code=code)
        if ref and seen.state == "ended":
            found[ref] = seen
    return found


def parse_job(ref: str, text: str) -> Seen:
    """Return a job as `scontrol show job -o` prints it."""
    fields = dict(part.split("=", 1) for part in text.split() if "=" in part)
    return seen_of(
        ref,
        fields.get("JobState", ""),
        fields.get("Reason", ""),
        node=fields.get("NodeList", ""),
        exit_code=fields.get("ExitCode", ""),
    )


def parse_sinfo(text: str) -> dict[str, SiteNode]:
    """Return the nodes that take no jobs from lines of "name|state|reason"; a node of several partitions
    is listed several times."""
    found = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 2)
        if len(parts) == 3 and parts[0]:
            reason = "" if parts[2].strip().lower() == "none" else parts[2].strip()
            found[parts[0]] = SiteNode(name=parts[0], state=parts[1].lower(), reason=reason)
    return found


def notice_of(nodes: Mapping[str, SiteNode]) -> str:
    """Return what people should know of the site's nodes; "" if all of them take jobs."""
    problems = [nodes[name].problem for name in sorted(nodes)]
    text = ", ".join(problems[:_NAMED_NODES])
    if len(problems) > _NAMED_NODES:
        text += f", and {len(problems) - _NAMED_NODES} other nodes take no jobs"
    return text


def with_problem(seen: Seen, nodes: Mapping[str, SiteNode]) -> Seen:
    """Return a running job with the problem of its node, if the node is to be empty."""
    problem = nodes.get(seen.node)
    if seen.state != "running" or problem is None or not problem.is_drained:
        return seen
    return replace(seen, node_problem=problem.problem)


def seen_of(
    ref: str, state: str, reason: str, *, start: str = "", node: str = "", exit_code: str = ""
) -> Seen:
    """Return a job from Slurm's words. An unknown state counts as running: nothing is done about it."""
    word = state.split(" ")[0].rstrip("+").upper()
    if word in _PENDING:
        expected = dt.datetime.fromtimestamp(int(start), dt.UTC) if start.isdigit() else None
        return Seen(ref=ref, state="pending", reason=reason, expected_at=expected)
    if word in _ENDED:
        return Seen(ref=ref, state="ended", reason=word, exit_code=_exit_code(exit_code))
    return Seen(ref=ref, state="running", reason=reason, node=node)


def _exit_code(text: str) -> str:
    """Return "1" for "1:0" and "0, signal 9" for "0:9"; "" for "0:0"."""
    code, _, signal = text.strip().partition(":")
    if signal.strip("0"):
        return f"{code}, signal {signal}"
    return code if code.strip("0") else ""


def _add(found: dict[str, Seen], ref: str, name: str, seen: Seen) -> None:
    """Add the job of a pilot. Of two jobs of one pilot the one that has not ended counts."""
    if not name.startswith(PREFIX):
        return
    pilot_id = name.removeprefix(PREFIX)
    _, _, element = ref.partition("_")
    if element:
        pilot_id += element.zfill(INDEX_DIGITS)
    if pilot_id not in found or found[pilot_id].state == "ended":
        found[pilot_id] = seen


def _refs(job: Mapping[str, Any]) -> Iterator[str]:
    """Yield the IDs of a job: those of all elements of an array that waits, which is one entry."""
    array_id = _number(job.get("array_job_id"))
    element = _number(job.get("array_task_id"))
    elements = str(job.get("array_task_string") or "")
    if not array_id:
        yield str(_number(job["job_id"]))
    elif element is not None and not elements:
        yield f"{array_id}_{element}"
    else:
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", elements.split("%")[0]):
            for number in range(int(first), int(last or first) + 1):
                yield f"{array_id}_{number}"


def _number(value: Any) -> int | None:
    """Return a number, which newer releases wrap as {"set": true, "infinite": false, "number": 7}."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value["set"] and not value.get("infinite") else None
    return None if value is None else int(value)
