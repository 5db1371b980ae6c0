"""`muster up --demo`: three trainings submitted once, and their progress in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import say

if TYPE_CHECKING:
    from muster_server.local.supervisor import Access

LABEL = "demo=dashboard"
EXAMPLES = ("digits-ddp", "digits-asha", "plain-torchrun")
NODES_TIMEOUT_S = 90.0


def run_demo(access: Access, num_agents: int, is_stopping: Callable[[], bool]) -> None:
    """Run the demo. Never raises, because Muster runs without it."""
    try:
        _run(access, num_agents, is_stopping)
    except Exception as error:
        if not is_stopping():
            say(f"The demo ended early: {error}")


def examples_folder() -> Path | None:
    """Return the examples of the checkout this runs from; None if installed without it."""
    folder = Path(__file__).resolve().parents[3] / "examples"
    return folder if (folder / EXAMPLES[0]).is_dir() else None


def _run(access: Access, num_agents: int, is_stopping: Callable[[], bool]) -> None:
    from muster.client import Client, Target

    if find_spec("torch") is None:
        say("The demo trains with PyTorch, which is not installed here: pip install torch")
        return
    with Client(Target(access.local_url, access.cli_token, "muster up")) as client:
        ids = _submit_once(client)
        if not ids:
            return
        _wait_for_nodes(client, num_agents, is_stopping)
        _show(client, ids, is_stopping)


def _submit_once(client: Any) -> list[int]:
    """Return the demo's experiments; those that are there already if there are any.

    They carry the label by which the dashboard removes the demo."""
    known = [int(e["id"]) for e in client.pages("/experiments", label=LABEL, archived="include")]
    if known:
        say(
            "Showing the trainings that the demo submitted before. To run one again: muster submit …"
        )
        return known
    folder = examples_folder()
    if folder is None:
        say("The demo needs a checkout of the repository for its examples.")
        return []
    from .sending import send_code

    ids = []
    for name in EXAMPLES:
        path = folder / name / "experiment.yaml"
        if not path.exists():
            continue
        document = path.read_text()
        sent = send_code(client, str(path), document, [], None, quiet=True)
        made = client.submit(document, overrides=[f"labels.{LABEL}"], blob_sha256=sent.sha256)
        ids.append(int(made["id"]))
    say(f"Submitted {len(ids)} trainings: {', '.join(EXAMPLES)}\n")
    return ids


def _wait_for_nodes(client: Any, count: int, is_stopping: Callable[[], bool]) -> None:
    deadline = time.monotonic() + NODES_TIMEOUT_S
    while not is_stopping() and time.monotonic() < deadline:
        if client.get("/cluster")["num_nodes_online"] >= count:
            return
        time.sleep(0.3)


def _show(client: Any, ids: list[int], is_stopping: Callable[[], bool]) -> None:
    from .follow import TERMINAL, progress_table, snapshot

    if not sys.stdout.isatty():
        # A log file gets the end result; the dashboard has the rest.
        while not is_stopping():
            experiments = snapshot(client, ids)
            if all(e["state"] in TERMINAL for e in experiments):
                for experiment in experiments:
                    say(f"{experiment['name']}: {experiment['state']}")
                return
            time.sleep(1.0)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), refresh_per_second=4) as live:
        while not is_stopping():
            experiments = snapshot(client, ids)
            live.update(progress_table(experiments), refresh=True)
            if all(e["state"] in TERMINAL for e in experiments):
                break
            time.sleep(0.8)
    if not is_stopping():
        say("\nThe demo's trainings have ended; the dashboard stays. Ctrl-C stops Muster.")
