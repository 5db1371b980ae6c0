"""`python -m muster_agent.shim --dir FOLDER`, started by the agent."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from muster_agent.shim.supervise import run_shim

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m muster_agent.shim")
    parser.add_argument("--dir", required=True, type=Path)
    parser.add_argument("--secrets-fd", type=int, help="a pipe with the job's secrets, as JSON")
    given = parser.parse_args()
    sys.exit(run_shim(given.dir.absolute(), secrets_fd=given.secrets_fd))
