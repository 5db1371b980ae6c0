"""`python -m muster.inference.predict`: let a version of a model predict many rows."""

from __future__ import annotations

import sys

from muster.inference.launching import ModelJob, run_program


def predict(job: ModelJob) -> None:
    """Predict rows until none is left. torch is imported in a process of its own."""
    from muster.inference.batch.worker import ShardWorker

    ShardWorker(job).run()


if __name__ == "__main__":
    sys.exit(run_program("predict", predict))
