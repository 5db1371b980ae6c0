"""The same work on each place where jobs run, against the place's own way to start it.

    python bench/engines.py [--only agents,containers,slurm,ray] [--times N] [--trials N]

For each: seconds from the submission of a training over two nodes until its first optimizer step,
first with no node there (cold), then N times with pilots that wait (warm), in turn with the engine's
own command (torchrun on this machine, `podman run … torchrun`, `srun torchrun`, `ray job submit`);
what a pilot that waits costs; and a search whose decisions do not depend on time, whose losses and
ends are compared with those of the first place. Slurm, Ray and Podman are real and on this machine;
see tests/support.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from support.batch.ray import PROGRAM as RAY
from support.batch.ray import RayLab
from support.batch.slurm import SlurmLab
from support.nodes import containers
from support.quick_stack import QuickStack
from support.stack import wait_for

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plain-torchrun" / "train.py"
BIN = Path(sys.executable).parent
LIMIT_S = 300.0
IDLE_S = 10.0
"""Seconds over which the processor time of a waiting pilot is taken."""
POOL = "elsewhere"
OPTIONS = {
    "nodes": "0:2",
    "walltime": "30m",
    "idle": "120s",
    "agent": str(BIN / "muster-agent"),
}


@dataclass
class Place:
    name: str
    stack: QuickStack
    own: Callable[[Path, Path], list[str]]
    """Command that starts the training without Muster, given the folder of the code and the mark."""
    own_environment: dict[str, str] = field(default_factory=dict)
    pool: str = "default"
    section: dict[str, object] = field(default_factory=dict)
    """`environment` of the documents."""


def torchrun(port: int, nodes: int) -> list[str]:
    return [
        str(BIN / "torchrun"),
        f"--nnodes={nodes}",
        f"--nproc-per-node={2 // nodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
    ]


def script(mark: Path) -> list[str]:
    return ["first_step.py", str(mark), "train.py", "--epochs=1"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# ---------------------------------------------------------------- places


@contextmanager
def stack_in(folder: Path, agents: int, **environment: str) -> Iterator[QuickStack]:
    parts = {"controller": environment} if environment else None
    stack = QuickStack(folder / "home", agents=agents, slots=1, environment=parts)
    try:
        stack.start()
        yield stack
    finally:
        stack.close()


def create_pool(stack: QuickStack, **options: str) -> None:
    given = {**OPTIONS, "server-url": stack.url, **options}
    done = stack.cli("pool", "create", POOL, *[f"--{k}={v}" for k, v in given.items()])
    if done.returncode != 0:
        raise SystemExit(done.stderr)


@contextmanager
def agents(folder: Path) -> Iterator[Place]:
    with stack_in(folder, 2) as stack:
        yield Place("agents", stack, lambda _, mark: [*torchrun(free_port(), 1), *script(mark)])


@contextmanager
def contained(folder: Path) -> Iterator[Place]:
    engine, reason = containers.find_engine()
    if engine is None:
        raise SystemExit(reason)
    os.environ.update({k: v for k, v in engine.environment.items() if "CONTAINER" in k})
    os.environ["MUSTER_AGENT_CONTAINERS"] = engine.kind
    try:
        with stack_in(folder, 2) as stack:
            mounts = [*containers.MOUNTS, f"{folder}:{folder}:rw"]
            volumes = [f"--volume={path}:{path}:ro" for path in containers.MOUNTS]
            yield Place(
                "containers",
                stack,
                lambda code, mark: [
                    engine.path, "run", "--rm", "--init", "--network=host", "--pull=never",
                    "--shm-size=1g", "--env=OMP_NUM_THREADS=1", *volumes,
                    f"--volume={folder}:{folder}", f"--workdir={code}",
                    containers.IMAGE, *torchrun(free_port(), 1), *script(mark),
                ],
                dict(engine.environment),
                section=containers.section(mounts=mounts),
            )  # fmt: skip
    finally:
        del os.environ["MUSTER_AGENT_CONTAINERS"]


@contextmanager
def slurm(folder: Path) -> Iterator[Place]:
    lab = SlurmLab(folder / "lab")
    with ExitStack() as ends:
        ends.callback(lab.stop)
        lab.start()
        variables = {"SLURM_CONF": str(lab.conf), "PATH": lab.environment["PATH"]}
        stack = ends.enter_context(stack_in(folder, 1, **variables))
        create_pool(stack, provider="slurm", slots="1", folder=str(lab.folder / "shared"))
        yield Place(
            "slurm",
            stack,
            lambda _, mark: [
                "srun", "-N2", "--ntasks-per-node=1", *torchrun(free_port(), 2), *script(mark),
            ],
            lab.environment,
            POOL,
        )  # fmt: skip


@contextmanager
def ray(folder: Path) -> Iterator[Place]:
    lab = RayLab(folder / "lab")
    with ExitStack() as ends:
        ends.callback(lab.stop)
        lab.folder.mkdir(exist_ok=True)
        lab.start()
        token = {"RAY_AUTH_TOKEN_PATH": str(lab.token)}
        stack = ends.enter_context(stack_in(folder, 1, **token))
        options = {"slots-per-node": "1", "storage-dir": str(lab.folder / "storage")}
        create_pool(stack, provider="ray", address=lab.address, **options)
        yield Place(
            "ray",
            stack,
            lambda code, mark: [
                str(RAY), "job", "submit", f"--address={lab.address}", "--",
                "sh", "-c", f"cd {code} && {' '.join([*torchrun(free_port(), 1), *script(mark)])}",
            ],
            lab.environment,
            POOL,
        )  # fmt: skip


PLACES = {"agents": agents, "containers": contained, "slurm": slurm, "ray": ray}


# ---------------------------------------------------------------- measuring


def when(mark: Path) -> float:
    wait_for("the first step", mark.exists, LIMIT_S)
    return float(mark.read_text())


def by_itself(place: Place, code: Path, mark: Path) -> float:
    environment = {**place.stack.environment(place.stack.home), **place.own_environment}
    began = time.time()
    process = subprocess.Popen(
        place.own(code, mark), cwd=code, env=environment, stdout=subprocess.DEVNULL
    )
    at = when(mark)
    if process.wait(LIMIT_S) != 0:
        raise SystemExit(f"{place.name}: its own command ended with {process.returncode}")
    return at - began


def submit(place: Place, folder: Path, **document: Any) -> int:
    path = folder / "experiment.yaml"
    path.write_text(json.dumps({**document, "environment": place.section}))
    done = place.stack.cli("submit", str(path))
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return int(done.stdout)


def ended(place: Place, number: int) -> dict[str, Any]:
    with place.stack.client() as client:
        found = client.wait(number, timeout_s=1200)
        if found["state"] != "COMPLETED":
            raise SystemExit(f"{place.name}: experiment {number} is {found['state']}: {found}")
        return found


def through_muster(place: Place, code: Path, mark: Path) -> float:
    began = time.time()
    number = submit(
        place,
        code,
        name="first-step",
        entrypoint=script(mark),
        code={"path": "."},
        resources={"slots": 2, "nodes": 2, "pool": place.pool},
    )
    at = when(mark)
    ended(place, number)
    return at - began


def pilots() -> list[psutil.Process]:
    """Agents that an engine started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "muster-agent" and "--name" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def cost_of_waiting() -> str:
    found = pilots()
    before = [sum(process.cpu_times()[:2]) for process in found]
    time.sleep(IDLE_S)
    shares, sizes = [], []
    for process, spent in zip(found, before, strict=True):
        shares.append((sum(process.cpu_times()[:2]) - spent) / IDLE_S)
        sizes.append(process.memory_full_info().uss / 2**20)
    if not found:
        return "no pilot"
    return (
        f"{len(found)} pilots, each {statistics.median(sizes):.0f} MiB (USS) and "
        f"{100 * statistics.median(shares):.1f} % of a processor over {IDLE_S:.0f} s"
    )


def search(place: Place, code: Path, trials: int) -> dict[int, tuple[str, dict[int, float]]]:
    """State of each trial, and its validation loss by step. One at a time: what is stopped then depends on no
    clock, but how far a trial runs on until it hears of that does."""
    number = submit(
        place,
        code,
        name="search",
        trainer={"model": "mlp", "data": "digits", "batch_size": 64},
        hyperparameters={"lr": {"log": [0.0001, 0.1]}},
        search={
            "method": "asha", "metric": "val/loss", "goal": "min", "trials": trials, "seed": 1,
            "max_length": {"epochs": 9}, "divisor": 3, "concurrent": 1,
        },
        resources={"slots": 1, "pool": place.pool},
    )  # fmt: skip
    ended(place, number)
    found = {}
    with place.stack.client() as client:
        for trial in client.pages(f"/experiments/{number}/trials"):
            path = f"/trials/{trial['id']}/series"
            (loss,) = client.get(path, name="val/loss", max_points=1000)["series"]
            found[trial["no"]] = (
                trial["state"],
                dict(zip(loss["step"], loss["last"], strict=True)),
            )
    return found


def differences(result: dict[int, Any], first: dict[int, Any]) -> Iterator[str]:
    """Yield what differs: states, and losses at steps that both have."""
    for no, (state, losses) in result.items():
        state_there, losses_there = first[no]
        if state != state_there:
            yield f"trial {no} is {state} instead of {state_there}"
        for step in sorted(losses.keys() & losses_there.keys()):
            if losses[step] != losses_there[step]:
                yield f"trial {no}, step {step}: {losses[step]} instead of {losses_there[step]}"


def say(what: str, seconds: list[float]) -> None:
    print(
        f"  {what}: median {statistics.median(seconds):.1f} s, {min(seconds):.1f} to "
        f"{max(seconds):.1f} s, n {len(seconds)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PLACES))
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--trials", type=int, default=16)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the beginning")
    first: tuple[str, dict[int, tuple[str, dict[int, float]]]] | None = None
    for name in given.only.split(","):
        # A short path: Ray's sockets are below it.
        with tempfile.TemporaryDirectory(prefix="me-", ignore_cleanup_errors=True) as at:
            folder = Path(at)
            code = folder / "code"
            code.mkdir()
            shutil.copy(EXAMPLE, code / "train.py")
            shutil.copy(Path(__file__).with_name("first_step.py"), code)
            with PLACES[name](folder) as place:
                print(f"{name}:", flush=True)
                say(
                    "submit until the first step, cold",
                    [through_muster(place, code, folder / "cold")],
                )
                own, through = [], []
                for k in range(given.times):
                    through.append(through_muster(place, code, folder / f"muster-{k}"))
                    own.append(by_itself(place, code, folder / f"own-{k}"))
                say("submit until the first step, warm", through)
                say("the engine's own command until the first step", own)
                ratios = [a / b for a, b in zip(through, own, strict=True)]
                print(f"  ratio of each pair: median {statistics.median(ratios):.2f}")
                print(f"  waiting: {cost_of_waiting()}")
                began = time.monotonic()
                result = search(place, code, given.trials)
                took = time.monotonic() - began
                stopped = sum(state == "STOPPED_EARLY" for state, _ in result.values())
                print(f"  search of {len(result)} trials: {took:.0f} s, {stopped} stopped early")
                if first is None:
                    first = (name, result)
                else:
                    differ = list(differences(result, first[1]))
                    print(
                        f"  states and losses that differ from {first[0]}: {len(differ)} {differ[:5]}"
                    )
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
