"""`python -m muster_agent.shim --dir FOLDER`, started by the agent."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from muster_agent.shim.supervise import run_shim

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m muster_agent.shim")
    parser.add_argument("--dir", required=True, type=Path)
    sys.exit(run_shim(parser.parse_args().dir.absolute()))
