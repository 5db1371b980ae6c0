"""Play histories: many at once, or one with everything that happened in it.

python -m support.simulation --seeds 1:5001       seeds 1 to 5,000, on every core
python -m support.simulation --seed 17 --trace    one, as a timeline; further seeds may follow
python -m support.simulation --seeds 1:5001 --outages
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys

from .reports import explain, print_summary, run_many, run_one


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m support.simulation",
        description="Play histories of a simulated cluster and check what Muster promises.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, nargs="+", help="play these histories, one by one")
    what.add_argument("--seeds", type=_seeds, help="play histories FIRST:LAST, the last left out")
    parser.add_argument("--trace", action="store_true", help="with --seed: print the timeline")
    parser.add_argument("--json", action="store_true", help="with --seed: print the result as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--mutation", default="", help="with one safeguard taken out (its name)")
    parser.add_argument(
        "--outages", action="store_true", help="nothing fails but the control plane, then one node"
    )
    options = parser.parse_args()
    _fix_the_order_of_sets()
    if options.seed is not None:
        num_broken = 0
        for seed in options.seed:
            history = run_one(
                seed, traced=options.trace, mutation=options.mutation, outages=options.outages
            )
            print(json.dumps(dataclasses.asdict(history)) if options.json else explain(history))
            num_broken += bool(history.violations)
        return 1 if num_broken else 0
    summary = run_many(
        options.seeds, jobs=options.jobs, mutation=options.mutation, outages=options.outages
    )
    print_summary(summary)
    return 1 if summary.failed else 0


def _seeds(text: str) -> range:
    first, separator, last = text.partition(":")
    if not separator:
        raise argparse.ArgumentTypeError("must be FIRST:LAST, for example 1:101")
    return range(int(first), int(last))


def _fix_the_order_of_sets() -> None:
    """Sets of text are walked in an order that follows from this variable, read at the start."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        arguments = [sys.executable, "-m", "support.simulation", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})


if __name__ == "__main__":
    sys.exit(main())
