"""What tests of all providers use: a lab, a stack whose pools it supplies, and what the server says of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from support.quick_stack import QuickStack
from support.stack import started


class Lab(Protocol):
    """A batch system of the test's own."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def processes(self) -> list[Any]: ...


AnyLab = TypeVar("AnyLab", bound=Lab)


@contextmanager
def running(prefix: str, make: Callable[[Path], AnyLab]) -> Iterator[AnyLab]:
    """A lab in a new folder, until the end of the block. Raises AssertionError if it leaves processes."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        lab = make(Path(folder))
        try:
            lab.start()
            yield lab
        finally:
            lab.stop()
        assert lab.processes() == []


def stack_of(variables: Mapping[str, str]) -> AbstractContextManager[QuickStack]:
    """One node that stays in the pool `default`; what waits in another needs pilots. variables: of the
    controller."""
    return started(
        lambda home: QuickStack(home, agents=1, slots=1, environment={"controller": variables})
    )


def submit(stack: QuickStack, document: str) -> int:
    with stack.client() as client:
        return int(client.post("/experiments", {"document": document})["id"])


def trials_of(stack: QuickStack, experiment_id: int) -> list[Any]:
    with stack.client() as client:
        found = list(client.pages(f"/experiments/{experiment_id}/trials"))
        return [client.get(f"/trials/{trial['id']}") for trial in found]


def trial_of(stack: QuickStack, experiment_id: int) -> dict[str, Any]:
    trial: dict[str, Any]
    (trial,) = trials_of(stack, experiment_id)
    return trial


def pilots_of(stack: QuickStack, pool: str = "gpu") -> list[Any]:
    with stack.client() as client:
        return list(client.pages(f"/pools/{pool}/pilots"))


def nodes_of(stack: QuickStack) -> list[str]:
    with stack.client() as client:
        return [node["name"] for node in client.pages("/nodes") if node["is_pilot"]]
