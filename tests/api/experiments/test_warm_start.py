"""Searches that begin with what earlier ones have found, and what a search will take."""

from __future__ import annotations

import pytest

EARLIER = """
name: earlier
hyperparameters: {lr: {log: [1e-4, 1e-1]}, width: {choice: [8, 16]}, unused: {uniform: [0, 1]}}
search: {method: random, runner: external, metric: val/loss, goal: min, trials: 6, concurrent: 6}
"""
LATER = """
name: later
trainer: {}
hyperparameters: {lr: {log: [1e-4, 2e-1]}, width: {choice: [8, 16]}, data: digits}
search: {method: random, metric: val/loss, goal: min, trials: 8, concurrent: 3,
  warm_start: {experiments: [1], top: 2}}
"""


@pytest.fixture
def submit(member_client):
    def make(document, *overrides, operation="", status=201):
        body = {"document": document, "overrides": list(overrides)}
        reply = member_client.post(f"/api/v1/experiments{operation}", json=body)
        assert reply.status_code == status, reply.text
        return reply.json()

    return make


@pytest.fixture
def earlier(member_client, submit):
    """Experiment 1, of which trial n has come to n / 10 and the last one has failed."""
    path = f"/api/v1/experiments/{submit(EARLIER)['id']}"
    trials = member_client.post(f"{path}/search:ask", json={"count": 6}).json()["trials"]
    for trial in trials:
        state = "failed" if trial["no"] == 6 else "completed"
        body = {"no": trial["no"], "metrics": {"val/loss": trial["no"] / 10}, "state": state}
        assert member_client.post(f"{path}/search:tell", json=body).status_code == 200
    return {trial["no"]: trial["hparams"] for trial in trials}


def points(client, experiment_id):
    items = client.get(f"/api/v1/experiments/{experiment_id}/trials?sort=no").json()["items"]
    return [trial["hparams"] for trial in sorted(items, key=lambda t: t["no"])]


def test_the_best_earlier_points_are_tried_first_and_the_sampler_knows_them_all(
    member_client, submit, earlier
):
    first = [
        {"lr": earlier[n]["lr"], "width": earlier[n]["width"], "data": "digits"} for n in (1, 2)
    ]
    shown = submit(LATER, operation=":preview", status=200)
    assert [trial["hparams"] for trial in shown["sampled_trials"][:2]] == first
    made = submit(LATER)
    assert points(member_client, made["id"])[:2] == first
    events = member_client.get(f"/api/v1/experiments/{made['id']}/events").json()["items"]
    (said,) = [event["message"] for event in events if event["type"] == "search.warmed"]
    assert said == (
        "Warm start: 5 of 5 earlier trials fit into this space; 2 are tried first, and the sampler "
        "is told of 5."
    )
    # A narrower space leaves out what is not in it.
    narrow = submit(LATER, f"hyperparameters.lr={{log: [{earlier[3]['lr'] * 0.999}, 1]}}")
    assert all(p["lr"] >= earlier[3]["lr"] * 0.999 for p in points(member_client, narrow["id"]))


def test_a_sampler_that_learns_begins_where_the_earlier_search_ended(submit, earlier):
    several = ("search.trials=20", "search.sampler=cmaes", "hyperparameters.width={int: [8, 16]}")
    warm = submit(LATER, *several, "search.warm_start.top=0", operation=":preview", status=200)
    cold = submit(LATER, *several, "search.warm_start=null", operation=":preview", status=200)
    assert len(warm["sampled_trials"]) == len(cold["sampled_trials"]) == 3
    assert warm["valid"]


@pytest.mark.parametrize(
    ("override", "path", "message"),
    [
        ("search.warm_start.experiments=[99]", "experiments", "experiment 99 does not exist"),
        ("search.metric=val/accuracy", "experiments", "experiment 1 compares by val/loss (min)"),
        ("hyperparameters.depth={int: [1, 4]}", "experiments", "none of their 5 trials"),
        ("search.method=grid", "warm_start", "has no effect with search.method: grid"),
        ("search.warm_start.top=9", "top", "more than the 8 trials"),
        ("search.warm_start.top=0", "warm_start", "random does not learn from trials"),
    ],
)
def test_what_cannot_be_taken_over_is_refused(submit, earlier, override, path, message):
    shown = submit(LATER, override, operation=":preview", status=200)
    found = {error["path"].rsplit(".", 1)[-1]: error["message"] for error in shown["errors"]}
    assert message in found[path]


def test_a_preview_says_what_a_search_will_take(submit):
    hyperband = """
name: costly
trainer: {}
resources: {slots: 2}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: hyperband, metric: val/loss, goal: min, max_length: {epochs: 81}, divisor: 3,
  concurrent: 143}
"""
    unknown = submit(hyperband, operation=":preview", status=200)["search_cost"]
    # Brackets of 81, 34, 15, 8 and 5 trials, each going on from where it was (see concepts/search).
    assert (unknown["total_units"], unknown["full_units"]) == (1581, 143 * 81)
    assert (unknown["slot_hours"], unknown["unit_s_from"]) == (None, "")
    stated = submit(
        hyperband, "search.unit_s=36", "budget={slot_hours: 31}", operation=":preview", status=200
    )["search_cost"]
    assert stated["slot_hours"] == pytest.approx(1581 * 36 * 2 / 3600)
    assert (stated["within_budget"], stated["cost"]) == (False, None)
    # All at once: as long as the slowest, who trains in full.
    assert stated["duration_s"] == pytest.approx(81 * 36)
    timed = submit(
        hyperband, "search.max_length={seconds: 81}", "trainer.epochs=9", operation=":preview",
        status=200,
    )["search_cost"]  # fmt: skip
    assert (timed["unit_s"], timed["unit_s_from"]) == (1.0, "search.max_length")
    assert timed["slot_hours"] == pytest.approx(1581 * 2 / 3600)
