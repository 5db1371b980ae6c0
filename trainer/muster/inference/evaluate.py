"""`python -m muster.inference.evaluate`: judge a version of a model by samples."""

from __future__ import annotations

import sys

from muster.inference.launching import ModelJob, run_program


def evaluate(job: ModelJob) -> None:
    """Judge the version, and report metrics, speed and the data's digest."""
    from muster.inference.judging import judge

    judge(job)


if __name__ == "__main__":
    sys.exit(run_program("evaluate", evaluate))
