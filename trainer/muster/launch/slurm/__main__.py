"""The commands of Slurm on PATH of a batch job: `python -I __main__.py FOLDER/srun …`.

Runs in whichever interpreter the job has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Isolated Python finds nothing of ours by itself; of what lies beside us, nothing else is wanted.
_OURS = str(Path(__file__).resolve().parents[3])
sys.path.insert(0, _OURS)
from muster.launch.slurm import SOCKET_VARIABLE, job, srun  # noqa: E402
from muster.launch.slurm.layout import expand_hostlist, reachable  # noqa: E402

sys.path.remove(_OURS)


def main(program: str, arguments: list[str]) -> int:
    """Run one of the commands; return its exit code."""
    name = Path(program).name
    if name == "srun":
        return srun.main(arguments, os.environ)
    if name == "hostname":
        return _hostname(Path(program).parent, arguments)
    if name == "scontrol":
        return _scontrol(arguments)
    if SOCKET_VARIABLE in os.environ or not arguments:
        sys.stderr.write(
            "sbatch: error: a job submits no other from here; run `muster submit` on your machine, "
            "where `after` makes one job wait for another\n"
        )
        return 1
    return job.main(program, arguments, os.environ)


def _hostname(folder: Path, arguments: list[str]) -> int:
    """Run the next program of that name on PATH."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(
        one for one in places if Path(one or ".").absolute() != folder.absolute()
    )
    argv = [shutil.which("hostname", path=path) or "hostname", *arguments]
    if arguments not in (["-i"], ["--ip-address"]):
        os.execvpe(argv[0], argv, {**os.environ, "PATH": path})  # noqa: S606
    said = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(reachable(said.stdout, os.environ.get("SLURMD_NODENAME", "")))
    return said.returncode


def _scontrol(arguments: list[str]) -> int:
    if arguments[:1] == ["show"] and arguments[1:2] in (["hostnames"], ["hostname"]):
        text = ",".join(arguments[2:]) or os.environ.get("SLURM_JOB_NODELIST", "")
        sys.stdout.write("".join(f"{name}\n" for name in expand_hostlist(text)))
        return 0
    sys.stderr.write("scontrol: error: only `scontrol show hostnames` can be used here\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
