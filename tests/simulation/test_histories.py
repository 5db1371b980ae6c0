"""Thousands of histories in which things go wrong, and one that must come out the same twice."""

import json
import os
import subprocess
import sys

import pytest

from support.simulation.reports import replay_command

pytestmark = pytest.mark.timeout(1800)
TELLING = 31
"""A seed in which a node is cut off for long."""
EVERY = int(os.environ.get("MUSTER_SIMULATION_EVERY", "3"))
"""One in so many of the histories in which a promise was once broken is played; 1 plays them all."""
ONCE_BROKEN_BY_OUTAGES = {
    107: "a late heartbeat made a new credential void",
    136: "a poll from before the outage hung",
    304: "a poll hung at one of two servers",
    187: "the searcher stops trials",
    598: "calls that a frozen server had kept ended the silence before the agents did",
    25076: "the answer to a poll was lost in an outage between two heartbeats",
    25082: "passes as far apart as heartbeats missed every other one",
    26916: "the node crashed under a trial that still ran",
}
ONCE_BROKEN = {
    24384: "a node was given up sooner than a short outage and two heartbeats last",
    20940: "of two overlapping cuts, the second gave back what the first took away",
    40356: "a late copy of a heartbeat made the credential void that was in use",
    20376: "a heartbeat from before its disk was wiped came late and gave the node a lease",
    60283: "a late registration was still under way when everything worked again",
    200: "the database goes away between loading and applying",
    296: "a node boots again, and the server's clock is set back",
    705: "the clock is set back before a restart is decided",
    626: "nobody is heard, which shows only after a lease",
    1356: "the same, with a server that crashes",
    1248: "a cut ended with all other faults, and nobody noted when",
    1414: "a node waited for the lost answer to its registration",
    877: "an empty disk is handed what ran on it, before a controller has looked",
}
"""Histories in which a promise was broken, or seemed to be, and why."""


def simulate(*arguments, hash_seed="0"):
    command = [sys.executable, "-m", "support.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_every_promise_is_kept_in_every_history():
    done = simulate("--seeds", os.environ.get("MUSTER_SIMULATION_SEEDS", "1:13"))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_outage_of_the_control_plane_costs_nothing():
    """Its long form: python -m support.simulation --seeds 1:10001 --outages"""
    done = simulate("--outages", "--seeds", os.environ.get("MUSTER_SIMULATION_OUTAGES", "1:5"))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("seeds", "options"),
    [(ONCE_BROKEN, []), (ONCE_BROKEN_BY_OUTAGES, ["--outages"])],
    ids=["faults", "outages"],
)
def test_what_was_broken_once_stays_mended(seeds, options):
    played = list(seeds)[::EVERY]
    done = simulate(*options, "--seed", *map(str, played))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("every promise was kept") == len(played)


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
