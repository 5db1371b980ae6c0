"""Slurm's commands for a batch script that runs in a job: `sbatch` runs the script once, on the
first node, and `srun` in it starts tasks on all of them.

`job.py` stands for `sbatch` on each node of the gang. The other nodes connect to the first one and wait
for steps; `srun` asks the first one over a Unix socket. Nothing passes through the agents or the server.
Needs the standard library alone.
"""

from __future__ import annotations

import shlex
from pathlib import Path

PROGRAMS = ("sbatch", "srun", "scontrol", "hostname")
"""Commands that a batch script finds on PATH. Of `hostname` only the address that it prints may differ."""
KEY_VARIABLE = "MUSTER_GANG_KEY"
"""What the nodes of the job have in common; no process of the job sees it."""
LOGS_VARIABLE = "MUSTER_STEP_LOGS"
"""Folder of a log for each task; not set: their output goes through srun."""
SCRATCH_VARIABLE = "MUSTER_SCRATCH"
"""Folder that the job has for itself on a node, as SLURM_TMPDIR."""
SOCKET_VARIABLE = "MUSTER_STEPS_SOCKET"
SCRIPT_VARIABLE = "MUSTER_BATCH_SCRIPT"
TASK_VARIABLE = "MUSTER_STEP"
"""Number of the step that a process is a task of."""

MAX_INTERPRETER_CHARS = 120
"""Longest path that every kernel reads in the first line of a program."""


def command(python: str) -> list[str]:
    """Return the beginning of a command line that runs one of the programs; its path comes next."""
    return [python, "-I", str(Path(__file__).parent / "__main__.py")]


def program(python: str) -> str:
    """Return the text of a program on PATH, which is known by its name.

    No shell stands before it: dash drops the functions that a script has exported.
    """
    main = str(Path(__file__).parent / "__main__.py")
    if " " in python or len(python) > MAX_INTERPRETER_CHARS:
        return f'#!/bin/sh\nexec {shlex.join(command(python))} "$0" "$@"\n'
    code = f"sys.argv.insert(1, sys.argv[0])\nrunpy.run_path({main!r}, run_name='__main__')\n"
    return f"#!{python} -I\nimport runpy, sys\n{code}"
