"""Fixtures: a shared stack, and one of a test's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.client import Client
from support.guides import ADDRESS
from support.quick_stack import QuickStack
from support.stack import Stack, started


@pytest.fixture
def new_home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A short path: sockets live elsewhere, but logs and databases are easier to look at."""
    with tempfile.TemporaryDirectory(prefix="muster-it-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "home"


@pytest.fixture
def own_stack(new_home: Path) -> Iterator[Stack]:
    """A stack of the test's own, to be killed; not started yet."""
    stack = Stack(new_home, agents=1)
    yield stack
    stack.close()


@pytest.fixture
def own_quick_stack(new_home: Path) -> Iterator[QuickStack]:
    """A stack of the test's own with short leases: two nodes of one slot, to be cut off."""
    stack = QuickStack(new_home, agents=2, slots=1)
    stack.start()
    yield stack
    stack.close()


@pytest.fixture(scope="session")
def quick_stack() -> Iterator[QuickStack]:
    """Shared, as `stack`, with short leases: two nodes of one slot."""
    with started(lambda home: QuickStack(home, agents=2, slots=1)) as stack:
        yield stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Shared: two nodes of two slots, which other machines could reach. Guides are followed on it.
    Tests leave it as they found it: nothing running."""
    # Gangs that take long to start try their nodes sooner than after a minute.
    environment = {"controller": {"MUSTER_START_PREFLIGHT_S": "10"}}
    with started(lambda home: Stack(home, environment=environment, address=ADDRESS)) as stack:
        yield stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with stack.client() as client:
        yield client


LONG_FILES = (
    "test_slurm",  # it waits out a wall time of a minute, among others
    "test_rolling_upgrade",
    "test_key_rotation",
    "test_control_plane_outage",
    "test_faults",
    "test_guide_managing",
    "test_kubernetes",
    "test_yield",
    "test_truths",
    "test_several_servers",
    "test_guide_placement",
    "test_on_disconnect",
    "test_guides",
    "test_up",
)
"""Begun first when files are dealt out to several workers: none is then left alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else 99

    items.sort(key=place)
