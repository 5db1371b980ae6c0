"""The command."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from . import __doc__ as what
from .run import run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m support.chaos", description=(what or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="of blows (default: 5)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2), "big"))
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--only", default="", help="regular expression of kinds, such as link|fill")
    parser.add_argument("--quiet", action="store_true", help="say nothing but the report")
    options = parser.parse_args()
    if not 0 < options.minutes <= 24 * 60:
        parser.error("--minutes: must be more than 0 and at most 1440")
    began_at = time.monotonic()

    def say(text: str) -> None:
        if not options.quiet:
            print(f"{time.monotonic() - began_at:7.1f} s  {text}", file=sys.stderr, flush=True)

    say(f"seed {options.seed}")
    report = run(
        seed=options.seed,
        duration_s=60 * options.minutes,
        database=options.database,
        only=options.only,
        say=say,
    )
    print(report)
    return 1 if report.problems else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
