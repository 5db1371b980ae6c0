from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.training.jobs import Job, Start, start_job


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def begin(name: str, **options: Any) -> Job:
        jobs.append(start_job(tmp_path / name, **options))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.kill()


LONG_FILES = ("test_strategies", "test_equivalence", "test_faults")
"""Begun first: the area takes as long as the worker that ends last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else len(LONG_FILES)

    items.sort(key=place)
