"""Entry point of the built-in trainer. Exit code 0 also when stopped early, 2 for a bad document."""

from __future__ import annotations

import atexit
import os
import signal
import sys

import muster
from muster.document.train_config import ConfigError, resolve


def main() -> int:
    run = muster.init()
    # Before torch is imported, which takes seconds: an early stop must not look like a crash.
    signal.signal(signal.SIGTERM, lambda *_: run.request_stop("received SIGTERM"))
    try:
        config = resolve(run.get_config(), run.get_hparams(), seed=run.seed)
        from muster.training.loop import train

        train(run, config)
    except ConfigError as error:
        run.message(str(error), "error")
        print(f"muster: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


class _Ending:
    """Ends the process when everything else that was to be done at the end is done.

    DDP keeps its process group for good (torch 2.13), and a gloo thread that wakes up while the
    interpreter is taken down aborts it: a training that is done would end with SIGABRT.
    """

    code = 1
    """Exit status; 1 after an uncaught exception, whose traceback is already printed."""

    def __call__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(self.code)


if __name__ == "__main__":
    ending = _Ending()
    atexit.register(ending)  # before any other, so that it is called last
    ending.code = main()
