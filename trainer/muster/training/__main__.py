"""Entry point of the built-in trainer. Exit code 0 also when stopped early, 2 for a bad document."""

from __future__ import annotations

import signal
import sys

import muster
from muster.training.config import ConfigError, resolve


def main() -> int:
    run = muster.init()
    # Before torch is imported, which takes seconds: an early stop must not look like a crash.
    signal.signal(signal.SIGTERM, lambda *_: run.request_stop("received SIGTERM"))
    try:
        config = resolve(run.config, run.hparams, seed=run.seed)
        from muster.training.loop import train

        train(run, config)
    except ConfigError as error:
        run.message(str(error), "error")
        print(f"muster: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
