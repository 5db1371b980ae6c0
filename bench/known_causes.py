"""Whether Muster names the cause of a loss of time, and how large it is, where both are known.

    PYTHONPATH=tests .venv/bin/python bench/known_causes.py [NAME …]

Trains each of `support.known_causes` on a real `muster up` of one agent with two slots, and asks the service
what bounds it. The truth is what the script's own clock said of the same steps. Right is a verdict that
names the cause with a figure within 5 % of the step, or one that says that it does not know. Prints a
table, and exits with 1 if a verdict is wrong. Takes some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from support.known_causes import CAUSES, HEAD, judged, load
from support.stack import Stack

parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
parser.add_argument("names", nargs="*", help="of trainings; all by default")
parser.add_argument("--parts", action="store_true", help="print the parts of each step as well")
args = parser.parse_args()

chosen = [cause for cause in CAUSES if not args.names or cause.name in args.names]
num_wrong = num_undecided = 0
with tempfile.TemporaryDirectory(prefix="mkk", ignore_cleanup_errors=True) as folder:
    stack = Stack(Path(folder) / "home", agents=1)
    try:
        stack.start()
        print(HEAD)
        with stack.client() as client:
            for cause in chosen:
                found = judged(client, cause)
                num_wrong += not found.is_right
                num_undecided += found.is_undecided
                print(found.row(), flush=True)
                if args.parts:
                    print(json.dumps({k: round(v, 1) for k, v in found.parts.items()}), flush=True)
    finally:
        stack.close()
print(f"\n{len(chosen)} trainings: {num_wrong} wrong, {num_undecided} undecided; load {load()}")
sys.exit(num_wrong > 0)
