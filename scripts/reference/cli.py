"""docs/reference/cli.md, from the commands."""

from __future__ import annotations

import os
import subprocess
import sys

HEAD = """\
# The `muster` command

Data goes to standard output, messages and errors to standard error. Every command that shows
something takes `--json`; with it, errors are JSON too, in the shape of the REST API.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | the server refused, or something failed; the message says what |
| 2 | incorrect usage |
| 3 | no server is configured, or it does not answer |
| 4 | the experiment that was followed ended as FAILED |
| 5 | the experiment that was followed was canceled |
| 130 | interrupted with Ctrl-C |

The server and the token come from `MUSTER_URL` and `MUSTER_TOKEN`, else from `cli.json` in
`MUSTER_HOME` (default `~/.muster`), which `muster up` and `muster login` write.

"""


def render() -> str:
    command = [
        sys.executable,
        "-m",
        "typer",
        "muster.cli.all_commands",
        "utils",
        "docs",
        "--name",
        "muster",
    ]
    env = {"COLUMNS": "200", "PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    lines = result.stdout.strip().splitlines()
    assert lines[0] == "# `muster`", lines[:3]
    return HEAD + "\n".join(lines[1:]).strip() + "\n"
