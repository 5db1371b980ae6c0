"""Thousands of histories in which things go wrong, and one that must come out the same twice."""

import json
import os
import subprocess
import sys

import pytest

from muster_server.testing.simulation.reports import replay_command

pytestmark = pytest.mark.timeout(1800)
TELLING = 31
"""A seed in which a node is cut off for long."""


def simulate(*arguments, hash_seed="0"):
    command = [sys.executable, "-m", "muster_server.testing.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_every_promise_is_kept_in_every_history():
    done = simulate("--seeds", os.environ.get("MUSTER_SIMULATION_SEEDS", "1:51"))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_outage_of_the_control_plane_costs_nothing():
    """Its long form: python -m muster_server.testing.simulation --seeds 1:10001 --outages"""
    done = simulate("--outages", "--seeds", os.environ.get("MUSTER_SIMULATION_OUTAGES", "1:13"))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_is_always_the_same_history():
    first, again = (
        simulate("--seed", str(TELLING), "--json", hash_seed=seed) for seed in ("0", "1234")
    )
    assert first.returncode == again.returncode == 0, first.stdout + first.stderr
    assert json.loads(first.stdout)["fingerprint"] == json.loads(again.stdout)["fingerprint"]


def test_a_timeline_tells_what_went_wrong_and_what_followed():
    done = simulate("--seed", str(TELLING), "--trace")
    assert "is cut off" in done.stdout
    assert "every promise was kept" in done.stdout
    assert replay_command(TELLING).endswith("--seed 31 --trace")
