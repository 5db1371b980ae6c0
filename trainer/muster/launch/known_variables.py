"""The names of variables `MUSTER_…`, and which of those that are set look like a misspelt setting."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from .variables import DATA_PREFIX, MODEL_PREFIX, NAMES, ROLE_VARIABLE

PREFIX, AGENT_PREFIX = "MUSTER_", "MUSTER_AGENT_"
FAMILIES = (DATA_PREFIX, MODEL_PREFIX, f"{ROLE_VARIABLE}_")
OTHERS = NAMES | {
    # of jobs and their processes
    "MUSTER_ATTACH", "MUSTER_ATTACH_CHILD", "MUSTER_ATTACH_UNRANKED", "MUSTER_BATCH_SCRIPT", "MUSTER_CODE",
    "MUSTER_CONTAINER", "MUSTER_GANG_KEY", "MUSTER_NODE_ADDRESS", "MUSTER_OWNER",
    "MUSTER_KERNEL_WINDOWS", "MUSTER_PROFILES_DIR", "MUSTER_PYTHONPATH", "MUSTER_REPORT_FILE", "MUSTER_REPORT_SOCKET",
    ROLE_VARIABLE,
    "MUSTER_SCRATCH", "MUSTER_SESSION_DIR", "MUSTER_SHIM_OF", "MUSTER_STACKS_DIR", "MUSTER_STEP",
    "MUSTER_STEPS_SOCKET", "MUSTER_STEP_LOCAL_TASKS", "MUSTER_STEP_LOGS", "MUSTER_TUNNEL",
    "MUSTER_WARM_ROOM", "MUSTER_WORKER_LOGS",
    # of pilots
    "MUSTER_END", "MUSTER_GRANTED_CPUS", "MUSTER_GRANTED_MEMORY_MIB", "MUSTER_JOB",
    "MUSTER_NODES",
    # of the command line, `muster up` and agents beside their settings
    "MUSTER_AGENT_LOG_FORMAT", "MUSTER_COMMAND", "MUSTER_HOME", "MUSTER_LIFELINE_FD",
    "MUSTER_TOKEN", "MUSTER_UP_HOME", "MUSTER_URL",
    # of scripts and of the compose file
    "MUSTER_BACKUPS_KEPT", "MUSTER_BIND", "MUSTER_LIBRARIES", "MUSTER_PUBLISH_PORT", "MUSTER_PYTHON",
    "MUSTER_ROUTER_PUBLISH_PORT", "MUSTER_TORCH", "MUSTER_TORCH_INDEX", "MUSTER_TORCH_SPEC",
    "MUSTER_VENV", "MUSTER_VERSION",
}  # fmt: skip
"""Every variable of Muster that is no setting of the server or the agent."""
ALIKE = 0.7
"""Least similarity of two names of which one is taken for the other."""


def unknown(environment: Iterable[str], settings: Collection[str], prefix: str) -> list[str]:
    """Return the variables of an environment that nothing in Muster reads, sorted.

    settings: names of the variables of a program's settings, which begin with `prefix`, PREFIX or
    AGENT_PREFIX. Each program judges its own: those that begin with AGENT_PREFIX, or nearly so, are
    the agent's.
    """
    return sorted(
        given
        for given in environment
        if (name := given.upper()).startswith(PREFIX)
        and name not in OTHERS
        and name not in settings
        and not name.startswith(FAMILIES)
        and _is_of_agent(name) == (prefix == AGENT_PREFIX)
    )


def misspelt_lines(environment: Iterable[str], settings: Collection[str], prefix: str) -> list[str]:
    """Return a line for a person for each of these variables that resembles a setting."""
    kin = {name[len(prefix) :]: name for name in settings}
    lines = []
    for given in unknown(environment, settings, prefix):
        nearest = difflib.get_close_matches(given.upper()[len(prefix) :], kin, 1, ALIKE)
        if nearest:
            lines.append(f"  {given}: there is no such setting; did you mean {kin[nearest[0]]}?")
    return lines


def _is_of_agent(name: str) -> bool:
    start = name[: len(AGENT_PREFIX) - 1]
    return difflib.SequenceMatcher(None, start, AGENT_PREFIX[:-1]).ratio() > 0.9
