"""Settings that an agent cannot use: the program ends at once and names them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster_agent.cli import EXIT_SETTINGS


def run(module: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**environment, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", ["check", "run"])
def test_an_agent_names_wrong_and_misspelt_settings(tmp_path: Path, command: str) -> None:
    result = run(
        "muster_agent.cli",
        command,
        MUSTER_AGENT_HOME=str(tmp_path),
        MUSTER_AGENT_SERVER_URL="server",
        MUSTER_AGENT_ISOLATON="sandbox",
        MUSTER_AGENT_BODY_MAX_BYTES="1048576",  # the server's
    )
    assert result.returncode == EXIT_SETTINGS
    assert "MUSTER_AGENT_ISOLATON: there is no such setting" in result.stderr
    assert "did you mean MUSTER_AGENT_ISOLATION?" in result.stderr
    assert "MUSTER_AGENT_SERVER_URL: Value error, must be a URL" in result.stderr
    assert "BODY_MAX" not in result.stderr
    assert "Traceback" not in result.stderr


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "agent"
    result = run(
        "muster_agent.cli",
        "check",
        MUSTER_AGENT_HOME=str(home),
        MUSTER_AGENT_SERVER_URL="http://127.0.0.1:1",
    )
    assert result.returncode == EXIT_SETTINGS
    assert result.stderr.strip() == f"muster-agent: MUSTER_AGENT_HOME={home}: Not a directory"


def test_muster_up_names_misspelt_settings_of_its_agents(tmp_path: Path) -> None:
    result = run("muster.cli", "up", "--home", str(tmp_path), MUSTER_AGENT_JOB_RAEDS="/data")
    assert result.returncode == 1
    assert "did you mean MUSTER_AGENT_JOB_READS?" in result.stderr
    assert list(tmp_path.iterdir()) == []
