"""The experiment document: what a user writes, with every default.

Field docs below are the reference (docs/reference/experiment-document.md is made from them).
Checks across fields are in services/documents/checks.py, so that each can name its path.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from muster_server.schemas.base import Name, SafeStr

from .common import MAX_SLOTS, Section, Text
from .running import Budget, Checkpoints, Code, Environment, Measure, Preflight, Resources, Restarts
from .searching import MAX_TRIALS, From, Search, SearchLength
from .training import Mesh, Strategy, Trainer

__all__ = [
    "MAX_SLOTS",
    "MAX_TRIALS",
    "Budget",
    "Document",
    "Mesh",
    "Resources",
    "Search",
    "SearchLength",
    "Strategy",
    "Trainer",
]


class Document(Section):
    """One experiment."""

    name: Name
    """What it is called; need not be unique."""
    project: Annotated[SafeStr, Field(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")] = (
        "default"
    )
    """Project it belongs to; made when it does not exist."""
    labels: Annotated[
        dict[
            Annotated[SafeStr, Field(min_length=1, max_length=64)],
            Annotated[SafeStr, Field(max_length=256)],
        ],
        Field(max_length=64),
    ] = {}
    """Labels to find it by (`{team: vision}`)."""
    notes: Annotated[SafeStr, Field(max_length=100_000)] = ""
    """Free text, Markdown."""
    entrypoint: list[Text] | None = None
    """What to run: `train.py --epochs 3` or `-m package.module`, as text or as a list of
    arguments. Split like a shell would, but no shell runs: no pipes, no variables. This or
    `trainer`."""
    trainer: Trainer | None = None
    """Train with the built-in trainer. This or `entrypoint`."""
    code: Code | None = None
    """Where the code comes from."""
    resources: Resources = Resources()
    """What one trial needs."""
    strategy: Strategy = Strategy()
    """How workers share the work."""
    hyperparameters: dict[SafeStr, Any] = {}
    """Constants and spaces: `{log: [lo, hi]}`, `{uniform: [lo, hi]}`, `{int: [lo, hi], step: 1}`,
    `{choice: [...]}`, `{const: value}`, nested as you like. `count` beside log, uniform and int
    is the number of values a grid takes of it."""
    search: Search = Search()
    """How trials are chosen."""
    budget: Budget | None = None
    """What it may cost. Default: as much as its project."""
    from_: Annotated[From | None, Field(alias="from")] = None
    """Start from a checkpoint of another experiment (warm start, fine-tuning)."""
    restarts: Restarts = Restarts()
    """How failures are retried."""
    checkpoints: Checkpoints = Checkpoints()
    """When and where checkpoints are saved."""
    environment: Environment = Environment()
    """Interpreter and variables."""
    launcher: Literal["torchrun", "direct"] = "torchrun"
    """`torchrun`, or `direct`: the agent starts one process per slot itself, with the same
    environment variables."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """What a node does with its workers when it cannot reach the server for longer than its
    lease: `continue` training, or `stop` so that the trial may be placed elsewhere."""
    stop_grace_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds between asking workers to stop and killing them."""
    preflight: Preflight = Preflight()
    """What is made sure of before the start."""
    measure: Measure = Measure()
    """What is measured."""
    log_limit_mb: Annotated[int, Field(ge=1, le=10_240)] = 100
    """Log kept per worker and stream, in MB; past it the log is cut, with a marker."""
