"""Every setting is documented, and a wrong one is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from muster_agent.settings import AgentSettings
from muster_server.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "settings.md"


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


def test_settings_can_be_printed_without_their_secrets():
    settings = Settings(
        database_url="postgresql+psycopg://u:canary1@h/d", redis_url="redis://:canary2@h/0"
    )
    assert "canary" not in repr(settings)
    assert "canary" not in str(settings)
