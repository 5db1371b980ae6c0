"""What versions of Muster have stored of a document is read, completed and written alike."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.document.codec import dump, load, unknown_keys
from muster.document.experiment import ExperimentConfig
from muster_server.services.documents import resolve

TESTS = Path(__file__).resolve().parents[2]
DATABASES = sorted((TESTS / "databases").glob("*.sqlite.sql.gz"))
EXAMPLES = sorted((TESTS.parent / "examples").glob("*/experiment.yaml"))


def stored(file: Path) -> list[dict[str, Any]]:
    """The configurations in a recorded database."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(gzip.decompress(file.read_bytes()).decode())
        rows = connection.execute("SELECT config FROM experiments ORDER BY id")
        return [json.loads(config) for (config,) in rows]


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Paths of what another version stored that is not the same any more."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            here = f"{path}.{key}"
            yield from lost(value, after[key], here) if key in after else [here]
    elif before != after:
        yield path


@pytest.mark.parametrize("file", DATABASES, ids=lambda file: file.name)
def test_what_older_versions_have_stored_is_kept_and_completed(file: Path) -> None:
    configs = stored(file)
    assert configs
    for config in configs:
        completed = dump(load(ExperimentConfig, config))
        assert list(lost(config, completed)) == []
        assert list(unknown_keys(ExperimentConfig, config)) == []
        assert dump(load(ExperimentConfig, completed)) == completed


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_a_resolved_document_is_written_with_every_key(file: Path) -> None:
    config = resolve(file.read_text()).config
    assert config is not None
    plain = json.loads(json.dumps(dump(config)))
    assert load(ExperimentConfig, plain) == config
    assert dump(load(ExperimentConfig, plain)) == plain


def test_keys_that_are_missing_or_null_take_their_defaults() -> None:
    found = load(ExperimentConfig, {"name": "x", "restarts": None, "search": {"seed": 3}})
    assert found.restarts.infra == 3
    assert (found.search.seed, found.search.method) == (3, "single")
    assert (found.trainer, found.stop_grace_s) == (None, 30.0)


def test_keys_that_this_version_does_not_have_are_dropped_and_can_be_named() -> None:
    given = {
        "name": "x",
        "colour": 1,
        "search": {"hold": {}, "seed": 1},
        "checkpoints": {"async": 0},
    }
    assert list(unknown_keys(ExperimentConfig, given)) == ["colour", "search.hold"]
    assert "colour" not in dump(load(ExperimentConfig, given))
