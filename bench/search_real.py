"""A real search on the built-in classifier, an agent and its workers killed in the middle.

    python bench/search_real.py [--method asha|pbt|random] [--trials 32] [--epochs 27]
                                [--model resnet] [--without-full]

On a `muster up` of its own with two agents of two slots: asynchronous successive halving by promotion,
so trials wait at rungs without slots and go on from checkpoints. When a third of the trials have been
created, the second agent and everything that runs under it are killed. Afterwards the same points (the
same seed and space, method random) are trained in full, for the slot-hours and the accuracy that were
spared or missed. The figures are of this machine. Starting a worker takes seconds, and a trial trains on
until it hears of its pause: with a model whose epochs take milliseconds (mlp) little can be spared.

`--method pbt` trains a population of a quarter of the trials (at least four) that is compared every third
of its length, and nobody is killed; `--method random` trains in full alone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from muster.client import Client
from support.stack import Stack, processes_of, wait_for

AGENT = "agent-local-2"
LIMIT_S = 3600.0
TERMINAL = ("COMPLETED", "FAILED", "CANCELED")


def document(method: dict[str, Any], trials: int, epochs: int, model: str) -> str:
    return json.dumps(
        {
            "name": f"digits-{method['method']}",
            "trainer": {"model": model, "data": "digits", "epochs": epochs},
            "hyperparameters": {
                "lr": {"log": [1e-3, 1.0]},
                "momentum": {"uniform": [0.0, 0.99]},
                "width": {"choice": [8, 16, 32]},
            },
            "search": {
                "metric": "val/accuracy",
                "goal": "max",
                **({} if method["method"] == "pbt" else {"trials": trials}),
                "max_length": {"epochs": epochs},
                "concurrent": 4,
                "seed": 5,
                **method,
            },
            "resources": {"slots": 1},
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=["asha", "pbt", "random"], default="asha")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=27)
    parser.add_argument("--model", choices=["mlp", "cnn", "resnet"], default="resnet")
    parser.add_argument("--without-full", action="store_true")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mst-search-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name) / "home", agents=2, slots=2)
        try:
            stack.start()
            with stack.client() as client:
                if given.method == "asha":
                    asha = {"method": "asha", "variant": "promotion", "divisor": 3}
                    found = run(stack, client, asha, given, kill=True)
                elif given.method == "pbt":
                    pbt = {
                        "method": "pbt",
                        "population": max(given.trials // 4, 4),
                        "interval": max(given.epochs // 3, 1),
                        "explore": ["lr", "momentum"],  # a clone keeps its parent's shape
                    }
                    found = run(stack, client, pbt, given, kill=False)
                if given.without_full:
                    return
                full = run(stack, client, {"method": "random"}, given, kill=False)
                if given.method == "random":
                    return
                spared = 1 - found["slot_hours"] / full["slot_hours"]
                print(
                    f"of the slot-hours of full training {spared:.0%} were spared; of its epochs "
                    f"{1 - found['epochs'] / full['epochs']:.0%}; best accuracy "
                    f"{found['best']:.4f} against {full['best']:.4f}"
                )
        finally:
            stack.close()


def run(
    stack: Stack,
    client: Client,
    method: dict[str, Any],
    given: argparse.Namespace,
    *,
    kill: bool,
) -> dict[str, float]:
    began = time.monotonic()
    text = document(method, given.trials, given.epochs, given.model)
    number = client.submit(text)["id"]
    if kill:
        wait_for(
            "a third of the trials created",
            lambda: len(client.trials(number)) > given.trials // 3,
            LIMIT_S,
        )
        print(f"killed {kill_node(stack)} processes of {AGENT}", flush=True)
    wait_for("its end", lambda: client.experiment(number)["state"] in TERMINAL, LIMIT_S)
    experiment = client.experiment(number)
    trials = client.trials(number)
    epochs = sum(t["epoch"] or 0.0 for t in trials)
    hours = experiment["spending"]["slot_hours"]
    states = dict(Counter(t["state"] for t in trials))
    print(
        f"{experiment['searcher']}: {experiment['state']}, {len(trials)} trials {states}, "
        f"{sum(t['num_restarts'] for t in trials)} further attempts, {epochs:.0f} epochs, "
        f"{hours:.3f} slot-hours, {time.monotonic() - began:.0f} s, best val/accuracy "
        f"{experiment['best_metric']:.4f}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    for trial in trials:
        if trial["state"] == "FAILED":
            print(f"  trial {trial['no']} {trial['hparams']}: {trial['reason']}", flush=True)
    clones = [t for t in trials if t.get("parent_no") is not None]
    if clones:
        print(
            f"  {len(clones)} of them are clones, of generation {sorted({t['generation'] for t in clones})}"
        )
    if len(trials) != experiment["num_trials_planned"] or experiment["state"] != "COMPLETED":
        raise SystemExit("the search did not complete with all of its trials")
    return {"epochs": epochs, "slot_hours": hours, "best": experiment["best_metric"]}


def kill_node(stack: Stack) -> int:
    """SIGKILL for an agent and all that it has started; how many processes those were."""
    agent = psutil.Process(stack.part_pid(AGENT))
    name = agent.environ()["MUSTER_AGENT_NAME"]
    own = [agent, *agent.children(recursive=True)]
    for process in processes_of(stack.home):
        try:
            # Supervised processes of a trial are nobody's children by design.
            if name in " ".join(process.cmdline()) or name in process.cwd():
                own.append(process)
        except (psutil.Error, OSError):
            continue
    own = list(dict.fromkeys([*own, *(c for p in list(own) for c in children(p))]))
    for process in own:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue
    return len(own)


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


if __name__ == "__main__":
    main()
