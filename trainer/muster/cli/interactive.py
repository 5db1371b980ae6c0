"""Sessions on the command line: the document of one, its address inside the job, and ssh's configuration."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.client.target import muster_home

from .absent import server
from .output import CommandFailure, usage_error
from .trials import TrialReference

if TYPE_CHECKING:
    from muster.client import schema

HOST_PREFIX = "muster-"
READY_S = 180.0
"""Seconds after the start of its processes in which a session has to be ready."""
ASK_S = 0.5
# Adds a public key, unless it is there, and prints where the server listens.
_ADDRESS = """
umask 077
f="$MUSTER_SESSION_DIR/authorized_keys"
[ -f "$MUSTER_SESSION_DIR/address.json" ] || exit 75
if [ -n "$1" ]; then grep -qxF -e "$1" "$f" 2>/dev/null || printf '%s\\n' "$1" >> "$f"; fi
cat "$MUSTER_SESSION_DIR/address.json"
"""
NOT_READY = 75
"""Exit code of that script while the server starts."""


def document_of(
    kind: str,
    *,
    slots: int,
    idle: str,
    name: str | None,
    given: dict[str, Any],
    source: schema.ExperimentDetail | None,
) -> dict[str, Any]:
    """Return the document of a session.

    given: values of `resources`, and `project` and `python`, that the user has chosen.
    source: experiment whose code, environment and data it opens.
    """
    document: dict[str, Any] = {"name": name or f"session-{kind}"}
    document["session"] = {"kind": kind, "idle": idle}
    resources: dict[str, Any] = {"slots": slots, "nodes": 1, "preemptible": False}
    if source is not None:
        config = source["config"]
        kept = ("project", "environment", "data", "models")
        document |= {key: config[key] for key in kept if config.get(key)}
        resources |= {key: config["resources"][key] for key in ("pool", "slot_type")}
        code = config.get("code") or {}
        if source["blob_sha256"] is not None or code.get("installed"):
            document["code"] = {k: v for k, v in code.items() if k != "include" and v is not None}
            if not code.get("installed"):
                document["code"]["path"] = "."
    chosen = {key: value for key, value in given.items() if value is not None}
    if "project" in chosen:
        document["project"] = chosen.pop("project")
    if "python" in chosen:
        document.setdefault("environment", {})["python"] = chosen.pop("python")
    return {**document, "resources": resources | chosen}


def find_session(number: int) -> schema.InteractiveSessionOut:
    """Return a session that has not ended. Raises CommandFailure."""
    for row in server().get("/interactive-sessions")["items"]:
        if row["experiment_id"] == number:
            return row
    raise CommandFailure(
        f"Experiment {number} is not a session that runs or waits.",
        f"`muster session list` shows them, and `muster show {number}` what became of it",
    )


def await_session(number: int) -> schema.InteractiveSessionOut:
    """Return a session once its processes run. Raises CommandFailure when it ends before."""
    while True:
        row = find_session(number)
        if row["state"] == "RUNNING":
            return row
        time.sleep(ASK_S)


def address_of(number: int, *, key: str = "", wait_s: float = READY_S) -> dict[str, Any]:
    """Return kind, port and token of a session's server, which only who may enter the job is told.

    key: public key that the SSH server lets in from now on.
    Raises CommandFailure.
    """
    from .channels import ask

    deadline = time.monotonic() + wait_s
    while True:
        code, output = ask(TrialReference(number), ["sh", "-c", _ADDRESS, "sh", key])
        if code == 0:
            address: dict[str, Any] = json.loads(output)
            return address
        if code != NOT_READY or time.monotonic() > deadline:
            raise CommandFailure(
                f"Session {number} is not ready.",
                f"`muster logs {number}` shows what its server says",
            )
        time.sleep(ASK_S)


# ---------------------------------------------------------------- ssh


def ssh_folder() -> Path:
    folder = muster_home() / "ssh"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def public_key() -> str:
    """Return the public key of this machine for sessions, made on first use. Raises CommandFailure."""
    file = ssh_folder() / "id_ed25519"
    if not file.exists():
        making = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "muster", "-f", str(file)]
        try:
            subprocess.run(making, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise usage_error(
                "ssh-keygen is not installed on this machine.", "install OpenSSH's client"
            ) from None
        except subprocess.CalledProcessError as error:
            raise CommandFailure(f"ssh-keygen cannot make a key: {error.stderr.strip()}") from None
    return file.with_suffix(".pub").read_text().strip()


def ssh_options(numbers: Sequence[int]) -> str:
    """Return the section of ssh's configuration for sessions. VS Code lists the names of `numbers`."""
    home = os.environ.get("MUSTER_HOME")
    command = [*(["env", f"MUSTER_HOME={muster_home()}"] if home else [])]
    command += [sys.executable, "-m", "muster.cli", "session", "proxy"]
    names = [f"{HOST_PREFIX}{number}" for number in numbers]
    lines = [
        "# Written by `muster ssh-config`.",
        f"Host {' '.join([*names, f'{HOST_PREFIX}*'])}",
        "  User muster",
        f"  ProxyCommand {shlex.join(command)} %n",
        f'  IdentityFile "{ssh_folder() / "id_ed25519"}"',
        "  IdentitiesOnly yes",
        # The tunnel says which job it leads to, and each session has a new host key.
        "  StrictHostKeyChecking no",
        "  UserKnownHostsFile /dev/null",
        "  LogLevel ERROR",
    ]
    return "\n".join(lines) + "\n"


def write_ssh_options() -> Path:
    """Write the section into a file of its own; return the file. Raises CommandFailure."""
    public_key()
    rows = server().get("/interactive-sessions")["items"]
    numbers = [row["experiment_id"] for row in rows if row["kind"] == "ssh" and row["may_enter"]]
    file = ssh_folder() / "config"
    file.write_text(ssh_options(numbers))
    return file


def include_in(config: Path, file: Path) -> bool:
    """Have the user's ssh configuration include a file; return whether that is new."""
    line = f'Include "{file}"'
    before = config.read_text() if config.exists() else ""
    if line in before.splitlines():
        return False
    config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = config.with_name(f"{config.name}.muster")
    part.touch(mode=config.stat().st_mode & 0o777 if config.exists() else 0o600)
    # At the top: below a `Host` it would belong to that one.
    part.write_text(f"{line}\n\n{before}" if before else f"{line}\n")
    part.replace(config)
    return True
