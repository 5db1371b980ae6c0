"""A real Slurm on this machine: slurmctld and several slurmd, private to a folder, ended by their pids."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import psutil

from support.ports import free_ports

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")

_CONF = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/ctld.pid
SlurmdPidFile={folder}/run/%n.pid
SlurmctldLogFile={folder}/log/ctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=5
MpiDefault=none
ReturnToService=2
KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmdTimeout=20
MinJobAge=60
"""


def why_missing() -> str:
    """Why no Slurm can be started here; "" if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install --no-install-recommends slurm-wlm"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


class SlurmLab:
    """Two cores on each node; the partition `main` has all of them, `small` only the first, for two
    minutes, and into `locked` nobody may submit from this machine. Jobs in `urgent` preempt those in
    `main`."""

    def __init__(self, folder: Path, *, nodes: int = 3, proctrack: str = "linuxproc") -> None:
        """proctrack: how Slurm finds the processes of a job, `linuxproc` or `cgroup`."""
        self.folder = folder
        self.proctrack = proctrack
        self.names = [f"n{k}" for k in range(1, nodes + 1)]
        self.conf = folder / "slurm.conf"
        self.environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(self.conf)}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        port = free_ports(len(self.names) + 1)
        for name in ("state", "log", "run", *(f"spool/{node}" for node in self.names)):
            (self.folder / name).mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        facts = {"host": host, "port": port, "folder": self.folder, "proctrack": self.proctrack}
        lines = [_CONF.format(**facts)]
        if self.proctrack == "cgroup":
            version = "v1" if Path("/sys/fs/cgroup/freezer").is_dir() else "v2"
            (self.folder / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/{version}\n")
        lines += [
            f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port + 1 + k} CPUs=2 "
            "Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=1000 "
            "State=UNKNOWN"
            for k, name in enumerate(self.names)
        ]
        lines.append(
            f"PartitionName=main Nodes={','.join(self.names)} Default=YES MaxTime=60 State=UP"
        )
        lines.append(f"PartitionName=urgent Nodes={','.join(self.names)} PriorityTier=9 State=UP")
        lines.append("PartitionName=small Nodes=n1 MaxTime=2 MaxNodes=1 State=UP")
        lines.append("PartitionName=locked Nodes=n1 AllocNodes=elsewhere State=UP")
        self.conf.write_text("\n".join(lines) + "\n")
        self.start_controller("-c")
        for name in self.names:
            self._daemons[name] = self._spawn("slurmd", "-D", "-N", name)
        self.wait_idle()

    def wait_idle(self, timeout_s: float = 40.0) -> None:
        """Wait until all nodes are idle."""
        deadline = time.monotonic() + timeout_s
        while self.run("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D") != str(
            len(self.names)
        ):
            assert time.monotonic() < deadline, self.words()
            time.sleep(0.1)

    def start_controller(self, *options: str) -> None:
        self._daemons["ctld"] = self._spawn("slurmctld", "-D", *options)

    def has_saved(self, since: float) -> bool:
        """Whether slurmctld has written its jobs to disk after this Unix time; it is told to soon."""
        self.run("scontrol", "update", f"jobid={self.jobs()[0]}", f"comment={since}")
        return (self.folder / "state" / "job_state").stat().st_mtime > since

    def kill_controller(self) -> None:
        self._daemons["ctld"].kill()
        self._daemons["ctld"].wait()

    def run(self, *command: str) -> str:
        """The output of one of Slurm's commands, whether or not it succeeds."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=30
        )
        return done.stdout.strip()

    def node_of(self, job: str) -> str:
        """The node that a job runs on."""
        return self.run("squeue", "-h", "-j", job, "-o", "%N")

    def set_node(self, name: str, state: str, reason: str = "") -> None:
        """Do what an administrator does: drain, down, or resume."""
        words = [f"nodename={name}", f"state={state}", *([f"reason={reason}"] if reason else [])]
        self.run("scontrol", "update", *words)

    def jobs(self) -> list[str]:
        """Numbers of the jobs that have not ended."""
        return self.run("squeue", "-h", "-r", "-o", "%i").split()

    def words(self) -> str:
        logs = sorted((self.folder / "log").glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in logs)

    def stop(self) -> None:
        if self.jobs():
            self.run("scancel", "--user=root")
            deadline = time.monotonic() + 20
            while self.jobs() and time.monotonic() < deadline:
                time.sleep(0.1)
        for daemon in self._daemons.values():
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in self.processes():
            process.kill()

    def processes(self) -> list[psutil.Process]:
        """What the daemons and the jobs of this Slurm have left."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and process.environ().get("SLURM_CONF") == str(
                    self.conf
                ):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log" / f"{command[0]}.out.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "-f", str(self.conf)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
