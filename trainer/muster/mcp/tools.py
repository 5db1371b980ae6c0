"""The table of tools: what an assistant can ask for and do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import acting, reading
from .answers import AnswerLine


@dataclass(frozen=True)
class AssistantTool:
    """A tool for assistants."""

    run: Callable[..., Iterable[AnswerLine]]
    """Function that takes the client and the arguments, and returns the lines of the answer."""
    acts: bool = False
    """Whether it changes something; offered only where actions are allowed."""
    is_local: bool = False
    """Whether it reads files of the machine it runs on, and so is not offered by a server."""


TOOLS = (
    AssistantTool(reading.cluster),
    AssistantTool(reading.list_experiments),
    AssistantTool(reading.show),
    AssistantTool(reading.list_trials),
    AssistantTool(reading.read_document),
    AssistantTool(reading.logs),
    AssistantTool(reading.metrics),
    AssistantTool(reading.compare),
    AssistantTool(reading.performance),
    AssistantTool(reading.diagnosis),
    AssistantTool(reading.queue),
    AssistantTool(reading.goodput),
    AssistantTool(reading.events),
    AssistantTool(reading.checkpoints),
    AssistantTool(reading.preview),
    AssistantTool(reading.read_docs),
    AssistantTool(acting.submit, acts=True),
    AssistantTool(acting.submit_folder, acts=True, is_local=True),
    AssistantTool(acting.fork_experiment, acts=True),
    AssistantTool(acting.continue_experiment, acts=True),
    AssistantTool(acting.stop, acts=True),
    AssistantTool(acting.pause, acts=True),
    AssistantTool(acting.resume, acts=True),
    AssistantTool(acting.start_diagnosis, acts=True),
)
