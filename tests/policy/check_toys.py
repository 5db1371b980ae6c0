"""Uses the toys of the recipes, in the copy of the tree that `test_recipes.py` puts them into."""

from __future__ import annotations

import json
from pathlib import Path

from muster_server.domain.notifications.kinds import kind_of
from muster_server.domain.providers.options import options_of
from muster_server.domain.search.simulate import simulate
from muster_server.loops.batch_systems.choosing import system_of
from muster_server.services.documents import resolve, search_spec

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "examples/documents/search-twice.yaml"


def names(client, section, key):
    return [one[key] for one in client.get("/api/v1/catalog").json()[section]]


def test_search_method(member_client, muster):
    document = DOCUMENT.read_text()
    resolved = resolve(document)
    assert resolved.config is not None, resolved.problems
    spec = search_spec(resolved.config)
    assert spec.trials == 2
    played = simulate(spec, lambda no, hparams, units: 1 / units)
    assert played.units_by_trial == {1: 3, 2: 3}
    preview = member_client.post("/api/v1/experiments:preview", json={"document": document}).json()
    assert (preview["errors"], preview["num_trials"]) == ([], 2)
    made = member_client.post("/api/v1/experiments", json={"document": document})
    assert made.json()["searcher"] == "twice"
    assert "twice" in names(member_client, "search_methods", "name")
    assert "Two drawn points." in muster("catalog", "methods").output
    assert muster("validate", str(DOCUMENT)).exit_code == 0


def test_notification(member_client, muster):
    assert kind_of("trial.slow", None) == "trial.slow"
    assert "trial.slow" in names(member_client, "notified_events", "kind")
    assert "a trial is slow" in muster("catalog", "events").output
    assert muster("notify", "on", "trial.slow").exit_code == 0
    assert "trial.slow" in muster("notify", "rules").output


def test_provider(member_client, muster):
    assert "shelf" in names(member_client, "providers", "kind")
    assert "shelf" in muster("catalog", "providers").output
    url = ("--provider", "shelf", "--server-url", "http://10.0.0.5:8470")
    made = muster("pool", "create", "books", *url, "--option", "row=7", "--json", as_="admin")
    assert json.loads(made.output)["name"] == "Shelf row 7"
    given = options_of({"server_url": "http://10.0.0.5:8470"}, "shelf")
    assert type(system_of(given)).__name__ == "Shelf"
