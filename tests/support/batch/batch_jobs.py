"""Batch jobs without a server: the program that stands for sbatch on several "nodes" of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.launch import slurm
from support.ports import free_port


@dataclass(frozen=True, kw_only=True)
class EndedJob:
    """A job that has ended."""

    codes: list[int]
    """Exit code on each node."""
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of the output, sorted: tasks end in any order."""
        return sorted(self.out.splitlines())


def install_programs(folder: Path) -> Path:
    """Write the commands of Slurm into a folder, as an agent does."""
    folder.mkdir(exist_ok=True)
    for name in slurm.PROGRAMS:
        program = folder / name
        program.write_text(slurm.program(sys.executable))
        program.chmod(0o755)
    return folder


def start_node(
    folder: Path,
    script: str,
    rank: int,
    nodes: int,
    port: int,
    variables: Mapping[str, str],
    arguments: Sequence[str],
    *,
    name: str = "",
) -> subprocess.Popen[str]:
    """Start one node of a job in its own copy of the work folder."""
    own = folder / (name or f"node{rank}")
    work = own / "work"
    shutil.copytree(folder / "code", work)
    programs = install_programs(own / "bin")
    environment = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(own), "NNODES": str(nodes), "NODE_RANK": str(rank), "NPROC_PER_NODE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "MUSTER_EXPERIMENT_ID": "7",
        "MUSTER_GANG_KEY": "key", "MUSTER_SCRATCH": str(own / "scratch"), "MUSTER_WORK_DIR": str(work),
        **variables,
    }  # fmt: skip
    return subprocess.Popen(
        [programs / "sbatch", script, *arguments],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start_job(
    folder: Path, script: str, *, nodes: int = 1, arguments: Sequence[str] = (), **variables: str
) -> list[subprocess.Popen[str]]:
    """Start a batch script on so many nodes; what lies in `folder`/code comes along."""
    (folder / "code").mkdir(exist_ok=True, parents=True)
    (folder / "code" / "job.sh").write_text(script)
    port = free_port()
    return [
        start_node(folder, "job.sh", rank, nodes, port, variables, arguments)
        for rank in range(nodes)
    ]


def finish(job: Sequence[subprocess.Popen[str]], *, timeout_s: float = 60) -> EndedJob:
    """Wait for the end of a job."""
    said = [process.communicate(timeout=timeout_s) for process in job]
    return EndedJob(
        codes=[process.returncode for process in job],
        out="".join(out for out, _ in said),
        err="".join(err for _, err in said),
    )


def run_job(folder: Path, script: str, *, nodes: int = 1, **more: str) -> EndedJob:
    """Run a batch script to its end."""
    return finish(start_job(folder, script, nodes=nodes, **more))
