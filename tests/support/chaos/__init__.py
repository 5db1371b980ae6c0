"""Real trainings on a real stack in which everything fails, and what must still be true.

    python -m support.chaos --minutes 5 --seed 1 --database postgres

The order of blows follows from the seed; what they hit at that moment does not altogether:

* parts are killed (SIGKILL) or frozen (SIGSTOP, for less than a lease): API server, controller,
  Celery worker, Redis-compatible server, agents, PostgreSQL; Redis forgets all it holds;
* the way between an agent and the server is cut: silently, in one direction, with connections
  that end, or by being slow; in a run of minutes now and then for longer than a lease;
* the disk of the agents, of the checkpoints or of the server is full for a while (only where this
  process may mount one);
* shims and ranks of trainings are killed or frozen. Whatever costs a trial a restart is done a few
  times only.

Then everything is left alone, and judged:

* every trial completes, and its visible curve is the one of an undisturbed training, point by point;
* no rank of a trial ever ran twice at once: each holds a lock of the kernel while it lives;
* every slot is free, every allocation cleaned, and no process is left when Muster ends.

Needs the `local` extra.
"""

from .judge import judge_curve, judge_tables
from .run import Report, run

__all__ = ["Report", "judge_curve", "judge_tables", "run"]
