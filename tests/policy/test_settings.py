"""Every setting is documented, and a wrong one is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from muster.launch import known_variables
from muster_agent.settings import AgentSettings
from muster_server.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "settings.md"
NO_VARIABLES: list[str] = []
"""Words in the sources that only look like variables."""


@pytest.mark.parametrize(
    ("settings", "prefix"), [(Settings, "MUSTER_"), (AgentSettings, "MUSTER_AGENT_")]
)
def test_every_setting_is_on_the_page(settings, prefix):
    text = PAGE.read_text()
    assert [n for n in settings.model_fields if f"`{prefix}{n.upper()}`" not in text] == []


def test_every_server_setting_says_what_it_means():
    assert [n for n, f in Settings.model_fields.items() if not f.description] == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PORT", "99999", "less than or equal to 65535"),
        ("PORT", "http", "valid integer"),
        ("LOG_FORMAT", "xml", "'auto', 'console' or 'json'"),
        ("PUBLIC_URL", "muster.example", "must look like https://muster.example"),
        (
            "METRIC_COLD_URL",
            "cold/metrics",
            "must be an absolute path, s3://bucket/prefix or gs://",
        ),
        (
            "METRIC_COLD_URL",
            "s3://key:secret@bucket",
            "must be an absolute path, s3://bucket/prefix",
        ),
    ],
)
def test_a_wrong_setting_names_variable_value_and_form(monkeypatch, name, value, says):
    from muster_server.settings import explain

    monkeypatch.setenv(f"MUSTER_{name}", value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    (line,) = explain(caught.value)
    assert f"MUSTER_{name}='{value}'" in line or name == "PUBLIC_URL"
    assert says in line


def test_an_age_of_cold_metrics_needs_a_place_for_them(monkeypatch):
    monkeypatch.setenv("MUSTER_METRIC_COLD_DAYS", "30")
    with pytest.raises(ValidationError, match="DAYS needs MUSTER_METRIC_COLD_URL"):
        Settings()
    monkeypatch.setenv("MUSTER_METRIC_COLD_URL", "/srv/muster-metrics")
    assert Settings().metric_cold_days == 30


def test_settings_can_be_printed_without_their_secrets():
    settings = Settings(
        database_url="postgresql+psycopg://u:canary1@h/d", redis_url="redis://:canary2@h/0"
    )
    assert "canary" not in repr(settings)
    assert "canary" not in str(settings)


def _names_in(*folders: str) -> set[str]:
    text = "".join(
        path.read_text(errors="ignore")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py" if folder != "." else "docker-compose.yml"))
        if "static" not in path.parts and "node_modules" not in path.parts
    )
    return set(re.findall(r"\bMUSTER_[A-Z0-9_]*[A-Z0-9]\b", text))


def _misspelt(given, prefix):
    model = Settings if prefix == "MUSTER_" else AgentSettings
    settings = [f"{prefix}{n.upper()}" for n in model.model_fields]
    return known_variables.misspelt_lines(given, settings, prefix)


def test_every_variable_of_muster_is_known_and_no_right_one_is_taken_for_a_misspelling():
    settings = {f"MUSTER_{n.upper()}" for n in Settings.model_fields}
    agent = {f"MUSTER_AGENT_{n.upper()}" for n in AgentSettings.model_fields}
    used = _names_in("agent", "server", "trainer", "scripts")
    used |= set(re.findall(r"\$\{(MUSTER_[A-Z_]*[A-Z])", (ROOT / "docker-compose.yml").read_text()))
    others = {n for n in used - settings - agent if not n.startswith(known_variables.FAMILIES)}
    assert others - known_variables.OTHERS == set(NO_VARIABLES)
    assert {n for n in known_variables.OTHERS if n.startswith("MUSTER_")} <= used
    everything = known_variables.OTHERS | settings | agent
    assert _misspelt(everything, "MUSTER_") == _misspelt(everything, "MUSTER_AGENT_") == []


@pytest.mark.parametrize(
    ("given", "server", "agent"),
    [
        ("MUSTER_LOG_RETENTON_DAYS", "MUSTER_LOG_RETENTION_DAYS", None),
        ("MUSTER_LOGLEVEL", "MUSTER_LOG_LEVEL", None),
        ("muster_prot", "MUSTER_PORT", None),
        ("MUSTER_AGENT_ISOLATON", None, "MUSTER_AGENT_ISOLATION"),
        ("MUSTER_AGNET_SLOTS", None, "MUSTER_AGENT_SLOTS"),
        ("MUSTER_BANANA", None, None),
        ("MUSTER_DATA_TRAIN", None, None),
        ("HOME", None, None),
    ],
)
def test_a_misspelt_setting_is_found_by_the_program_whose_it_is(given, server, agent):
    for meant, prefix in ((server, "MUSTER_"), (agent, "MUSTER_AGENT_")):
        lines = _misspelt([given], prefix)
        assert lines == ([] if meant is None else lines)
        assert (
            meant is None or f"{given}: there is no such setting; did you mean {meant}?" in lines[0]
        )
