"""`muster mcp` and its tools without a server: what is missing or wrong is said."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from mcp.client import Client as Assistant

from muster.client import Client, Target
from muster.mcp.serving import assistant_server


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """`ask(tool, **arguments)` calls a tool, from a folder without anything; the text of its error."""
    monkeypatch.chdir(tmp_path)

    def call(tool, **arguments):
        async def talk():
            with Client(Target("http://127.0.0.1:1", "t", "the test"), retry_for_s=0.0) as client:
                server = assistant_server(lambda: client, allows_actions=True, is_local=True)
                async with Assistant(server) as assistant:
                    reply = await assistant.call_tool(tool, arguments)
            assert reply.is_error
            return reply.content[0].text

        return asyncio.run(talk())

    return call


def test_without_the_sdk_the_command_says_what_to_install():
    program = "import sys; sys.modules['mcp'] = None; from muster.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "mcp"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "needs the package 'mcp', which is not installed" in ended.stderr
    assert 'hint: pip install "muster-train[mcp]"' in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("show", {"subject": "12", "verbose": True}, "verbose\n  Extra inputs are not permitted"),
        ("show", {"subject": "twelve"}, "subject\n  String should match pattern"),
        (
            "logs",
            {"subject": "12", "tail": 5000},
            "tail\n  Input should be less than or equal to 2000",
        ),
        ("show", {"subject": 12}, "No Muster server answers at http://127.0.0.1:1"),
        ("submit", {"document": "a", "files": {"../a.py": ""}}, "'../a.py' is no relative path"),
        ("submit", {"document": "a", "files": {"a": "", "a/b": ""}}, "'a/b' cannot be written: "),
        (
            "submit",
            {"document": "a", "files": {"a": "x" * 300_000}},
            "at most 50 files with 262,144",
        ),
        ("submit_folder", {"document": "a", "folder": "/etc"}, "'/etc' is outside "),
    ],
)
def test_a_wrong_call_is_told_what_would_work(ask, tool, arguments, told):
    assert told in ask(tool, **arguments)
