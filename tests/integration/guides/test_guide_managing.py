"""The guide to managing experiments, as a reader follows it. See guides.py."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from support.guides import run_guide
from support.stack import Stack

pytestmark = pytest.mark.torch


def check_managing(stack: Stack) -> None:
    """One curve through pause and continue; the fork starts from its end; what is bounded ended."""
    with stack.client() as client:
        newest = client.pages("/experiments", q="", limit=20)
        named = {e["name"]: e for e in reversed(list(itertools.islice(newest, 20)))}
        for name, begins, ends in (("first", 1, 60), ("further", 61, 80), ("tuned-again", 1, 20)):
            (trial,) = client.trials(named[name]["id"])
            curve = client.get(f"/trials/{trial['id']}/series", name="train/loss", rank=0)
            assert curve["series"][0]["step"] == list(range(begins, ends + 1)), name
        assert client.experiment(named["bounded"]["id"])["budget"]["limits"][0]["limit"] == 20
        assert "again" not in named, "deleted"


def test_every_command_of_it_works(stack: Stack, tmp_path: Path) -> None:
    run_guide(stack, "managing.md", tmp_path)
    check_managing(stack)
