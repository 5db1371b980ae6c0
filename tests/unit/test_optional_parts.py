"""Which optional parts a process takes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any

import pytest

import muster
from muster_server import parts


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    parts.installed.cache_clear()
    yield
    parts.installed.cache_clear()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Make the distribution of the models the only one that offers a part."""
    information = folder / f"muster_models-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Name: muster-models\nVersion: {version}\n")
    (information / "entry_points.txt").write_text("[muster.parts]\nmodels = muster_models:PART\n")
    points = Distribution.at(information).entry_points

    def offered(*, group: str) -> list[EntryPoint]:
        return list(points.select(group=group))

    monkeypatch.setattr(parts, "entry_points", offered)


def test_a_part_of_the_same_version_is_taken(tmp_path: Path, monkeypatch: Any) -> None:
    install(tmp_path, monkeypatch, muster.__version__)
    assert [part.name for part in parts.installed()] == ["models"]


def test_a_part_of_another_version_ends_the_start_with_a_sentence(
    tmp_path: Path, monkeypatch: Any
) -> None:
    install(tmp_path, monkeypatch, "0.0.9")
    with pytest.raises(
        SystemExit, match=r"muster-models 0\.0\.9 does not fit Muster .*: install both"
    ):
        parts.installed()
