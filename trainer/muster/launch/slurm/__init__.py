"""Slurm's commands for a batch script that runs in a job: `sbatch` runs the script once, on the
first node, and `srun` in it starts tasks on all of them.

`job.py` stands for `sbatch` on each node of the gang. The other nodes connect to the first one and wait
for steps; `srun` asks the first one over a Unix socket. Nothing passes through the agents or the server.
Needs the standard library alone.
"""

from __future__ import annotations

from pathlib import Path

PROGRAMS = ("sbatch", "srun", "scontrol")
"""Commands that a batch script finds on PATH."""
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


def command(python: str) -> list[str]:
    """Return the beginning of a command line that runs one of the programs; its path comes next."""
    return [python, "-I", str(Path(__file__).parent / "__main__.py")]
