"""`muster login` as a person uses it: the command in a terminal, the code in a browser."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.stack import Stack

pytestmark = pytest.mark.browser


@contextmanager
def login(stack: Stack, home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a terminal, which waits, and the page that it names."""
    fd, theirs = pty.openpty()
    command = [sys.executable, "-m", "muster.cli", "login", stack.client().target.url]
    process = subprocess.Popen(
        command,
        env={**Stack.environment(home), "DISPLAY": ""},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    assert process.stderr is not None
    line = process.stderr.readline()
    said = re.search(r"Open (\S+) in .* the code ([A-Z]{4}-[A-Z]{4})", line)
    assert said is not None, line
    assert said[1].endswith(said[2])
    try:
        yield process, said[1]
    finally:
        os.close(fd)


def test_a_command_line_is_signed_in_by_who_confirms_its_code(
    stack: Stack, signed_in: BrowserContext, page: Page, tmp_path: Path
) -> None:
    with login(stack, tmp_path) as (process, url):
        page.goto(url)
        expect(page.get_by_text(re.compile("^muster on "))).to_be_visible()
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_text("The command line is signed in.")).to_be_visible()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads((tmp_path / "cli.json").read_text())["url"] in err + out
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli", "node", "list", "--json"],
        env=Stack.environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_command_line_that_nobody_here_began_is_refused(
    stack: Stack, signed_in: BrowserContext, page: Page, tmp_path: Path
) -> None:
    with login(stack, tmp_path) as (process, url):
        page.goto(url)
        page.get_by_role("button", name="Refuse").click()
        expect(page.get_by_text("The command line was refused.")).to_be_visible()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Somebody has refused this login" in err
    assert not (tmp_path / "cli.json").exists()
