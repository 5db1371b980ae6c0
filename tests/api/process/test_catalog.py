"""What a server knows by name is told to pages and to the command line."""

from __future__ import annotations

import json
from typing import get_args

from muster.document.searching import Method
from muster_server.domain.notifications.kinds import RuleKind
from muster_server.domain.providers.options import ProviderKind, options_of


def test_the_catalog_has_every_method_event_and_provider(viewer_client):
    found = viewer_client.get("/api/v1/catalog").json()
    assert [one["name"] for one in found["search_methods"]] == list(get_args(Method))
    assert [one["kind"] for one in found["notified_events"]] == list(get_args(RuleKind))
    assert [one["kind"] for one in found["providers"]] == list(get_args(ProviderKind))
    titled = (*found["search_methods"], *found["notified_events"])
    assert all(one["title"]["en"] and one["title"]["zh"] for one in titled)


def test_the_options_of_a_provider_are_those_it_takes(viewer_client):
    (slurm,) = (
        one
        for one in viewer_client.get("/api/v1/catalog").json()["providers"]
        if one["kind"] == "slurm"
    )
    given = {
        "server_url": "http://10.0.0.5:8470",
        "folder": "/shared",
        "agent": "/opt/muster-agent",
    }
    needed = [one["name"] for one in slurm["options"] if one["is_required"]]
    assert sorted(given) == sorted(needed)
    assert slurm["options"][: len(needed)] == [o for o in slurm["options"] if o["is_required"]]
    flags = {one["name"]: "yes" for one in slurm["options"] if one["kind"] == "flag"}
    assert flags == {"share_nodes": "yes"}
    assert options_of({**given, **flags}).share_nodes == "yes"


def test_the_command_line_lists_the_catalog(muster):
    assert "asha" in muster("catalog", "methods").output
    assert "trial.failed" in muster("catalog", "events").output
    assert "partition" in muster("catalog", "providers").output
    assert [
        one["kind"] for one in json.loads(muster("catalog", "events", "--json").output)
    ] == list(get_args(RuleKind))


def test_an_option_of_a_provider_is_given_by_its_name(muster):
    given = ("--server-url", "http://10.0.0.5:8470", "--folder", "/shared", "--agent", "/opt/m")
    made = muster(
        "pool", "create", "a100", *given, "--option", "partition=a100", "--json", as_="admin"
    )
    assert json.loads(made.output)["name"] == "Slurm partition a100"
    refused = muster("pool", "create", "a100", *given, "--option", "partition", as_="admin")
    assert "NAME=VALUE" in str(refused.exception)
